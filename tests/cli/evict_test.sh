#!/usr/bin/env bash
# Proves the eviction classes of a skymemd's memory and of a disk: soon leaves before normal, normal
# before last, last takes no more than half, a URL names the class of puts that name none, ls shows
# it, and a copy that comes nearer keeps it.
. "$(dirname "$0")/common.sh"
socket=$work/d.sock
store=(--store "shm:$socket")
head -c 100000 /dev/urandom >"$work/value"
start_daemon --socket "$socket" --store mem:1MiB # room for 10

put_values() { # CLASS NAME...
    local class=$1 name
    shift
    for name in "$@"; do
        expect 0 "$skymem" put "$name" "$work/value" --evict "$class" "${store[@]}"
    done
}
# held NAME...: these are there, and nothing else
held() {
    expect 0 "$skymem" ls "${store[@]}" --json
    lines_hold "[r['key'] for r in rows] == '$*'.split()"
}

put_values last l1 l2
put_values normal n1 n2 n3 n4
put_values soon s1 s2
put_values normal n5 n6
held l1 l2 n1 n2 n3 n4 n5 n6 s1 s2
put_values normal n7 # the oldest of the lowest class
held l1 l2 n1 n2 n3 n4 n5 n6 n7 s2
put_values soon s3
held l1 l2 n1 n2 n3 n4 n5 n6 n7 s3
put_values normal n8 n9
held l1 l2 n2 n3 n4 n5 n6 n7 n8 n9
put_values normal n10 n11 n12 n13 n14 n15 n16 n17 n18
held l1 l2 n11 n12 n13 n14 n15 n16 n17 n18

# more than half: the oldest of the last are normal, and leave as these do
put_values last l3 l4 l5 l6
held l1 l2 l3 l4 l5 l6 n15 n16 n17 n18
put_values normal n19 n20 n21 n22 n23
held l2 l3 l4 l5 l6 n19 n20 n21 n22 n23

# what is put again is of the class of that put
put_values soon l6 # the old value stays until the new one is there, so n19 leaves
put_values normal n24
held l2 l3 l4 l5 l6 n20 n21 n22 n23 n24
put_values normal n25
held l2 l3 l4 l5 n20 n21 n22 n23 n24 n25

# ls shows it
expect 0 "$skymem" ls "${store[@]}" --json
lines_hold "all(r.get('evict') == 'last' for r in rows if r['key'][0] == 'l')"
lines_hold "all('evict' not in r for r in rows if r['key'][0] == 'n')"
expect 0 "$skymem" ls "${store[@]}"
[ "$(grep -cw last "$work/out")" = 4 ] || fail "the classes of ls: $(cat "$work/out")"

# the class of a client
expect 0 "$skymem" put u1 "$work/value" --store "shm:$socket?evict=soon"
expect 0 "$skymem" put u2 "$work/value" --store "shm:$socket?evict=soon" --evict last
put_values normal n26
expect 3 "$skymem" lookup u1 "${store[@]}"
expect 0 "$skymem" lookup u2 "${store[@]}"
expect 2 "$skymem" ls --store "shm:$socket?evict=never"
says "evict is normal, soon or last"
expect 2 "$skymem" put x "$work/value" --evict never "${store[@]}"
says "must be one of: normal|soon|last"
kill "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"

# of a disk, and of what comes from there to memory
disk=(--store "disk:$work/disk?max=1MiB")
for name in s1 n1 l1; do
    case $name in s1) class=soon ;; n1) class=normal ;; *) class=last ;; esac
    expect 0 "$skymem" put $name "$work/value" --evict $class "${disk[@]}"
done
for n in 2 3 4 5 6 7 8; do # room for 9
    expect 0 "$skymem" put n$n "$work/value" "${disk[@]}"
done
expect 3 "$skymem" lookup s1 "${disk[@]}"
expect 0 "$skymem" lookup n1 "${disk[@]}"
expect 0 "$skymem" lookup l1 "${disk[@]}"
start_daemon --socket "$socket" --store mem:1MiB "${disk[@]}"
expect 0 "$skymem" get l1 "${store[@]}"
expect 0 "$skymem" stat l1 "${store[@]}" --json
holds 'o["tier"] == "shm" and o["evict"] == "last"'
kill "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"
finish

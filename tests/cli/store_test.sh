#!/usr/bin/env bash
# Proves the store verbs: any bytes under any key of 1 to 1,024 bytes, found again by another
# process, with the exit codes and JSON of the contract, and damage that is a miss.
. "$(dirname "$0")/common.sh"
disk=$work/disk
store=(--store mem:16MiB --store "disk:$disk?max=1GiB")

# put and get, by file and by standard input, small, empty and large
printf 'hello' >"$work/small"
: >"$work/empty"
head -c 9000001 /dev/urandom >"$work/large"
for value in small empty large; do
    expect 0 "$skymem" put "v/$value" "$work/$value" "${store[@]}" --json
    bytes=$(stat -c %s "$work/$value")
    holds "o == {'key': 'v/$value', 'bytes': $bytes, 'chunks': 1, 'stored': ['mem', 'disk'],
        'short': False, 'evicted': 0, 'version': 0}"
    expect 0 "$skymem" get "v/$value" "${store[@]}"
    cmp -s "$work/out" "$work/$value" || fail "get v/$value differs"
    "$skymem" put "stdin/$value" "${store[@]}" <"$work/$value" >"$work/out" ||
        fail "put from standard input"
    expect 0 "$skymem" get "stdin/$value" -o "$work/again" "${store[@]}" --json
    holds "o['tier'] == 'disk' and o['bytes'] == $bytes and o['ms'] >= 0"
    cmp -s "$work/again" "$work/$value" || fail "get -o stdin/$value differs"
done
printf 'other' | "$skymem" put v/small "${store[@]}" >/dev/null || fail "put again"
expect 0 "$skymem" get v/small "${store[@]}"
[ "$(cat "$work/out")" = other ] || fail "a put does not replace"
expect 0 "$skymem" get v/small -o - "${store[@]}"
[ "$(cat "$work/out")" = other ] || fail "-o - is not standard output"
for to in "" "-o -"; do
    expect 2 "$skymem" get v/small "${store[@]}" --json $to
    says "-o FILE"
done

# with --json there is one object whatever happens; rows are those that there are
for wrong in "get v/small" "stat nothing" "put" "put k --no-such" "pin --as hex 0f0"; do
    "$skymem" $wrong "${store[@]}" --json >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ "$code" != 0 ] || fail "$wrong succeeds"
    excused "$code"
done
expect 2 "$skymem" ls "${store[@]}" --json --no-such
excused 2

# keys
long=$(printf 'k%.0s' {1..1024})
expect 0 "$skymem" put "$long" "$work/small" "${store[@]}"
expect 0 "$skymem" get "$long" "${store[@]}"
cmp -s "$work/out" "$work/small" || fail "a key of 1,024 bytes"
expect 2 "$skymem" put "${long}k" "$work/small" "${store[@]}"
says "1 to 1024"
expect 2 "$skymem" put "" "$work/small" "${store[@]}"
expect 0 "$skymem" put --as hex 00ff5c0a "$work/small" "${store[@]}" --json
holds 'o["key"] == "\\x00\\xff\\\\\\x0a"'
expect 0 "$skymem" get --as hex 00ff5c0a "${store[@]}"
cmp -s "$work/out" "$work/small" || fail "a key of any bytes"
expect 2 "$skymem" get --as hex 0f0 "${store[@]}"
expect 2 "$skymem" get --as block 1234 "${store[@]}"

# ls, stat
expect 0 "$skymem" ls "${store[@]}" --json
lines_hold '[r["key"] for r in rows] == sorted(r["key"] for r in rows) and len(rows) == 8'
lines_hold 'all(set(r) == {"key","bytes","tier","age_s","used_s","hits","pinned"} for r in rows)'
expect 0 "$skymem" ls v/ "${store[@]}" --json
lines_hold 'sorted(r["key"] for r in rows) == ["v/empty", "v/large", "v/small"]'
expect 0 "$skymem" ls nothing "${store[@]}" --json
silent
expect 0 "$skymem" ls "${store[@]}"
grep -q '^KEY ' "$work/out" || fail "ls for people: $(cat "$work/out")"
expect 0 "$skymem" stat v/large "${store[@]}" --json
holds 'o["bytes"] == 9000001 and o["tier"] == "disk" and not o["pinned"] and 0 <= o["age_s"] < 600'
expect 0 "$skymem" stat "${store[@]}" --json
holds '[t["name"] for t in o["tiers"]] == ["mem", "disk"] and o["tiers"][1]["entries"] == 8'
expect 0 "$skymem" stat "${store[@]}"
grep -q '^disk ' "$work/out" || fail "stat for people: $(cat "$work/out")"
expect 2 "$skymem" stat --satellites "${store[@]}"
says "no tier is a sky"
expect 0 "$skymem" stat --satellites --store sky:scenarios/seed.yaml --json
holds 'len(o["satellites"]) == 95 and all(s["chunks"] == 0 for s in o["satellites"])'
expect 0 "$skymem" stat --satellites --store sky:scenarios/seed.yaml
grep -q '^sky 5,19 ' "$work/out" || fail "satellites for people: $(cat "$work/out")"

# pin outlives the process
expect 0 "$skymem" pin v/large "${store[@]}" --json
holds 'o == {"key": "v/large", "pinned": True}'
expect 0 "$skymem" stat v/large "${store[@]}" --json
holds 'o["pinned"]'
expect 0 "$skymem" unpin v/large "${store[@]}"
expect 0 "$skymem" stat v/large "${store[@]}" --json
holds 'not o["pinned"]'

expect 1 "$skymem" unpin v/large "${store[@]}"
says "is not pinned"

# a block has no name: its key is shown
block=$(printf '%064d' 7)
expect 0 "$skymem" put --as block "$block" "$work/small" --store "disk:$work/blocks" --json
holds "o['key'] == '$block'"
expect 0 "$skymem" get --as block "$block" -o "$work/again" --store "disk:$work/blocks" --json
holds "o['key'] == '$block'"

# standard output that takes nothing: one line, with the reason
"$skymem" get v/large "${store[@]}" >/dev/full 2>"$work/err" && fail "get to a full device"
says "No space left"
"$skymem" get v/small "${store[@]}" >&- 2>"$work/err" && fail "get to a closed output"
says "Bad file descriptor"
"$skymem" stat "${store[@]}" >/dev/full 2>"$work/err" && fail "stat to a full device"
says "No space left"
"$skymem" ls --json "${store[@]}" >&- 2>"$work/err" && fail "ls to a closed output"
says "Bad file descriptor"
"$skymem" put k "${store[@]}" <&- >/dev/null 2>"$work/err" && fail "put from a closed input"
says "Bad file descriptor"

# prefetch, rm, misses
expect 0 "$skymem" prefetch v/small v/large "${store[@]}" --json
holds 'o["keys"] == 2 and o["fetched"] == 2 and o["missing"] == [] and o["bytes"] == 9000006'
expect 0 "$skymem" rm v/small "${store[@]}" --json
holds 'o["key"] == "v/small"'
for verb in get stat rm pin unpin prefetch; do
    expect 3 "$skymem" "$verb" v/small "${store[@]}"
    grep -q "v/small: not found" "$work/err" || fail "$verb of a miss says: $(cat "$work/err")"
done
expect 3 "$skymem" get v/small -o "$work/never" "${store[@]}" --json
holds 'o == {"error": "v/small: not found in any tier", "exit": 3}'
[ ! -e "$work/never" ] || fail "a miss wrote a file"
expect 3 "$skymem" ls --store "disk:$work/nowhere" --json
holds 'o["exit"] == 3 and "no such folder" in o["error"]'

# verify, and damage
expect 0 "$skymem" verify v/large "${store[@]}" --json
holds '[t["state"] for t in o["tiers"]] == ["not there", "sound"] and o["entries"] == 1'
expect 3 "$skymem" verify never "${store[@]}"
grep -q "never: not found" "$work/err" || fail "verify of a miss says: $(cat "$work/err")"
expect 0 "$skymem" verify "${store[@]}" --json
holds 'o["entries"] == 7 and o["corrupt"] == 0 and o["bytes"] > 9000000'
for file in $(find "$disk" -type f -size +4000k); do
    printf '\xff\x00\xff' | dd of="$file" bs=1 seek=3000000 conv=notrunc status=none
done
cp -a "$disk" "$work/damaged"
expect 3 "$skymem" verify v/large --store "disk:$work/damaged"
grep -q "^disk: damaged, 8.58 MiB$" "$work/out" || fail "verify of damage: $(cat "$work/out")"
expect 3 "$skymem" get v/large "${store[@]}"
expect 1 "$skymem" verify "${store[@]}" --json
holds 'o["corrupt"] >= 1'
expect 0 "$skymem" verify "${store[@]}"
expect 3 "$skymem" get stdin/large "${store[@]}"

# a tier that did not take it is named, and the put stands
expect 0 "$skymem" put wide "$work/large" --store mem:1MiB --store "disk:$work/wide" --json
holds 'o["stored"] == ["disk"]'
says "not stored in mem"

# only this process holds it: said, not hidden
expect 0 "$skymem" put gone "$work/small" --store mem:1MiB --json
holds 'o["stored"] == ["mem"]'
says "gone with it"

# a time to live; as pin --help says, a pin does not hold what ends
expect 0 "$skymem" put brief "$work/small" "${store[@]}" --ttl 1
until_missed "$skymem" get brief "${store[@]}"
put_and_pin() {
    "$skymem" put brief "$work/small" --store "disk:$disk" --ttl "$1" &&
        "$skymem" pin brief --store "disk:$disk"
}
while_it_lives put_and_pin
until_missed "$skymem" get brief --store "disk:$disk"

# bad input
expect 2 "$skymem" get k --deadline-ms 1e300
says "a number from 0 to 1000000000"
expect 1 "$skymem" put k "$work/absent" "${store[@]}"
says "No such file"
expect 2 "$skymem" put k "$work/small" --store nonsense
says "a store is SCHEME:PATH"
expect 2 "$skymem" put k "$work/small" --store nonsense:
says "no store is called 'nonsense'"
expect 2 "$skymem" put k "$work/small" --store "nonsense:me:secret@host"
! grep -q secret "$work/err" || fail "a password is printed: $(cat "$work/err")"
expect 2 "$skymem" put k "$work/small" --store "disk:$disk?max=2000000TiB"
says "at most 1048576TiB"
mkfifo "$work/pipe" # nobody ever writes into it
expect 1 timeout 600 "$skymem" put k "$work/small" --store "sky:$work/pipe"
says "$work/pipe: not a plain file"
printf 'constellation: {tle: pipe}\nsky: physical\n' >"$work/piped.yaml"
expect 1 timeout 600 "$skymem" put k "$work/small" --store "sky:$work/piped.yaml"
says "$work/pipe: not a plain file"
expect 2 "$skymem" put k "$work/small" --store ftp:/x
expect 2 "$skymem" put k "$work/small" --store mem:lots
expect 2 "$skymem" put k "$work/small" --store "disk:$disk?maximum=1"
many=(); for _ in 1 2 3 4 5 6 7 8 9; do many+=(--store mem:1MiB); done
expect 2 "$skymem" ls "${many[@]}"
expect 1 "$skymem" put k "$work/large" --store mem:1MiB
says "mem:1MiB: no room: the value is larger than all of it; give it more memory"
expect 1 "$skymem" put k "$work/large" --store mem:16MiB --store "disk:$work/tight?max=1MiB"
says "disk:$work/tight: no room: the value is larger than its max; raise that"
head -c 600000 "$work/large" >"$work/half"
expect 0 "$skymem" put pinned "$work/half" --store "disk:$work/tight?max=1MiB"
expect 0 "$skymem" pin pinned --store "disk:$work/tight?max=1MiB"
expect 1 "$skymem" put k "$work/half" --store "disk:$work/tight?max=1MiB"
says "disk:$work/tight: no room besides what is pinned"
says "(to replace a pinned value takes room for both)"
expect 0 "$skymem" unpin pinned --store "disk:$work/tight?max=1MiB"
expect 0 "$skymem" put k "$work/half" --store "disk:$work/tight?max=1MiB" --json
holds 'o["evicted"] == 1'
says "k: 1 entry was evicted from disk to make room"
mkfifo "$work/unread" # a wrong store is found before anything is read
expect 2 timeout 600 "$skymem" put k "$work/unread" --store nonsense
expect 0 "$skymem" put k "$work/large" --store mem:1MiB --store mem:16MiB --json
grep -q '"stored":\["mem-2"\]' "$work/out" || fail "stored in memory: $(cat "$work/out")"

# a file system that is mounted read-only is told from a folder of someone else
if unshare -m true 2>/dev/null; then
    mkdir "$work/mounted"
    expect 1 unshare -m sh -c 'mount -t tmpfs -o ro,mode=700 none "$1" && shift && exec "$@"' - \
        "$work/mounted" "$skymem" put k "$work/small" --store "disk:$work/mounted"
    says "disk:$work/mounted: its file system is mounted read-only"
fi

# a folder that may not be written is named, with what to do
mkdir -m 555 "$work/sealed"
bound=() # root without the right to write where no one may
[ "$(id -u)" != 0 ] || bound=(setpriv --bounding-set -dac_override,-dac_read_search)
expect 1 "${bound[@]}" "$skymem" put k "$work/small" --store "disk:$work/sealed"
says "disk:$work/sealed: permission denied; mend the rights of this folder"

# who only looks makes nothing: a typo is no empty cache, a cache never made is one
for verb in "get k" "ls" "stat" "verify" "rm k" "pin k"; do
    read -ra words <<<"$verb"
    expect 3 "$skymem" "${words[@]}" --store "disk:$work/typo/deep"
    says "$work/typo/deep: no such folder"
    silent
done
[ ! -e "$work/typo" ] || fail "looking made a folder"
mkdir "$work/bare"
expect 0 "$skymem" ls --store "disk:$work/bare"
expect 3 "$skymem" get k --store "disk:$work/bare"
[ -z "$(ls -A "$work/bare")" ] || fail "looking left $(ls -A "$work/bare")"
expect 0 "$skymem" ls --json
silent
expect 3 "$skymem" get k
[ ! -e "$XDG_CACHE_HOME" ] || fail "looking made the default cache"
: >"$work/file"
expect 1 "$skymem" put k "$work/small" --store "disk:$work/file"
for verb in ls "stat k" "get k"; do
    expect 1 "$skymem" $verb --store "disk:$work/file"
    says "$work/file: is not a folder"
done
expect 1 "$skymem" get v/empty "${store[@]}" -o "$work/no/such/folder"

# a file that another process cuts short while it is read: all of it, or a sentence and nothing
for pause in 0.01 0.03 0.06; do
    truncate -s 100M "$work/cut"
    (sleep "$pause" && : >"$work/cut") &
    code=0
    "$skymem" put cut "$work/cut" --store "disk:$work/cut.d" >"$work/out" 2>"$work/err" || code=$?
    wait
    [ "$code" = 0 ] || [ "$code" = 1 ] || fail "put of a file that was cut: exit $code"
    [ "$code" = 0 ] || says "cut short while it was read"
    expect $((code == 0 ? 0 : 3)) "$skymem" stat cut --store "disk:$work/cut.d"
    rm -rf "$work/cut.d"
done

# the default hierarchy
expect 0 "$skymem" put here "$work/small"
expect 0 "$skymem" get here
cmp -s "$work/out" "$work/small" || fail "the default hierarchy"
[ -d "$work/cache/skymem" ] || fail "the default disk tier is not in XDG_CACHE_HOME"

# an account without a home gets no folders, not even an attempt at one, and hears so
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    homeless=(setpriv --reuid 54321 --clear-groups --inh-caps +dac_read_search
        --ambient-caps +dac_read_search env -u HOME -u XDG_CACHE_HOME)
    expect 0 "${homeless[@]}" "$skymem" put here "$work/small"
    grep -q "nothing outlives this process" "$work/err" || fail "no word about a missing home"
    if strace -f -o "$work/calls" true 2>/dev/null; then # leaks cannot be looked for under strace
        ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 expect 0 strace -f -qq -e trace=/^mkdir \
            -o "$work/calls" "${homeless[@]}" "$skymem" put here "$work/small"
        ! grep mkdir "$work/calls" || fail "a folder without a home"
    fi
fi

# two tenants, one store, one name: each has its own value, and nobody else knows that it is there
for tenant in a b; do
    (umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/salt.$tenant")
    echo "the value of $tenant" >"$work/value.$tenant"
    expect 0 "$skymem" put salted "$work/value.$tenant" "${store[@]}" \
        --salt-file "$work/salt.$tenant"
done
for tenant in a b; do
    expect 0 "$skymem" get salted "${store[@]}" --salt-file "$work/salt.$tenant"
    cmp -s "$work/out" "$work/value.$tenant" || fail "tenant $tenant got another's value"
done
# One of a thing is one.
expect 0 "$skymem" put one "$work/small" --store "disk:$work/one"
expect 0 "$skymem" verify --store "disk:$work/one"
grep -q '^1 entry, 5 B: 0 damaged' "$work/out" || fail "one entry: $(cat "$work/out")"
expect 0 "$skymem" prefetch one --store "disk:$work/one"
grep -q '^1 of 1 key in' "$work/out" || fail "one key: $(cat "$work/out")"
expect 0 "$skymem" clear --yes --store "disk:$work/one"
grep -q '^removed 1 entry, 5 B' "$work/out" || fail "one entry: $(cat "$work/out")"

# That there is a salt shows, without it; and a value without one is not marked.
expect 0 "$skymem" put unsalted "$work/small" "${store[@]}"
expect 0 "$skymem" ls unsalted "${store[@]}" --json
lines_hold 'rows and not any("salted" in row for row in rows)'
expect 0 "$skymem" ls salted "${store[@]}" --json
lines_hold 'len(rows) >= 2 and all(row["salted"] is True for row in rows)'
expect 0 "$skymem" ls "${store[@]}"
grep -q '^salted .* yes *$' "$work/out" || fail "ls marks no salt: $(cat "$work/out")"
! grep -q '^unsalted .* yes *$' "$work/out" || fail "ls marks a salt: $(cat "$work/out")"
for verb in get stat pin unpin rm prefetch verify; do
    expect 3 "$skymem" "$verb" salted "${store[@]}"
done
expect 0 "$skymem" verify salted "${store[@]}" --salt-file "$work/salt.a"
expect 0 "$skymem" pin salted "${store[@]}" --salt-file "$work/salt.a"
expect 0 "$skymem" rm salted "${store[@]}" --salt-file "$work/salt.a"
expect 3 "$skymem" stat salted "${store[@]}" --salt-file "$work/salt.a"
expect 0 "$skymem" stat salted "${store[@]}" --salt-file "$work/salt.b"

# a seal's key is read before a folder is made for it
expect 1 "$skymem" put sealed CMakeLists.txt --store "disk:$work/unmade?seal=$work/absent"
[ ! -e "$work/unmade" ] || fail "a folder was made though its seal's key is not there"
expect 1 "$skymem" put absent "$work/absent" --store "disk:$work/unmade"
says "$work/absent: No such file"
[ ! -e "$work/unmade" ] || fail "a folder was made though the value is not there"
truncate -s 4G "$work/large"
expect 1 "$skymem" put large "$work/large" --store "disk:$work/unmade"
says "larger than 4294967295 bytes"
rm "$work/large"
for verb in "put k LICENSE" ls "get k"; do
    read -ra words <<<"$verb"
    expect 1 "$skymem" "${words[@]}" --store "shm:$work/socket"
    says "shm:$work/socket: nobody listens there; start skymemd"
done

# What prune cannot remove it names.
pruned=(--store "disk:$work/pruned")
expect 0 "$skymem" put kept LICENSE "${pruned[@]}"
expect 0 "$skymem" put other LICENSE "${pruned[@]}"
expect 0 "$skymem" pin kept "${pruned[@]}"
expect 0 "$skymem" prune --to 1KiB "${pruned[@]}" --json
holds 'o["removed"] == 1 and o["excess_bytes"] > 10000'
says "stay: 1 entry is pinned"
expect 0 "$skymem" prune --to 1MiB "${pruned[@]}" --json
holds 'o["removed"] == 0 and o["excess_bytes"] == 0'

# two writers of one key: one of them wins whole
for i in 1 2 3 4; do
    head -c 3000000 /dev/zero | tr '\0' "$i" >"$work/writer$i"
    "$skymem" put shared "$work/writer$i" "${store[@]}" >/dev/null 2>"$work/err$i" &
done
wait
expect 0 "$skymem" get shared "${store[@]}"
won=0
for i in 1 2 3 4; do
    cmp -s "$work/out" "$work/writer$i" && won=$((won + 1))
done
[ "$won" = 1 ] || fail "two writers of one key mixed: $(cat "$work"/err?)"

# an answer is out before the tiers are closed: a close that never ends takes nothing away
if command -v cc >/dev/null && ! ldd "$skymem" | grep -qE 'lib[at]san'; then
    printf '#include <unistd.h>\nvoid sky_cache_close(void *c) { (void)c; _exit(9); }\n' |
        cc -shared -fPIC -o "$work/stuck.so" -xc -
    for verb in "ls --json" "stat" "stat v/empty" "verify" "put v/empty $work/empty" \
        "pin v/empty" "get v/empty -o $work/again" "prefetch v/empty" \
        "rm v/empty"; do
        read -ra words <<<"$verb"
        expect 9 env LD_PRELOAD="$work/stuck.so" "$skymem" "${words[@]}" "${store[@]}"
        [ -s "$work/out" ] || fail "$verb: its answer was lost with the close"
        expect 0 "$skymem" put v/empty "$work/empty" "${store[@]}"
    done
fi
finish

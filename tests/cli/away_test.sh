#!/usr/bin/env bash
# Proves what verbs do while a host that is a tier does not answer: the other tiers are used, and
# what could not be reached is said. Verbs with a key exit 4 when that host may hold it, others 1;
# the same with a daemon in between and without, at the first question and once the tier is skipped.
. "$(dirname "$0")/common.sh"
umask 077
head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' >"$work/key"
gone=$(python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
away="skymem://127.0.0.1:$gone?key=$work/key&away=yes"
echo "the value" >"$work/value"

# each CODE TEXT: the same through $where, a daemon over mem, disk and the host that is away, or
# these. TEXT is why; CODE is of verify KEY, which reads a daemon's nearest copy and each tier here.
each() {
    local why=$2
    expect 4 "$skymem" put one "$work/value" "${where[@]}"
    grep -q 'an older value may be left' "$work/err" || fail "put: $(cat "$work/err")"
    for _ in 1 2 3 4; do # the tier is skipped from the third on
        expect 4 "$skymem" get none "${where[@]}"
        says "$why"
    done
    expect 0 "$skymem" get one "${where[@]}"
    cmp -s "$work/value" "$work/out" || fail "another value"
    expect 4 "$skymem" stat none "${where[@]}"
    expect 0 "$skymem" stat one "${where[@]}" --json
    holds 'o["key"] == "one" and o["bytes"] == 10'
    says "perhaps not all copies"
    expect 1 "$skymem" ls "${where[@]}" --json
    says "incomplete: "
    holds 'o["key"] == "one"'
    expect 1 "$skymem" du "${where[@]}" --json
    says "$why"
    holds 'sum(t["entries"] for t in o["tiers"]) >= 1'
    expect 1 "$skymem" verify "${where[@]}" --json
    says "incomplete: "
    holds 'o["entries"] >= 1 and o["corrupt"] == 0'
    expect "$1" "$skymem" verify one "${where[@]}"
    expect 0 "$skymem" pin one "${where[@]}"
    expect 0 "$skymem" unpin one "${where[@]}"
    expect 0 "$skymem" lookup one "${where[@]}"
    expect 4 "$skymem" lookup one none "${where[@]}" --json
    says "nothing is known of 1 of 2 keys"
    holds 'o["found"] == 1 and o["unknown"] == ["none"] and len(o["tiers"]) == 2'
    holds 'o["missing"] == []'
    expect 4 "$skymem" move one none --to disk "${where[@]}" --json
    says "incomplete: "
    holds 'o["moved"] == 1 and o["missing"] == [] and o["unknown"] == ["none"]'
    expect 1 "$skymem" health --probe "${where[@]}" --json
    holds '[t["failing"] for t in o["tiers"]] == [False, False, True]'
    expect 4 "$skymem" rm one "${where[@]}"
    says "one: removed, but not everywhere"
    expect 4 "$skymem" get one "${where[@]}"
    expect 4 "$skymem" put two "$work/value" "${where[@]}"
    expect 1 "$skymem" prune --older-than 1d "${where[@]}" --json
    says "incomplete: "
    holds 'o["removed"] == 0'
    expect 1 "$skymem" clear --yes "${where[@]}" --json
    says "incomplete: "
    holds 'o["removed"] == 1'
    expect 4 "$skymem" get two "${where[@]}"
}
start_daemon --socket "$work/d.sock" --store mem:8MiB --store "disk:$work/a?max=8MiB" \
    --store "$away"
where=(--store "shm:$work/d.sock")
each 0 "its host does not answer, or a store of that host failed"
kill -TERM "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"
where=(--store mem:8MiB --store "disk:$work/b?max=8MiB" --store "$away")
each 4 "no answer: "

# a deadline covers the opening too: a host that takes connections and says nothing costs no more
python3 - >"$work/silent" <<'PYTHON' &
import signal, socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(8)
print(s.getsockname()[1], flush=True)
signal.pause()
PYTHON
silent=$!
for _ in $(seq 400); do
    [ ! -s "$work/silent" ] || break
    sleep 0.05
done
where=(--store "disk:$work/c?max=8MiB")
expect 0 "$skymem" put one "$work/value" "${where[@]}"
mute="127.0.0.1:$(cat "$work/silent")"
printf '%s key=%s\n' "$mute" "$work/key" >"$work/mute"
for url in "skymem://$mute?key=$work/key" "skymem://$mute?away=yes&key=$work/key" \
    "skymem://?peers=$work/mute"; do
    SECONDS=0
    expect 0 "$skymem" get one --deadline-ms 500 "${where[@]}" --store "$url"
    expect 1 "$skymem" get none --deadline-ms 500 "${where[@]}" --store "$url"
    says "the deadline passed"
    [ $SECONDS -lt 5 ] || fail "$url: $SECONDS s for two gets of 0.5 s"
done
kill "$silent"
wait "$silent" 2>/dev/null

# a tier that refuses a value drops the older one, which a get would find in it first
head -c 100000 /dev/urandom >"$work/large"
where=(--store "disk:$work/small?max=64KiB" --store "disk:$work/b?max=8MiB")
expect 0 "$skymem" put three "$work/value" "${where[@]}"
expect 0 "$skymem" put three "$work/large" "${where[@]}" --json
holds 'o["stored"] == ["disk-2"]'
expect 0 "$skymem" get three "${where[@]}"
cmp -s "$work/large" "$work/out" || fail "the older value was found"

# of several hosts what those have that answer is listed
start_daemon --socket "$work/d.sock" --store mem:8MiB --listen 0 --peer-key "$work/key"
expect 0 "$skymem" stat --store "shm:$work/d.sock" --json
port=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["peers"]["address"].rsplit(":", 1)[1])' "$work/out")
printf '127.0.0.1:%s key=%s\n' "$port" "$work/key" "$gone" "$work/key" >"$work/peers"
expect 0 "$skymem" put four "$work/value" --store "shm:$work/d.sock"
where=(--store "skymem://?peers=$work/peers")
expect 1 "$skymem" ls "${where[@]}" --json
says "1 of 2 peers answer; no answer: 127.0.0.1:$gone"
holds 'o["key"] == "four"'
expect 0 "$skymem" get four "${where[@]}"
expect 4 "$skymem" get none "${where[@]}"
says "1 of 2 peers answer; no answer: 127.0.0.1:$gone"

# what the host that does not answer may hold is unavailable, and what the other holds is changed
named="1 of 2 peers answer; no answer: 127.0.0.1:$gone"
for verb in pin unpin; do
    expect 0 "$skymem" "$verb" four "${where[@]}"
    expect 4 "$skymem" "$verb" none "${where[@]}"
    says "none: skymem://: $named"
done
expect 4 "$skymem" lookup four none "${where[@]}" --json
says "nothing is known of 1 of 2 keys: skymem://: $named"
holds 'o["found"] == 1 and o["leading"] == 1 and o["missing"] == [] and o["unknown"] == ["none"]'
holds '[t["keys"] for t in o["tiers"]] == [1]'
disk=(--store "disk:$work/e?max=8MiB")
for more in 0 1; do
    expect 4 "$skymem" rm four "${disk[@]:0:2*more}" "${where[@]}"
    says "four: removed, but not everywhere: skymem://: $named"
    expect 3 "$skymem" get four --store "shm:$work/d.sock"
    expect 0 "$skymem" put four "$work/value" --store "shm:$work/d.sock"
    [ "$more" = 1 ] || expect 0 "$skymem" put other "$work/value" "${disk[@]}"
done
expect 4 "$skymem" move four --to disk "${disk[@]}" "${where[@]}" --json
says "incomplete: skymem://: $named"
holds 'o["moved"] == 1'
expect 3 "$skymem" get four --store "shm:$work/d.sock"
expect 0 "$skymem" get four "${disk[@]}"
kill -TERM "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"
finish

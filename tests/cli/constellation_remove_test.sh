#!/usr/bin/env bash
# Proves that removing and replacing free what satellites held, from processes that know nothing of
# each other: nothing is left of what one put and another removed, and ten puts of one key hold what
# one does; and that a put says how many values of others satellites evicted for it.
. "$(dirname "$0")/common.sh"
have_satellites
scenario=$work/sky.yaml
store=sky+udp:$scenario

# sky RULE
sky() {
    cat >"$scenario" <<YAML
constellation: {planes: 3, slots: 7, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3], $1}
chunk: 6KiB
satellite: {memory: 16MiB, processing_ms: 0.02}
links: {isl_gbps: 10, ground_mbps: 2000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 100000}
lookup: binary
udp: {base: 127.0.0.1:$(tools/free-ports 30), key: sky.key, tenant: tenant.key}
YAML
}

held() {
    "$skymem" constellation status "$scenario" --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["chunks"])'
}

head -c 1048576 /dev/urandom >"$work/value"
head -c 100 /dev/urandom >"$work/small"
for rule in "replicas: 1" "replicas: 2" "parity: 2"; do
    sky "$rule"
    expect 0 "$skymem" constellation up "$scenario"
    expect 0 "$skymem" put key "$work/value" --store "$store"
    once=$(held)
    for _ in $(seq 9); do
        expect 0 "$skymem" put key "$work/value" --store "$store"
    done
    [ "$(held)" = "$once" ] || fail "$rule: ten puts hold $(held) chunks, one $once"
    expect 0 "$skymem" put key "$work/small" --store "$store"
    [ "$(held)" -le 12 ] || fail "$rule: $(held) chunks are left of the value before"
    expect 0 "$skymem" get key -o "$work/got" --store "$store"
    cmp -s "$work/small" "$work/got" || fail "$rule: not the last value"
    for file in value small; do
        expect 0 "$skymem" put key "$work/$file" --store "$store"
        expect 0 "$skymem" rm key --store "$store"
        [ "$(held)" = 0 ] || fail "$rule: rm of $file leaves $(held) chunks"
    done
    expect 0 "$skymem" constellation down "$scenario"
done
# Two values have no room together: the second put tells that the first went for it.
sky "replicas: 1"
sed -i 's/memory: 16MiB/memory: 64KiB/' "$scenario"
expect 0 "$skymem" constellation up "$scenario"
head -c 400000 /dev/urandom >"$work/large"
expect 0 "$skymem" put first "$work/large" --store "$store" --json
holds 'o["evicted"] == 0'
expect 0 "$skymem" put second "$work/large" --store "$store"
grep -q "second: 1 entry was evicted from sky+udp to make room" "$work/err" ||
    fail "a put that evicts another: $(cat "$work/err")"
expect 3 "$skymem" get first --store "$store"
expect 0 "$skymem" put third "$work/large" --store "$store" --json
holds 'o["evicted"] == 1'
expect 0 "$skymem" constellation down "$scenario"
# A satellite that stands still while its value is removed: what is left there is said, and goes
# when it moves again, by the word of those that hold the other copies.
sky "replicas: 2"
sed -i 's/processing_ms: 0.02/processing_ms: 0.02, repair_s: 0.2/' "$scenario"
expect 0 "$skymem" constellation up "$scenario"
expect 0 "$skymem" put key "$work/value" --store "$store"
expect 0 "$skymem" pin key --store "$store"
expect 0 "$skymem" unpin key --store "$store"
whole=$(held)
"$skymem" constellation status "$scenario" --json >"$work/status"
read -r still chunks <<<"$(python3 -c 'import json, sys
s = max(json.load(open(sys.argv[1]))["list"], key=lambda s: s["chunks"])
print(s["pid"], s["chunks"])' "$work/status")"
kill -STOP "$still"
expect 4 "$skymem" pin key --store "$store"
says "key: pinned but for $chunks of $whole chunks, copies counted, on satellites that do not"
expect 4 "$skymem" unpin key --store "$store"
expect 4 "$skymem" rm key --store "$store"
says "key: removed but for $chunks of $whole chunks, copies counted, on satellites that do not"
kill -CONT "$still"
for _ in $(seq 300); do
    [ "$(held)" != 0 ] || break
    sleep 0.1
done
[ "$(held)" = 0 ] || fail "$(held) chunks are left of what was removed from all but one"
expect 3 "$skymem" get key --store "$store"
expect 0 "$skymem" constellation down "$scenario"
finish

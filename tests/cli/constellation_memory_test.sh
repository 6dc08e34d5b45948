#!/usr/bin/env bash
# Proves that the memory of real satellites follows what they hold: a value wanders round the whole
# plane, and those it has left give its pages back.
. "$(dirname "$0")/common.sh"
have_satellites
if grep -q '^SKYMEM_SANITIZE:[A-Z]*=thread' "$build/CMakeCache.txt"; then
    echo "skipped: TSan's notes of each page are never given back"
    exit 77
fi
scenario=$work/sky.yaml
cat >"$scenario" <<YAML
constellation: {planes: 1, slots: 19, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 3, window: [1, 3]}
chunk: 6KiB
satellite: {memory: 32MiB, processing_ms: 0.02}
links: {isl_gbps: 10, ground_mbps: 2000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 1}
lookup: binary
udp: {base: 127.0.0.1:$(tools/free-ports 20), key: sky.key, tenant: tenant.key}
YAML
# of FIELD: what the satellites come to.
of() {
    "$skymem" constellation status "$scenario" --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

bytes=12000000
head -c $bytes /dev/urandom >"$work/value"
expect 0 "$skymem" constellation up "$scenario"
before=$(of memory_bytes)
expect 0 "$skymem" put wanders "$work/value" --store "sky+udp:$scenario"
chunks=$(of chunks)
# Each turn moves a third of it; after nineteen every satellite has held a part.
for _ in $(seq 300); do
    [ "$(of migrated)" -lt $((chunks * 19 / 3)) ] || break
    sleep 0.2
done
[ "$(of migrated)" -ge $((chunks * 19 / 3)) ] || fail "$(of migrated) chunks have moved"
more=$(($(of memory_bytes) - before))
# What is held and a tenth; 1.5 MiB for each that chunks pass through; what two hold at a turn.
most=$((bytes * 11 / 10 + 19 * 3 * 524288 + bytes / 3))
[ $more -le $most ] || fail "$more bytes of memory for $bytes held: at most $most"
expect 0 "$skymem" get wanders -o "$work/got" --store "sky+udp:$scenario"
cmp -s "$work/value" "$work/got" || fail "it is not what it was"
finish

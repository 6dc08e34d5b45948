#!/usr/bin/env bash
# Proves that redundancy comes back: every one of 19 real satellites is killed and starts empty, one
# after the other, and nothing that was put is lost. With two copies the satellites see to it among
# themselves, and nobody reads meanwhile; with parity it is who reads.
. "$(dirname "$0")/common.sh"
have_satellites
scenario=$work/sky.yaml
store=sky+udp:$scenario
values="1 6145 50000 190000"

# sky RULE ROTATION_S
sky() {
    cat >"$scenario" <<YAML
constellation: {planes: 1, slots: 19, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [1, 9], $1}
chunk: 6KiB
satellite: {memory: 4MiB, processing_ms: 0.02, repair_s: 0.2}
links: {isl_gbps: 10, ground_mbps: 2000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: $2}
lookup: binary
udp: {base: 127.0.0.1:$(tools/free-ports 20), key: sky.key, tenant: tenant.key}
YAML
    expect 0 "$skymem" constellation up "$scenario"
    for bytes in $values; do
        head -c "$bytes" /dev/urandom >"$work/value.$bytes"
        expect 0 "$skymem" put "key.$bytes" "$work/value.$bytes" --store "$store"
    done
}

# read_all WHEN
read_all() {
    for bytes in $values; do
        expect 0 "$skymem" get "key.$bytes" -o "$work/got" --store "$store"
        cmp -s "$work/value.$bytes" "$work/got" || fail "$1: key.$bytes is not what it was"
    done
}

# restart SLOT
restart() {
    kill -9 "$("$skymem" constellation status "$scenario" --json |
        python3 -c 'import json, sys
print([s["pid"] for s in json.load(sys.stdin)["list"] if s["slot"] == int(sys.argv[1])][0])' "$1")"
    expect 0 "$skymem" constellation up "$scenario"
}

sky "replicas: 2" 100000
whole=$(chunks)
for slot in $(seq 19); do
    restart "$slot"
    await_chunks "$whole"
done
read_all "two copies"
expect 0 "$skymem" stat --satellites --store "$store" --json
holds 'sum(s["mended"] for s in o["satellites"]) > 0'
expect 0 "$skymem" constellation down "$scenario"

for parity in 1; do
    sky "parity: $parity" 100000
    whole=$(chunks)
    for slot in $(seq 19); do
        restart "$slot"
        read_all "parity $parity, $slot restarted"
    done
    await_chunks "$whole"
    expect 0 "$skymem" constellation down "$scenario"
done
finish

#!/usr/bin/env bash
# Proves that with m pieces of parity any m satellites may be dead, also those overhead and beside:
# what was stored comes whole, and what is put goes to the others and comes whole. Blocks are large,
# so that what the dead are sent would take all the room there is.
. "$(dirname "$0")/common.sh"
have_satellites
scenario=$work/sky.yaml
cat >"$scenario" <<YAML
constellation: {planes: 5, slots: 19, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3], parity: 2}
chunk: 6KiB
satellite: {memory: 64MiB, processing_ms: 0.02}
links: {isl_gbps: 10, ground_mbps: 2000, loss: 0.001, jitter_ms: 0.1}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 100000}
lookup: binary
udp: {base: 127.0.0.1:$(tools/free-ports 100), key: sky.key, tenant: tenant.key}
YAML
head -c 3040870 /dev/urandom >"$work/value"

# slay PLANES,SLOTS...: the satellites so far from the middle of those that hold chunks.
slay() {
    "$skymem" constellation status "$scenario" --json >"$work/status"
    python3 - "$work/status" "$@" <<'PYTHON'
import json, os, signal, sys
there = {(s["plane"], s["slot"]): s for s in json.load(open(sys.argv[1]))["list"]}
slots = sorted({slot for (plane, slot), s in there.items() if s["chunks"] > 0})
assert len(slots) == 3, slots
for place in sys.argv[2:]:
    planes, ahead = map(int, place.split(","))
    os.kill(there[3 + planes, slots[1] + ahead]["pid"], signal.SIGKILL)
PYTHON
}

for dead in "0,0 0,1" "-1,0 1,0" "-1,-1 1,1"; do
    expect 0 "$skymem" constellation up "$scenario"
    patient 0 "$skymem" put before "$work/value" --store "sky+udp:$scenario"
    slay $dead || fail "the middle is elsewhere"
    for key in before after; do
        [ $key = before ] ||
            patient 0 "$skymem" put after "$work/value" --store "sky+udp:$scenario" --json
        [ $key = before ] || holds 'o["short"]'
        patient 0 "$skymem" get $key -o "$work/got" --store "sky+udp:$scenario"
        cmp -s "$work/value" "$work/got" || fail "$key beside the dead $dead is not what it was"
    done
    expect 0 "$skymem" constellation down "$scenario"
done
finish

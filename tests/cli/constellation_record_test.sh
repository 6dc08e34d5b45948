#!/usr/bin/env bash
# Proves that satellites whose record is gone are named, and what ends them ends all of them.
. "$(dirname "$0")/common.sh"
have_satellites
port=$(tools/free-ports 10)
scenario=$work/c.yaml
cat >"$scenario" <<YAML
constellation: {planes: 2, slots: 5, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 3, window: [1, 3]}
chunk: 6KiB
satellite: {memory: 16MiB}
links: {isl_gbps: 10, ground_mbps: 1000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 3000}
lookup: binary
udp: {base: 127.0.0.1:$port, key: sky.key, tenant: tenant.key}
YAML

# The folder of the state is removed, as with the session that it belongs to.
expect 0 "$skymem" constellation up "$scenario"
rm -r "$XDG_RUNTIME_DIR/skymem"
for verb in status down; do
    expect 1 "$skymem" constellation $verb "$scenario"
    says "10 satellites run for $scenario without a record in $XDG_RUNTIME_DIR/skymem/"
    says "\"pkill -f -- '--scenario $scenario\$'\" ends them"
done
pkill -f -- "--scenario $scenario\$"
for _ in $(seq 600); do
    "$skymem" constellation down "$scenario" >"$work/out" 2>"$work/err" && break
    sleep 0.1
done
grep -q "^0 satellites stopped" "$work/out" || fail "down: $(cat "$work/out" "$work/err")"
finish

#!/usr/bin/env bash
# Proves that the relay puts a way between ground and real satellites that know nothing of it: what
# goes through it takes the time of light at least, and comes back right although datagrams are
# lost, overtaken, doubled and damaged on the way; who goes past it finds the same.
. "$(dirname "$0")/common.sh"
have_satellites
port=$(tools/free-ports 50)
near=$work/near.yaml far=$work/far.yaml
proxy=
clean() {
    [ -z "$proxy" ] || kill "$proxy" 2>/dev/null
    stop_satellites
}
trap clean EXIT

cat >"$near" <<YAML
constellation: {planes: 3, slots: 5, altitude_km: 20000, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3]}
chunk: 4KiB
satellite: {memory: 4MiB, processing_ms: 0}
links: {isl_gbps: 10, ground_mbps: 1000, loss: 0.03, jitter_ms: 1}
faults: {reorder: 0.1, duplicate: 0.05, corrupt: 0.02}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 5}
lookup: binary
udp: {base: 127.0.0.1:$port, key: sky.key, tenant: tenant.key, far: true}
YAML
sed "s/base: 127.0.0.1:$port/base: 127.0.0.1:$((port + 20))/" "$near" >"$far"

expect 2 "$skymem" sim --proxy 127.0.0.1:$((port + 20))
expect 2 "$skymem" sim "$near" --proxy nowhere
expect 2 "$skymem" sim "$near" --proxy 127.0.0.1:65530
expect 2 "$skymem" sim demo-hop --proxy 127.0.0.1:$((port + 20))
says "udp.base"

expect 0 "$skymem" constellation up "$near" --json
holds 'o["running"] == 15'
"$skymem" sim "$near" --proxy 127.0.0.1:$((port + 20)) --seed 3 --json \
    >"$work/relayed" 2>"$work/relay" &
proxy=$!
for _ in $(seq 200); do
    grep -q "is as far away as the orbits say" "$work/relay" && break
    sleep 0.05
done
# Strangers send nothing, and more than a datagram of a station.
python3 -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for size in 0, 1233, 1280, 60000:
    s.sendto(bytes(size), ("127.0.0.1", int(sys.argv[1])))' $((port + 20))
head -c 400000 /dev/urandom >"$work/blob"
expect 0 "$skymem" put blob "$work/blob" --store "sky+udp:$far"
for store in "$far" "$near" "$far"; do
    expect 0 "$skymem" get blob -o "$work/got" --store "sky+udp:$store"
    cmp -s "$work/blob" "$work/got" || fail "$store: other bytes came back"
done
expect 0 "$skymem" stat --satellites --store "sky+udp:$far" --json
holds 'sum(s["answered"] for s in o["satellites"]) > 5'
holds 'all(s["ms"] >= 133 for s in o["satellites"] if s["answered"])' # 20,000 km and back
kill "$proxy"
wait "$proxy" || fail "the relay: exit $?: $(cat "$work/relay")"
proxy=
cp "$work/relayed" "$work/out"
holds 'o["up"] > 100 and o["down"] > 100 and o["lost"] > 5 and o["reordered"] > 10'
holds 'o["duplicated"] > 5 and o["corrupted"] > 2 and o["overflow"] == o["strangers"] == 0'
holds 'o["out_of_sight"] == 0'
expect 0 "$skymem" constellation down "$near" --json
finish

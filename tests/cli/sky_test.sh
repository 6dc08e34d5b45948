#!/usr/bin/env bash
# Proves the sky as a tier of put, and `skymem sim`: the same file and seed give the same trace, a
# scenario with nonsense is a usage error.
. "$(dirname "$0")/common.sh"
smoke=scenarios/sim-smoke.yaml

head -c 100000 /dev/urandom >"$work/value"
expect 0 "$skymem" put k "$work/value" --store sky:scenarios/demo-rotation-hop.yaml --json
holds 'o["stored"] == ["sky"] and o["chunks"] == math.ceil(100000 / 6144)'
grep -q "read back from sky" "$work/err" || fail "put in the sky says: $(cat "$work/err")"


# a sky is not believed: what it took is read back, and why it failed is said
shape='constellation: {planes: 5, slots: 19, altitude_km: 550, inclination_deg: 53, phasing: 0}'
printf '%s\nfaults: {liar_satellites: 95}\n' "$shape" >"$work/liars.yaml"
expect 1 "$skymem" put k "$work/value" --store "sky:$work/liars.yaml" --json
says "sky:$work/liars.yaml: what it stored came back damaged"
silent
expect 1 "$skymem" put k "$work/value" --store mem:1MiB --store "sky:$work/liars.yaml"
says "came back damaged"
expect 0 "$skymem" put k "$work/value" --store "disk:$work/disk" --store "sky:$work/liars.yaml" \
    --json
holds 'o["stored"] == ["disk"] and o["chunks"] == 1'
says "not stored in sky: sky:$work/liars.yaml: what it stored came back damaged"
printf '%s\nlinks: {loss: 0.9}\n' "$shape" >"$work/lossy.yaml"
expect 1 "$skymem" put k "$work/value" --store "sky:$work/lossy.yaml"
says "sky:$work/lossy.yaml: its satellites do not answer"

expect 0 "$skymem" sim "$smoke" --seed 7 --json --trace "$work/trace"
cp "$work/out" "$work/first"
holds 'o["seed"] == 7 and o["gets"] > 0 and o["wrong_bytes"] == 0 and all(o["checks"].values())'
holds 're.fullmatch("[0-9a-f]{16}", o["trace_hash"]) and o["virtual_s"] > 0'
[ -s "$work/trace" ] || fail "no trace was written"
expect 0 "$skymem" sim "$smoke" --seed 7 --json
hash=$(grep -o '"trace_hash":"[0-9a-f]*"' "$work/first")
grep -qF "$hash" "$work/out" || fail "the same seed gave another trace"
expect 0 "$skymem" sim "$smoke" --seed 8 --json
! grep -qF "$hash" "$work/out" || fail "another seed gave the same trace"
expect 0 "$skymem" sim "$smoke" --until 5 --json
holds 'o["virtual_s"] < 10'
expect 2 "$skymem" sim "$smoke" --until 0
says "more than 0"
expect 0 "$skymem" sim "$smoke"
grep -q "hits" "$work/out" || fail "sim for people: $(cat "$work/out")"

expect 0 "$skymem" sim --swarm 3 --seed 7 --json
expect 1 "$skymem" sim --figures "$work/no/such/folder"
echo '{"timestamp": 0, "input_length": 600, "hash_ids": [0, 1]}' >"$work/requests"
expect 0 "$skymem" sim --replay "$work/requests" scenarios/sim-smoke.yaml --json
echo 'nonsense' >"$work/requests"
expect 1 "$skymem" sim --replay "$work/requests"
says "a line must be"
expect 2 "$skymem" sim
expect 1 "$skymem" sim "$work/absent.yaml"
bad() {
    printf '%s\n' "$1" >"$work/bad.yaml"
    expect 2 "$skymem" sim "$work/bad.yaml"
    says "bad.yaml:"
    silent
    expect 2 "$skymem" put k "$work/value" --store "sky:$work/bad.yaml"
    says "bad.yaml"
}
bad 'constellation: {planes: 0, slots: 8}'
bad 'constellation: {planes: 3, slots: 3}
placement: {servers: 10, strategy: hop}'
bad 'constellation: {planes: 5, slots: 8}
chunk: -6KiB'
bad 'constellation: {planes: 5, slots: 8}
colour: blue'
grep -q 'one of sky, .*, links, .*, udp' "$work/err" || fail "unknown key: $(cat "$work/err")"
bad 'nonsense'
finish

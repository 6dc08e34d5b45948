#!/usr/bin/env bash
# Proves the sky as a tier of put, and `skymem sim`: the same file and seed give the same trace, a
# scenario with nonsense is a usage error.
. "$(dirname "$0")/common.sh"
smoke=scenarios/sim-smoke.yaml

head -c 100000 /dev/urandom >"$work/value"
expect 0 "$skymem" put k "$work/value" --store sky:scenarios/demo-rotation-hop.yaml --json
holds 'o["stored"] == ["sky"] and o["chunks"] == math.ceil(100000 / 6144)'
grep -q "read back from sky" "$work/err" || fail "put in the sky says: $(cat "$work/err")"

# A scenario that is found by its name is shown by its path, without a detour.
expect 0 "$skymem" stat --store sky:seed --json
grep -qF "sky:$(realpath scenarios/seed.yaml)" "$work/out" || fail "stat: $(cat "$work/out")"

# a sky is not believed: what it took is read back, and why it failed is said
shape='constellation: {planes: 5, slots: 19, altitude_km: 550, inclination_deg: 53, phasing: 0}'
printf '%s\nfaults: {liar_satellites: 95}\n' "$shape" >"$work/liars.yaml"
expect 1 "$skymem" put k "$work/value" --store "sky:$work/liars.yaml" --json
says "sky:$work/liars.yaml: what it stored came back damaged"
excused 1
expect 1 "$skymem" put k "$work/value" --store mem:1MiB --store "sky:$work/liars.yaml"
says "came back damaged"
expect 0 "$skymem" put k "$work/value" --store "disk:$work/disk" --store "sky:$work/liars.yaml" \
    --json
holds 'o["stored"] == ["disk"] and o["chunks"] == 1'
says "not stored in sky: sky:$work/liars.yaml: what it stored came back damaged"
printf '%s\nlinks: {loss: 0.9}\n' "$shape" >"$work/lossy.yaml"
expect 1 "$skymem" put k "$work/value" --store "sky:$work/lossy.yaml"
says "sky:$work/lossy.yaml: its satellites do not answer"
printf '%s\noutages: {storm: [station, 0s, 1h]}\n' "$shape" >"$work/storm.yaml"
expect 1 "$skymem" put k "$work/value" --store "sky:$work/storm.yaml"
says "sky:$work/storm.yaml: its satellites do not answer"

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
says "--until 0: must be a number from 0.001 to 31622400"
expect 0 "$skymem" sim "$smoke"
grep -q "hits" "$work/out" || fail "sim for people: $(cat "$work/out")"

expect 0 "$skymem" sim "$smoke" --until 5 --csv "$work/requests.csv"
[ "$(head -c 24 "$work/requests.csv")" = time_s,ground,op,key,byt ] || fail "no CSV was written"
expect 1 "$skymem" sim "$smoke" --until 5 --csv "$work/no/such/folder.csv"
expect 2 "$skymem" sim --swarm 3 --csv "$work/requests.csv"

expect 0 "$skymem" sim --swarm 3 --seed 7 --json
expect 1 "$skymem" sim --figures "$work/no/such/folder"
echo '{"timestamp": 0, "input_length": 600, "hash_ids": [0, 1]}' >"$work/requests"
expect 0 "$skymem" sim --replay "$work/requests" scenarios/sim-smoke.yaml --json
while IFS='|' read -r line why; do
    printf '%s\n%s\n' '{"timestamp": 0, "input_length": 600, "hash_ids": [0, 1]}' "$line" \
        >"$work/requests"
    expect 1 "$skymem" sim --replay "$work/requests"
    says "requests:2: $why"
done <<'LINES'
nonsense|no JSON object
[1]|no JSON object
{"timestamp": 0, "input_length": 600, "hash_ids": ["x", null]}|hash_ids must be block numbers
{"timestamp": 0, "input_length": 600, "hash_ids": 7}|hash_ids must be a list
{"timestamp": 0, "input_length": 600, "hash_ids": [1.5]}|hash_ids must be block numbers
{"timestamp": 0, "input_length": "9", "hash_ids": [1]}|input_length must be
{"timestamp": 0, "hash_ids": [1]}|input_length must be
{"timestamp": "abc", "input_length": 9, "hash_ids": [1]}|timestamp must be
{"timestamp": 1e300, "input_length": 9, "hash_ids": [1]}|timestamp must be
{"timestamp": -1, "input_length": 9, "hash_ids": [1]}|timestamp must be
{"input_length": 9, "hash_ids": [1]}|timestamp must be
LINES
expect 2 "$skymem" sim

# What has no use for a flag or a file says so.
expect 2 "$skymem" sim "$smoke" --swarm 2
says "--swarm has no use for a scenario"
expect 2 "$skymem" sim --swarm 0
says "--swarm 0"
expect 2 "$skymem" sim --swarm 1 --replay "$work/requests"
says "--swarm has no use for --replay"
expect 2 "$skymem" sim "$smoke" --hours 2
says "a scenario has no use for --hours"
expect 2 "$skymem" sim --swarm 1 --until 9
for hours in 0 0.00001; do
    expect 2 "$skymem" sim --swarm 1 --hours $hours
    says "--hours $hours: must be a number from 0.01 to 8760"
    silent
done
expect 0 "$skymem" sim --swarm 1 --hours 0.01
grep -q '^1 sky, ' "$work/out" || fail "one sky: $(cat "$work/out")"

# The command that replays a failure can be pasted, wherever the file is.
mkdir "$work/it's here"
cat >"$work/it's here/slow.yaml" <<'YAML'
constellation: {planes: 5, slots: 9, altitude_km: 700}
placement: {strategy: rotation, servers: 7}
satellite: {processing_ms: 1000000}
workload: {keys: 2, gets: 2, value: 5KiB, every_ms: 500}
until: 5s
YAML
expect 1 "$skymem" sim "$work/it's here/slow.yaml"
command=$(sed 's/.*replay it with: //; s/--trace trace.txt//' "$work/err")
(
    PATH=$build:$PATH
    eval "$command" >"$work/out" 2>&1
)
grep -q 'FAILED every_request_ends' "$work/out" || fail "$command: $(cat "$work/out")"

# A time to be overhead is for a sky, and is to come.
expect 2 "$skymem" prefetch k --at +100 --store "disk:$work/disk"
says "no --store is sky:"
silent
expect 2 "$skymem" prefetch k --at 2020-01-01T00:00:00Z --store "sky:$smoke"
says "a time to come"
expect 3 "$skymem" prefetch k --at +100 --store "sky:$smoke"
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
bad 'constellation: {planes: 10, slots: 100}
udp: {base: 127.0.0.1:64600, key: a.key}'
grep -q 'bad.yaml:2: .* ends at 65599, past 65535' "$work/err" || fail "ports: $(cat "$work/err")"
finish

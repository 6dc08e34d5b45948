#!/usr/bin/env bash
# Proves that `skymem plan` obeys its formulas, and where a head is computed meanwhile the manager's
# planner: it stores where loading beats computing in time and in cost, says where it breaks even,
# and is right on both sides of that point.
. "$(dirname "$0")/common.sh"

base=(--tokens 4096 --bytes-per-token 18432 --token-ms 1 --rtt-ms 10 --reuse 5)
# with --load-only, and against a deadline, nothing is computed while the prefix is loaded
expect 0 "$skymem" plan "${base[@]}" --mbps 200 --within-ms 9000 --json
holds 'all(l["first_token_ms"] == l["load_ms"] and l["computed_tokens"] == 0 for l in o["levels"])'
expect 0 "$skymem" plan "${base[@]}" --mbps 200 --load-only --json
holds 'all(l["first_token_ms"] == l["load_ms"] and l["computed_tokens"] == 0 for l in o["levels"])'
expect 0 "$skymem" plan --load-only --json
holds 'not o["store"] and "none loads faster" in o["why"]'
expect 0 "$skymem" plan --json
holds 'o["store"]'
expect 2 "$skymem" plan --overlap

expect 0 "$skymem" plan "${base[@]}" --mbps 200 --json
holds 'o["store"] and o["level"] == "4" and abs(o["compute_ms"] - 4096) < 1e-6'
holds '[l["level"] for l in o["levels"]] == ["lossless","8","6","4","3","2.5","2","archive"]'
holds 'all(abs(l["bytes"] - 4096 * 18432 * l["bits_per_element"] / 16) < 1 for l in o["levels"])'
holds 'all(abs(l["load_ms"] - 10 - l["bytes"] * 8 / 200e3) < 1e-4 for l in o["levels"])'
# the head is computed while the rest is loaded: sooner than either alone, and never sooner than
# both can be together
both='4096 * (l["load_ms"] - 10) / (4096 + l["load_ms"] - 10)'
holds "all($both * 0.99 < l['first_token_ms'] for l in o['levels'])"
holds 'all(l["first_token_ms"] < 1.05 * min(4096, l["load_ms"]) for l in o["levels"])'
holds 'o["levels"][0]["first_token_ms"] < 0.8 * min(4096, o["levels"][0]["load_ms"])'
holds 'all(0 < l["computed_tokens"] < 4096 for l in o["levels"][:3])'
holds 'all(l["acceptable"] == (l["kld"] <= 0.002) for l in o["levels"])'
# an engine that is slower meanwhile: fewer tokens are computed
alone=$(python3 -c 'import json, sys
print([l["computed_tokens"] for l in json.load(open(sys.argv[1]))["levels"]])' "$work/out")
expect 0 "$skymem" plan "${base[@]}" --loading-token-ms 2 --mbps 200 --json
holds "all(l['computed_tokens'] <= a for l, a in zip(o['levels'], $alone))"
holds "o['levels'][0]['computed_tokens'] < 0.8 * $alone[0]"
holds 'abs(o["compute_ms"] - 4096) < 1e-6' # which nothing slows down

# a deadline buys the best level that keeps it
expect 0 "$skymem" plan "${base[@]}" --mbps 200 --within-ms 1200 --json
holds 'o["level"] == max((l for l in o["levels"] if l["in_time"] and l["acceptable"]),
    key=lambda l: l["bits_per_element"])["level"]'

# times LEVEL FIELD FACTOR: a number of the answer, multiplied
times() {
    python3 - "$work/out" "$@" <<'PYTHON'
import json, sys
path, level, field, factor = sys.argv[1:]
print(json.load(open(path))["levels"][int(level)][field] * float(factor))
PYTHON
}

# break-even of the bandwidth, on both sides
expect 0 "$skymem" plan "${base[@]}" --load-only --mbps 200 --json
above=$(times 3 break_even_mbps 1.01) below=$(times 3 break_even_mbps 0.99)
expect 0 "$skymem" plan "${base[@]}" --load-only --mbps "$above" --json
holds 'o["store"] and o["level"] == "4" and o["levels"][3]["faster"]'
expect 0 "$skymem" plan "${base[@]}" --load-only --mbps "$below" --json
holds 'not o["store"] and o["level"] is None and "none loads faster" in o["why"]'

# break-even of the reuse, on both sides
costly=(--storage-price 100 --keep-hours 720 --mbps 200)
expect 0 "$skymem" plan "${base[@]}" "${costly[@]}" --json
above=$(times 3 break_even_reuse 1.01) below=$(times 3 break_even_reuse 0.99)
expect 0 "$skymem" plan "${base[@]}" "${costly[@]}" --reuse "$above" --json
holds 'o["store"] and o["levels"][3]["cheaper"]'
expect 0 "$skymem" plan "${base[@]}" "${costly[@]}" --reuse "$below" --json
holds 'not o["store"] and "pay" in o["why"]'

# never: an engine that is free, and one that is done before the first byte
expect 0 "$skymem" plan "${base[@]}" --mbps 200 --compute-price 0 --json
holds 'not o["store"] and all(l["break_even_reuse"] is None for l in o["levels"])'
expect 0 "$skymem" plan --tokens 100 --token-ms 0.01 --rtt-ms 50 --load-only --json
holds 'not o["store"] and all(l["break_even_mbps"] is None for l in o["levels"])'
expect 0 "$skymem" plan "${base[@]}" --mbps 200 --reuse 0 --json
holds 'not o["store"]'

# for people
expect 0 "$skymem" plan "${base[@]}" --mbps 200
[ "$(head -1 "$work/out")" = "4096 tokens of 18432 bytes each." ] || fail "$(head -1 "$work/out")"
grep -q '^Store it at level 4: ' "$work/out" || fail "no verdict: $(head -2 "$work/out")"
grep -q '^4 .*<- store$' "$work/out" || fail "no mark: $(cat "$work/out")"
expect 0 "$skymem" plan "${base[@]}" --load-only --mbps 0.001
grep -q '^Do not store it: ' "$work/out" || fail "no verdict: $(head -2 "$work/out")"
# An assumption is named as one, there and in the help.
expect 0 "$skymem" plan
head -1 "$work/out" | grep -q '^4096 tokens of 131072 bytes each (assumed: .*--bytes-per-token' ||
    fail "the first line: $(head -1 "$work/out")"
expect 0 env COLUMNS=1000 "$skymem" plan --help
grep -q 'a token takes 131,072 bytes' "$work/out" || fail "help names no assumption"

expect 2 "$skymem" plan --mbps 0
says "above 0"
for huge in "--tokens 1e308 --bytes-per-token 1e308" "--tokens 1e200 --bytes-per-token 1e10" \
    "--mbps 1e-310" "--keep-hours 1e308 --storage-price 1e308" "--tokens 1e308 --token-ms 1e308"; do
    # shellcheck disable=SC2086
    expect 2 "$skymem" plan $huge
    says "sums overflow"
done
expect 0 "$skymem" plan --rtt-ms 1e308 # no figure is cut short
grep -q ' 1e+305 s ' "$work/out" || fail "a load that takes for ever: $(cat "$work/out")"
for never in 0 -5; do
    expect 2 "$skymem" plan --within-ms "$never"
    says "--within-ms"
done
expect 2 "$skymem" plan --tokens -1
expect 2 "$skymem" plan --reuse many
expect 2 "$skymem" plan extra
finish

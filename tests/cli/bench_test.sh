#!/usr/bin/env bash
# Proves that `skymem bench` prints the rows of the contract; says nothing about speed but that of
# the sky, whose gets are all answered.
. "$(dirname "$0")/common.sh"
if grep -q '^SKYMEM_SANITIZE:[A-Z]*=thread' "$build/CMakeCache.txt"; then
    echo "skipped: the hosts of bench start threads after a fork, which TSan ends"
    exit 77
fi
fields='set(r) == {"bench", "case", "value", "unit", "ref", "ref_value", "ratio"}'
for suite in index mem disk; do
    expect 0 "$skymem" bench "$suite" --quick --json
    lines_hold "len(rows) >= 2 and all($fields and r['bench'] == '$suite' for r in rows)"
    lines_hold 'all(r["ratio"] is None or abs(r["ratio"] - r["value"] / r["ref_value"]) < 1e-6
        for r in rows)'
done
# the disk, which was the last, beside other stores; of one that is not there it says so
lines_hold '{f"{step} of {size}" for step in ("put", "put, 32 at once", "first get", "second get")
        for size in ("8 MiB", "64 KiB")} <= {r["case"] for r in rows if r["ref"] == "plain files"}'
for peer in LMDB RocksDB; do
    cat "$work/out" "$work/err" | grep -qE "second get of 64 KiB, $peer|$peer was not installed" ||
        fail "neither rows of $peer nor a word"
done
# virtual time: every get of the table is answered, at 5 % loss too
expect 0 "$skymem" bench sky --quick --json
lines_hold 'len(rows) == 24 and all(r["value"] == 200 == r["ref_value"] for r in rows[1::2])'
expect 0 "$skymem" bench index --quick
grep -q '^index  *match .*random reads' "$work/out" || fail "the table: $(cat "$work/out")"
expect 0 "$skymem" bench shm --quick --json
lines_hold 'len(rows) == 24 and all(r["value"] > 0 for r in rows)'
expect 0 "$skymem" bench peer --quick --json
lines_hold 'len([r for r in rows if not r["case"].startswith("iperf3")
    and not "fabric" in r["case"]]) == 10'
lines_hold 'len([r for r in rows if "over fabric:tcp" in r["case"]]) in (0, 10)' # where it is there
lines_hold 'all(r["value"] > 0 and r["unit"] in ("GB/s", "ms", "us") for r in rows)'
# the codec on the heads of other models than the demo's: sizes are the same on every machine
expect 0 "$skymem" bench codec --quick --json
for heads in "2 x 64" "2 x 128" "4 x 128" "8 x 128" "1 x 576 as 9 x 64"; do
    lines_hold "{f'{d} {l} {k}, $heads' for d in ('encode', 'decode') for l in ('8', '4', '2')
        for k in ('plain', 'trellis')} <= {' '.join([*r['case'].split(', ')[0].split()[:3]]) +
        ', ' + r['case'].split(', ')[-1] for r in rows}"
    lines_hold "all(1.7 < r['value'] < 2.1 for r in rows
        if r['case'].startswith('size 2 ') and r['case'].endswith('$heads'))"
done
expect 2 "$skymem" bench redis
says "index, mem, shm, peer, disk, net, codec, sim, sky, stream, overlap, policies or all"
expect 2 "$skymem" bench

# tools/bench judges the demo: what a program says of its rows decides, not how fast this machine is
mkdir "$work/stub" "$work/results"
echo model >"$work/stub/model.path"
# stub MEM_SPEEDUP DISK_MS COLD_MS: a program that says so
stub() {
    cat >"$work/stub/skymem" <<STUB
#!/bin/sh
tr -d '\n' <<'JSON'
{"model": "/some/folder/model.gguf", "rows": [
{"source": "cold", "ttft_ms": 3000, "speedup": 1, "bare_ms": null, "bytes_moved": 0},
{"source": "mem", "ttft_ms": 100, "promised_ms": 125, "speedup": $1, "bare_ms": 100,
 "bytes_moved": 9},
{"source": "disk", "ttft_ms": $2, "promised_ms": 150, "speedup": 27, "bare_ms": 100,
 "bytes_moved": 9},
{"source": "sky-rotation-hop", "ttft_ms": 140, "promised_ms": 180, "speedup": 21,
 "bare_ms": 100, "bytes_moved": 9}
], "cold_ms": [3000, 3000, $3]}
JSON
STUB
    chmod +x "$work/stub/skymem"
}
for fields in "30 110 3100" "27.9 110 3100" "30 151 3100" "30 110 4001"; do
    stub $fields
    wanted=1
    [ "$fields" != "30 110 3100" ] || wanted=0
    expect "$wanted" tools/bench "$work/stub" --to "$work/results" demo
    [ "$(grep -c '| fail |' "$work/results/demo.md")" = "$wanted" ] ||
        fail "$fields: $(cat "$work/results/demo.md")"
    [ "$(grep -c '| pass |' "$work/results/demo.md")" = $((7 - wanted)) ] ||
        fail "$fields: $(cat "$work/results/demo.md")"
    grep -q '"model": "model.gguf"' "$work/results/demo.jsonl" ||
        fail "results name a folder of this machine: $(cat "$work/results/demo.jsonl")"
done

# and keeps the rows of a workload, each in a line of the table
cat >"$work/stub/skymem" <<'STUB'
#!/bin/sh
[ "$1" = workload ] || exit 1
printf '%s\n' '{"kind": "multi-turn", "tier": "disk", "level": "8", "requests": 12,
"prompt_tokens": 7000, "hit_tokens": 5000, "ttft_ms": 120.04, "cold_ttft_ms": 900.6,
"bytes_moved": 2500000, "bytes_stored": 7000000, "answers_changed": 3}' | tr -d '\n'
STUB
expect 0 tools/bench "$work/stub" --to "$work/results" workload
grep -qxF "| multi-turn | disk | 8 | 5000 of 7000 | 120.0 | 900.6 | 2.50 | 7.00 | 3 of 12 |" \
    "$work/results/workload.md" || fail "$(cat "$work/results/workload.md")"
[ "$(wc -l <"$work/results/workload.jsonl")" = 1 ] || fail "not one line of the workload"
rm "$work/stub/model.path"
expect 0 tools/bench "$work/stub" --to "$work/results" workload
says "no model, so no workload"

# stopped from outside, or because nobody reads on: nothing stays
mkdir "$work/stopped"
"$skymem" bench disk --quick --folder "$work/stopped" >/dev/null 2>&1 &
bench=$!
for _ in $(seq 100); do
    [ -z "$(ls "$work/stopped")" ] || break
    sleep 0.05
done
kill -TERM "$bench"
wait "$bench" && fail "it outlived SIGTERM"
"$skymem" bench disk --quick --json --folder "$work/stopped" 2>/dev/null | head -n 1 >"$work/out"
[ -s "$work/out" ] || fail "no line of the bench"
[ -z "$(ls -A "$work/stopped")" ] || fail "a stopped bench left files: $(ls "$work/stopped")"
[ -z "$(ls -A "$work/cache")" ] || fail "bench left files: $(ls "$work/cache")"
finish

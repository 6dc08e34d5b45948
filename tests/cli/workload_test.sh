#!/usr/bin/env bash
# Proves `skymem workload` on a tiny model: each kind of session finds again what it must, to the
# token; lower levels move and store fewer bytes; answers are compared with the cold run; requests
# that arrive together wait for each other. No check depends on how fast the machine is.
. "$(dirname "$0")/common.sh"
need_engine
python3 tests/cli/tiny_gguf.py llama "$work/tiny.gguf" || fail "no tiny model"
workload=("$skymem" workload --model "$work/tiny.gguf" --context 64 --block-tokens 16
    --sessions 2 --turns 3 --predict 4)
fields="kind tier level requests prompt_tokens hit_tokens overlapped_tokens ttft_ms cold_ttft_ms
    response_ms cold_response_ms bytes_moved bytes_stored answers_changed corrupt_blocks"

# every kind, memory and disk: memory has no levels
expect 0 "${workload[@]}" --tiers mem,disk --levels none,8,2 --json
cp "$work/out" "$work/rows"
lines_hold "all(set(r) == set('''$fields'''.split()) for r in rows) and len(rows) == 12"
lines_hold '[(r["tier"], r["level"]) for r in rows] ==
    3 * [("mem", "none"), ("disk", "none"), ("disk", "8"), ("disk", "2")]'
lines_hold '[r["kind"] for r in rows] ==
    4 * ["multi-turn"] + 4 * ["multi-request"] + 4 * ["shared-document"]'
lines_hold 'all(r["requests"] == 6 and r["corrupt_blocks"] == 0 for r in rows)'
lines_hold 'all(r["ttft_ms"] > 0 and r["cold_ttft_ms"] > 0 for r in rows)'
# a question about a document that was read: its four blocks, by each session, twice
lines_hold 'all(r["hit_tokens"] == 2 * 2 * 64 for r in rows[4:8])'
# a conversation finds more than its document, and users of one document find each other'"'"'s
lines_hold 'all(r["hit_tokens"] > 2 * 2 * 64 for r in rows[:2] + rows[8:10])'
lines_hold 'rows[8]["hit_tokens"] == rows[9]["hit_tokens"] and
    rows[0]["hit_tokens"] == rows[1]["hit_tokens"]'
lines_hold 'all(len({r["prompt_tokens"] for r in rows[i:i + 4]}) == 1 for i in (0, 4, 8))'
# bytes: as they are, then fewer and fewer
lines_hold 'all(rows[i]["bytes_moved"] > rows[i + 1]["bytes_moved"] > rows[i + 2]["bytes_moved"] > 0
    for i in (1, 5, 9))'
lines_hold 'all(rows[i]["bytes_stored"] > rows[i + 1]["bytes_stored"] >
    rows[i + 2]["bytes_stored"] > 0 for i in (1, 5, 9))'
# what is loaded as it was is no other answer; two bits an element are
lines_hold 'all(r["answers_changed"] == 0 for r in rows[4:6])'
lines_hold 'sum(r["answers_changed"] for r in rows if r["level"] == "2") > 0'
lines_hold 'all(r["answers_changed"] <= 6 for r in rows)'
# one after the other nothing waits
lines_hold 'all(r["response_ms"] == r["ttft_ms"] and r["cold_response_ms"] == r["cold_ttft_ms"]
    for r in rows)'

# arrivals: all at once, so that each waits for those before; and so far apart that none does
one=("${workload[@]}" --kinds multi-request --levels none --json)
printf '{"timestamp": 27, "hash_ids": [1]}\n%.0s' 1 2 3 4 5 6 7 >"$work/at-once.jsonl"
expect 0 "${one[@]}" --tiers mem --arrivals "$work/at-once.jsonl"
lines_hold 'len(rows) == 1 and rows[0]["response_ms"] > rows[0]["ttft_ms"]'
lines_hold 'rows[0]["cold_response_ms"] > rows[0]["cold_ttft_ms"]'
for i in 1 2 3 4 5 6; do echo "{\"timestamp\": ${i}00000000}"; done >"$work/apart.jsonl"
expect 0 "${one[@]}" --tiers mem --arrivals "$work/apart.jsonl"
lines_hold 'rows[0]["response_ms"] == rows[0]["ttft_ms"]'
expect 0 "${one[@]}" --tiers mem --arrivals "$work/apart.jsonl" --speed 1000000
lines_hold 'rows[0]["cold_response_ms"] >= rows[0]["cold_ttft_ms"]'

# the sky, and the table for people
expect 0 "${workload[@]}" --kinds multi-request --tiers sky --levels none,8
[ "$(grep -c '^multi-request  sky ' "$work/out")" = 2 ] || fail "$(cat "$work/out")"
grep -q '^multi-request  sky   none ' "$work/out" || fail "$(cat "$work/out")"

# a store of one's own: all its tiers together, at the levels of their URLs; it keeps what it has
own=("${workload[@]}" --kinds multi-request --store mem:64MiB --store "disk:$work/own?level=8")
expect 0 "${own[@]}" --json
lines_hold '[(r["tier"], r["level"], r["hit_tokens"]) for r in rows] == [("store", "own", 256)]'
lines_hold 'rows[0]["bytes_moved"] > 0 and rows[0]["bytes_stored"] > 0'
[ -n "$(ls -A "$work/own")" ] || fail "the store is empty"
expect 0 "${own[@]}" --json
lines_hold 'rows[0]["hit_tokens"] > 2 * 3 * 64' # the first requests too, and their questions
expect 0 "${own[@]}" --tiers store,mem --levels none --json
lines_hold '[r["tier"] for r in rows] == ["mem", "store"]'
(umask 077; printf '%064d' 7 >"$work/salt")
expect 0 "${own[@]}" --salt-file "$work/salt" --json
lines_hold 'rows[0]["hit_tokens"] == 256' # nobody else's are found
expect 2 "${workload[@]}" --store moon:1
says "'moon'"

# where there is no terminal each part is a line, but not with --quiet
expect 0 "${workload[@]}" --kinds multi-turn --tiers mem --levels none
[ "$(grep -c '^multi-turn, cold: 6 requests$' "$work/err")" = 1 ] || fail "$(cat "$work/err")"
[ "$(grep -c '^multi-turn, mem at level none: 6 requests$' "$work/err")" = 1 ] ||
    fail "$(cat "$work/err")"
expect 0 "${workload[@]}" --kinds multi-turn --tiers mem --levels none --quiet
[ ! -s "$work/err" ] || fail "$(cat "$work/err")"

# refused
head -5 "$work/apart.jsonl" >"$work/few.jsonl"
expect 1 "${one[@]}" --quiet --arrivals "$work/few.jsonl"
says "5 arrivals; 6 are needed"
tac "$work/apart.jsonl" >"$work/backwards.jsonl"
expect 1 "${one[@]}" --arrivals "$work/backwards.jsonl"
says "backwards.jsonl:2"
echo '{"timestamp": "soon"}' >"$work/text.jsonl"
expect 1 "${one[@]}" --arrivals "$work/text.jsonl"
says "text.jsonl:1"
expect 2 "${workload[@]}" --kinds multi-turn,multi-turn
says "each once, of multi-turn, multi-request, shared-document"
expect 2 "${workload[@]}" --tiers moon
says "each once, of mem, disk, sky, store"
expect 2 "${workload[@]}" --tiers mem --levels 8
says "memory has no levels"
expect 2 "${workload[@]}" --levels 8,5
says "each once, of none, "
expect 2 "${workload[@]}" --context 100000
says "too few for the documents"
expect 2 "${workload[@]}" --turns 64 --predict 1024
says "the model's context holds"
left=$(ls -A "$work/cache" 2>/dev/null | grep -vxE 'skymem-(fingerprint|rates)')
[ -z "$left" ] || fail "it left files: $left"
finish

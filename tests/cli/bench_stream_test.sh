#!/usr/bin/env bash
# Proves that `skymem bench stream` loads over real sockets and prints its rows, and of the
# experiments in virtual time that few contexts are late, and as many for the same seed. How fast
# the sockets were is the bench's affair.
. "$(dirname "$0")/common.sh"
expect 0 "$skymem" bench stream --quick --json
lines_hold 'all(r["bench"] == "stream" and r["value"] >= 0 for r in rows)'
lines_hold 'sum("first token" in r["case"] for r in rows) == 16'
lines_hold 'sum(r["case"].startswith("made-up rows, level") for r in rows) == 9'
lines_hold 'sum(r["case"].endswith("late: pacer") for r in rows) == 25'
lines_hold 'all(r["value"] <= 2.5 for r in rows
    if r["case"].endswith("100 Mb/s, late: pacer"))'
cp "$work/out" "$work/whole"
expect 0 "$skymem" bench stream --quick --seed 1 --json
lines_hold 'len(rows) == 207 and not any("first token" in r["case"] for r in rows)'
cmp -s "$work/out" <(tail -n 207 "$work/whole") || fail "the same seed prints other rows"
lines_hold '[r["value"] for r in rows if r["case"] == "slow answers, two sources"] <
    [r["value"] for r in rows if r["case"] == "slow answers, two, not hedged"]'
expect 0 "$skymem" plan --help
grep -q 'skymem plan: Tell whether' "$work/out" || fail "no help: $(head -3 "$work/out")"
finish

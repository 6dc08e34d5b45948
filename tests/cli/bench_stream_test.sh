#!/usr/bin/env bash
# Proves that `skymem bench stream` loads over real sockets and prints its rows, and of the trials
# in virtual time that few contexts are late. How fast the sockets were is the bench's affair.
. "$(dirname "$0")/common.sh"
expect 0 "$skymem" bench stream --quick --json
lines_hold 'all(r["bench"] == "stream" and r["value"] >= 0 for r in rows)'
lines_hold 'sum("first token" in r["case"] for r in rows) == 16'
lines_hold 'sum(r["case"].startswith("made-up rows, level") for r in rows) == 9'
lines_hold 'sum(r["case"].endswith("late: pacer") for r in rows) == 25'
lines_hold 'all(r["value"] <= 2.5 for r in rows
    if r["case"].endswith("100 Mb/s, late: pacer"))'
expect 0 "$skymem" plan --help
grep -q 'skymem plan: Tell whether' "$work/out" || fail "no help: $(head -3 "$work/out")"
finish

#!/usr/bin/env bash
# Proves that `skymem bench` prints the rows of the contract; says nothing about speed.
. "$(dirname "$0")/common.sh"
fields='set(r) == {"bench", "case", "value", "unit", "ref", "ref_value", "ratio"}'
for suite in index mem disk; do
    expect 0 "$skymem" bench "$suite" --quick --json
    lines_hold "len(rows) >= 2 and all($fields and r['bench'] == '$suite' for r in rows)"
    lines_hold 'all(r["ratio"] is None or abs(r["ratio"] - r["value"] / r["ref_value"]) < 1e-6
        for r in rows)'
done
expect 0 "$skymem" bench mem --quick
grep -q '^mem  *get 8 MiB .*memcpy' "$work/out" || fail "the table: $(cat "$work/out")"
expect 2 "$skymem" bench redis
says "index, mem, disk or all"
expect 2 "$skymem" bench
[ -z "$(ls -A "$work/cache")" ] || fail "bench left files: $(ls "$work/cache")"
finish

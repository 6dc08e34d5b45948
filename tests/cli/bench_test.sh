#!/usr/bin/env bash
# Proves that `skymem bench` prints the rows of the contract; says nothing about speed but that of
# the sky, whose gets are all answered.
. "$(dirname "$0")/common.sh"
fields='set(r) == {"bench", "case", "value", "unit", "ref", "ref_value", "ratio"}'
for suite in index mem disk; do
    expect 0 "$skymem" bench "$suite" --quick --json
    lines_hold "len(rows) >= 2 and all($fields and r['bench'] == '$suite' for r in rows)"
    lines_hold 'all(r["ratio"] is None or abs(r["ratio"] - r["value"] / r["ref_value"]) < 1e-6
        for r in rows)'
done
# virtual time: every get of the table is answered, at 5 % loss too
expect 0 "$skymem" bench sky --quick --json
lines_hold 'len(rows) == 24 and all(r["value"] == 200 == r["ref_value"] for r in rows[1::2])'
expect 0 "$skymem" bench mem --quick
grep -q '^mem  *get 8 MiB .*memcpy' "$work/out" || fail "the table: $(cat "$work/out")"
expect 2 "$skymem" bench redis
says "index, mem, disk, net, codec, sim, sky, stream or all"
expect 2 "$skymem" bench

# stopped from outside: nothing stays
mkdir "$work/stopped"
"$skymem" bench disk --quick --folder "$work/stopped" >/dev/null 2>&1 &
bench=$!
for _ in $(seq 100); do
    [ -z "$(ls "$work/stopped")" ] || break
    sleep 0.05
done
kill -TERM "$bench"
wait "$bench" && fail "it outlived SIGTERM"
[ -z "$(ls -A "$work/stopped")" ] || fail "a stopped bench left files: $(ls "$work/stopped")"
[ -z "$(ls -A "$work/cache")" ] || fail "bench left files: $(ls "$work/cache")"
finish

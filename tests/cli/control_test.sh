#!/usr/bin/env bash
# Proves the control of a running skymemd, store by store: lookup, move, clear and health see its
# arena and its disk apart, and what they say and do is so.
. "$(dirname "$0")/common.sh"
socket=$work/d.sock
store=(--store "shm:$socket")

start_daemon --socket "$socket" --store mem:4MiB --store "disk:$work/disk?max=64MiB"
for key in a b keep tmp/1 tmp/2; do
    echo "value of $key" >"$work/value"
    expect 0 "$skymem" put "$key" "$work/value" "${store[@]}"
done

# lookup: how many are there, and where
expect 0 "$skymem" lookup a none b "${store[@]}" --json
holds 'o["keys"] == 3 and o["found"] == 2 and o["leading"] == 1 and o["missing"] == ["none"]'
holds '[(t["tier"], t["leading"]) for t in o["tiers"]] == [("mem", 1), ("disk", 1)]'
expect 0 "$skymem" lookup a none b "${store[@]}"
grep -q "^2 of 3 keys stored, the first 1 without a gap$" "$work/out" ||
    fail "for people: $(cat "$work/out")"
expect 3 "$skymem" lookup none "${store[@]}"
expect 2 "$skymem" lookup "${store[@]}"
says "KEY..., or --tokens FILE"

# one store of the daemon, by its place
expect 0 "$skymem" rm a --store "shm:$socket?tier=0"
expect 0 "$skymem" lookup a "${store[@]}" --json
holds '[(t["tier"], t["keys"]) for t in o["tiers"]] == [("mem", 0), ("disk", 1)]'
expect 0 "$skymem" ls --store "shm:$socket?tier=0" --json
lines_hold '[r["key"] for r in rows] == ["b", "keep", "tmp/1", "tmp/2"]'
expect 0 "$skymem" ls --store "shm:$socket?tier=1" --json
lines_hold '[r["key"] for r in rows] == ["a", "b", "keep", "tmp/1", "tmp/2"]'
expect 0 "$skymem" stat --store "shm:$socket?tier=0" --store mem:1MiB --json
holds 'o["tiers"][0]["entries"] == 4 and o["tiers"][0]["bytes_max"] == 4 << 20'
expect 2 "$skymem" ls --store "shm:$socket?tier=2"
says "no such pool or tier"
expect 2 "$skymem" ls --store "shm:$socket?tier=x"
says "tier is a number"

# move: out of memory, with its pin, and back; the others stay where they are
expect 0 "$skymem" pin keep "${store[@]}"
expect 0 "$skymem" move keep b --to disk "${store[@]}" --json
holds 'o["moved"] == 2 and o["to"] == "disk" and o["missing"] == []'
expect 0 "$skymem" lookup keep b tmp/1 "${store[@]}" --json
holds '[(t["keys"], t["pinned"]) for t in o["tiers"]] == [(1, 0), (3, 1)]'
expect 0 "$skymem" move keep --to mem "${store[@]}"
expect 0 "$skymem" lookup keep b tmp/1 "${store[@]}" --json
holds '[(t["keys"], t["pinned"]) for t in o["tiers"]] == [(2, 1), (2, 0)]'
expect 0 "$skymem" get keep "${store[@]}"
grep -qx "value of keep" "$work/out" || fail "another value: $(cat "$work/out")"
expect 0 "$skymem" move keep --to disk --copy "${store[@]}"
expect 0 "$skymem" lookup keep "${store[@]}" --json
holds '[t["keys"] for t in o["tiers"]] == [1, 1]'
expect 3 "$skymem" move none b --to mem "${store[@]}" --json
holds 'o["moved"] == 1 and o["missing"] == ["none"]'
expect 2 "$skymem" move b --to attic "${store[@]}"
says "no such tier; there are mem, disk"
expect 2 "$skymem" move b "${store[@]}"
says "--to TIER"

# a time to live stays
put_and_move() {
    "$skymem" put short "$work/value" --ttl "$1" "${store[@]}" &&
        "$skymem" move short --to disk "${store[@]}" && "$skymem" get short "${store[@]}"
}
while_it_lives put_and_move
until_missed "$skymem" get short "${store[@]}"

# a prompt's block takes those behind it along; other branches stay
link_with_build "$work/put_chain" tests/cli/put_chain.c || fail "put_chain does not build"
seq 0 11 >"$work/one"
{ seq 0 7; seq 90 97; } >"$work/two"
blocks() { "$skymem" keys --block-tokens 4 --json "$work/$1" | python3 -c '
import json, sys; print(*json.load(sys.stdin)["keys"])'; }
read -r root k1 one2 <<<"$(blocks one)"
read -r _ _ two2 two3 <<<"$(blocks two)"
"$work/put_chain" "shm:$socket" "$root" "$k1" "$one2" || fail "blocks were not put"
"$work/put_chain" "shm:$socket" "$root" "$k1" "$two2" "$two3" || fail "blocks were not put"
expect 0 "$skymem" lookup --tokens "$work/two" --block-tokens 4 "${store[@]}" --json
holds 'o["leading"] == 4 and o["leading_tokens"] == 16 and o["tiers"][0]["leading"] == 4'
expect 0 "$skymem" move --as block "$two2" --to disk "${store[@]}" --json
holds 'o["moved"] == 2'
expect 0 "$skymem" lookup --tokens "$work/two" --block-tokens 4 "${store[@]}" --json
holds '[(t["tier"], t["leading"]) for t in o["tiers"]] == [("mem", 2), ("disk", 4)]'
expect 0 "$skymem" lookup --tokens "$work/one" --block-tokens 4 "${store[@]}" --json
holds 'o["tiers"][0]["leading"] == 3'

# clear: what begins so, from one store or all
expect 2 "$skymem" clear tmp/ "${store[@]}"
says "would be removed"
expect 0 "$skymem" clear tmp/ --tier mem --yes "${store[@]}" --json
holds 'o["removed"] == 2'
expect 0 "$skymem" lookup tmp/1 tmp/2 "${store[@]}" --json
holds '[t["keys"] for t in o["tiers"]] == [0, 2]'
expect 0 "$skymem" clear tmp/ --yes "${store[@]}"
expect 3 "$skymem" lookup tmp/1 tmp/2 "${store[@]}"
expect 0 "$skymem" get keep "${store[@]}"

# health: all is well, then the disk fails, then nobody answers
expect 0 "$skymem" health "${store[@]}" --json
holds 'o["healthy"] and [t["tier"] for t in o["tiers"]] == ["mem", "disk"]'
expect 0 "$skymem" health --probe "${store[@]}" --json
holds 'o["healthy"] and all(t["probe_ms"] > 0 for t in o["tiers"])'
expect 0 "$skymem" ls skymem/health "${store[@]}" --json
[ ! -s "$work/out" ] || fail "a probe is left: $(cat "$work/out")"
expect 0 "$skymem" health "${store[@]}"
grep -Eq '^disk +ok ' "$work/out" || fail "for people: $(cat "$work/out")"
rm -rf "$work/disk"
touch "$work/disk" # no folder can be made there
expect 1 "$skymem" health --probe "${store[@]}" --json
holds 'not o["healthy"] and [t["failing"] for t in o["tiers"]] == [False, True]'
holds 'o["tiers"][1]["note"] == "a device, file or link failed"'
kill "$daemon"
wait "$daemon"
expect 1 "$skymem" health "${store[@]}"
expect 1 "$skymem" health "${store[@]}" --json
excused 1
finish

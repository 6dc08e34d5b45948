#!/usr/bin/env bash
# Proves that `skymem bench overlap` answers over a link, from a disk and from a sky as a cold run
# does (else it fails) and prints what loading alone, computing alone and both took, at levels too;
# that it leaves no files; and that without a model it says so. How long they took is the bench's
# affair.
. "$(dirname "$0")/common.sh"
need_engine
python3 tests/cli/tiny_gguf.py gemma3 "$work/tiny.gguf" || fail "no tiny model"
expect 0 "$skymem" bench overlap --quick --threads 1 --model "$work/tiny.gguf" --json
lines_hold 'all(r["bench"] == "overlap" and r["value"] > 0 for r in rows) and len(rows) == 32'
lines_hold 'sum("both" in r["case"] for r in rows) == 9'
lines_hold 'sum("of these 32 new tokens" in r["case"] for r in rows) == 9'
lines_hold 'all(r["ratio"] > 0 for r in rows if "both" in r["case"])'
lines_hold '{r["case"].split(", load")[0] for r in rows if "load alone" in r["case"]} >= {"disk",
    "sky", *(f"level {l}, {mbps} Mb/s" for l in (8, 4) for mbps in (20, 100))}'
# The new tokens are the same work in each time of a place, so each time is longer than they are.
lines_hold 'all(min(r["value"], r["ref_value"]) < 1.0001 * min(o["value"] for o in rows
    if o["case"].startswith(r["case"][:-len("of these 32 new tokens")]) and "both" in o["case"])
    for r in rows if "of these" in r["case"])'
[ -z "$(find "$work/cache" -path '*bench*' -type f)" ] || fail "files were left"
expect 0 "$skymem" bench overlap --quick --threads 1 --model "$work/tiny.gguf" --at disk,100 --json
lines_hold '{r["case"].split(",")[0] for r in rows[2:]} == {"100 Mb/s", "disk"} and len(rows) == 9'
expect 2 "$skymem" bench overlap --model "$work/tiny.gguf" --at disk,moon
says "each once, of equal"
expect 1 "$skymem" bench overlap --model "$work/absent.gguf"
says "absent.gguf"
finish

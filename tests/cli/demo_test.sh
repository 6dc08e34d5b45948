#!/usr/bin/env bash
# Proves the demo on a real model: every source gives the tokens of the cold run, logits equal to
# the last bit, the sky's time is accounted for, and rows with a level move fewer bytes.
. "$(dirname "$0")/common.sh"
need_model
expect 0 "$skymem" demo --model "$model" --json --predict 4 --time-scale 300
holds '[r["source"] for r in o["rows"]] == ["cold", "mem", "disk", "sky-rotation", "sky-hop",
    "sky-rotation-hop", "disk-8", "disk-4", "sky-rotation-hop-4", "mem-partial"]'
holds 'o["prompt_tokens"] == 2080 and o["suffix_tokens"] == 32 and o["cpu"] and o["model"]'
holds 'all(r["identical"] and r["logits_equal"] for r in o["rows"][:6] + o["rows"][9:])'
holds 'all(r["hit_tokens"] == 2048 and r["speedup"] > 0 and r["bytes_loaded"] > 0
    for r in o["rows"][1:9])'
# A level moves fewer bytes, and is not the same state.
holds 'all(0.1 < r["bytes_moved"] / r["bytes_loaded"] < 0.5 and not r["logits_equal"]
    for r in o["rows"][6:9])'
holds 'o["rows"][9]["hit_tokens"] == 640 and o["rows"][0]["hit_tokens"] == 0'
holds 'all(r["sky"]["rotations"] >= 2 and r["sky"]["light_ms"] > 0 for r in o["rows"][3:6])'
holds '[r["sky"]["migrated_chunks"] > 0 for r in o["rows"][3:6]] == [True, False, True]'
[ -z "$(ls -A "$work/cache")" ] || fail "the demo left files: $(ls "$work/cache")"
expect 2 "$skymem" demo --model "$model" --sources mem,moon
expect 1 "$skymem" demo --model "$model" --scenario "$work/absent.yaml"
finish

#!/usr/bin/env bash
# Proves the demo on a real model: the answer is in the text, every tier gives the tokens of the
# cold run, logits equal to the last bit, the sky's time is accounted for, and rows with a level
# move fewer bytes. What needs no real weights a tiny model shows: all rows, the slow link, the
# partial prompt and the rows that another process computes among them; rows that break their
# promise are named, and a row slower than cold is called so. For the last two a library before libc
# turns the clock on as it computes. No check depends on how fast the machine is.
. "$(dirname "$0")/common.sh"
need_model
cc -shared -fPIC -O1 -o "$work/clock.so" tests/cli/demo_clock.c -ldl ||
    { echo "skipped: no C compiler"; exit 77; }
export SKYMEM_IO=threads ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
stored=mem,shm,disk,sky-rotation,sky-hop,sky-rotation-hop,disk-8,disk-4,sky-rotation-hop-4
expect 0 "$skymem" demo --model "$model" --json --predict 4 --time-scale 300 --sources "$stored"
holds 'any("Anna" in answer for answer in o["answers"][:1]) and len(o["answers"]) == 3'
holds "[r['source'] for r in o['rows']] == 'cold,$stored'.split(',')"
holds 'all(r["identical"] and r["logits_equal"] for r in o["rows"][:7])'
holds 'all(r["hit_tokens"] == 2048 and r["bytes_loaded"] > 0 for r in o["rows"][1:])'
# A level moves fewer bytes, and is not the same state.
holds 'all(0.1 < r["bytes_moved"] / r["bytes_loaded"] < 0.5 and not r["logits_equal"]
    for r in o["rows"][7:])'

# A tiny model. What is late is named, whatever else the machine made late; nothing else is.
python3 tests/cli/tiny_gguf.py llama "$work/tiny.gguf"
tiny=("$skymem" demo --model "$work/tiny.gguf")
expect 0 env LD_PRELOAD="$work/clock.so" "${tiny[@]}" --json --predict 4 --time-scale 300
holds 'o["warnings"][0].split(":")[0] == "cold"'
holds '[w.split(":")[0] for w in o["warnings"]][1:] ==
    [r["source"] for r in o["rows"][1:] if r["ttft_ms"] > r["promised_ms"]]'
holds 'max(o["cold_ms"]) / min(o["cold_ms"]) > 4 / 3 and o["cold_ms"][0] > 3600e3'
# A promise is what llama.cpp needs here, a margin, and for the sky what light and links take.
holds 'abs(o["rows"][1]["promised_ms"] / (1.25 * o["rows"][1]["bare_ms"]) - 1) < 1e-6'
holds 'all(abs(r["promised_ms"] / (1.5 * r["bare_ms"]) - 1) < 1e-6 for r in o["rows"][2:4])'
holds 'all(r["promised_ms"] > 1.5 * r["bare_ms"] + r["sky"]["light_ms"] for r in o["rows"][4:7])'
# Over the slow link: the sooner of either alone, and what is not loaded is computed.
holds 'abs(o["rows"][10]["promised_ms"] / (1.05 * min(o["rows"][10]["load_alone_ms"],
    o["rows"][10]["compute_alone_ms"])) - 1) < 1e-6'
# all of it over 30 Mb/s, whatever the machine
holds 'o["rows"][10]["load_alone_ms"] > 2048 * 1024 * 8 / 30e3'
holds 'o["rows"][10]["overlapped_tokens"] % 128 == 0'
holds '["load_alone_ms" in r for r in o["rows"]] == [False] * 10 + [True, False]'
holds 'abs(o["rows"][11]["promised_ms"] / (1.25 * o["rows"][0]["ttft_ms"] * 1440 / 2080) - 1) <
    1e-6'
holds '[r["source"] for r in o["rows"]] == ["cold", "mem", "shm", "disk", "sky-rotation", "sky-hop",
    "sky-rotation-hop", "disk-8", "disk-4", "sky-rotation-hop-4", "sky-slow", "mem-partial"]'
holds 'o["prompt_tokens"] == 2080 and o["suffix_tokens"] == 32 and o["cpu"] and o["model"]'
holds 'all(r["identical"] and r["logits_equal"] for r in o["rows"][:7] + o["rows"][10:])'
holds 'all(r["hit_tokens"] == 2048 and r["bytes_loaded"] > 0
    for r in o["rows"][1:11])'
holds 'o["rows"][11]["hit_tokens"] == 640 and o["rows"][0]["hit_tokens"] == 0'
holds 'all(r["sky"]["rotations"] >= 2 and r["sky"]["light_ms"] > 0 for r in o["rows"][4:7])'
holds '[r["sky"]["migrated_chunks"] > 0 for r in o["rows"][4:7]] == [True, False, True]'
holds 'all(abs(o["rows"][0]["ttft_ms"] / r["ttft_ms"] / r["speedup"] - 1) < 1e-6
    for r in o["rows"])'
# Each computation takes longer than the one before, so that a row is slower than cold.
expect 0 env DEMO_CLOCK_GROWS=1 LD_PRELOAD="$work/clock.so" \
    "${tiny[@]}" --sources mem,mem-partial --predict 1
grep -qE '^  mem-partial .*, [0-9.]+x slower, ' "$work/out" || fail "slower: $(cat "$work/out")"
grep -qE '^  mem  .*, [0-9.]+x sooner, ' "$work/out" || fail "sooner: $(cat "$work/out")"
# One process computes the text, another answers with the same tokens: over a socket, and over TCP.
seq 1000 9999 | tr '\n' ' ' | head -c 2600 >"$work/text" # as much as its context holds
expect 0 "${tiny[@]}" --sources prefill-shm,prefill-peer --predict 2 --json \
    --prompt-file "$work/text"
holds '[r["source"] for r in o["rows"]] == ["cold", "prefill-shm", "prefill-peer"]'
holds 'all(r["identical"] and r["logits_equal"] and r["hit_tokens"] == 2048 and
    r["overlapped_tokens"] == 0 and 0 < r["wait_ms"] < r["ttft_ms"] for r in o["rows"][1:])'
holds 'all(abs(r["promised_ms"] / (3 * o["rows"][0]["ttft_ms"]) - 1) < 1e-6
    for r in o["rows"][1:])'
left=$(ls -A "$work/cache" | grep -vxE 'skymem-(fingerprint|rates)') # of the model
[ -z "$left" ] || fail "the demo left files: $left"
expect 2 "$skymem" demo --model "$model" --sources mem,moon
expect 1 "$skymem" demo --model "$model" --scenario "$work/absent.yaml"
finish

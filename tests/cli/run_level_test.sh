#!/usr/bin/env bash
# Proves, on a tiny model, that what `skymem run` kept at a level is of use to one without it, which
# says that the answer may differ, and stays as it is.
. "$(dirname "$0")/common.sh"
need_engine
python3 tests/cli/tiny_gguf.py llama "$work/tiny.gguf"
python3 -c "print('xyz' * 230)" >"$work/prompt"
run=("$skymem" run --model "$work/tiny.gguf" --prompt-file "$work/prompt" --block-tokens 16
    --predict 4 --json --store mem:16MiB --store "disk:$work/disk")

# Level 4, none, level 4: the same 43 blocks.
expect 0 "${run[@]}" --level 4
holds 'o["verdict"] == "miss" and o["saved_blocks"] >= 43'
expect 0 "${run[@]}" --level 4
holds 'o["verdict"] == "hit" and o["levels"] == {"4": 43}'
answer=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["tokens"])' "$work/out")
[ ! -s "$work/err" ] || fail "said: $(cat "$work/err")"
expect 0 "${run[@]}"
holds "o['verdict'] == 'hit' and o['levels'] == {'4': 43} and o['tokens'] == $answer"
holds 'o["corrupt_blocks"] == 0 and o["saved_blocks"] == 0 and o["tiers"]["disk"] == 43'
says "43 blocks were kept at a level that loses something"
expect 0 "${run[@]}" --level lossless --no-save
holds 'o["levels"] == {"4": 43}'
says "43 blocks were kept at a level that loses something"
expect 0 "${run[@]}" --deadline-ms 5000
holds 'o["verdict"] == "hit" and o["levels"] == {"4": 43}'
expect 0 "${run[@]}" --no-load
holds 'o["hit_tokens"] == 0 and o["saved_blocks"] == 0'
expect 0 "${run[@]}" --level 4
holds "o['verdict'] == 'hit' and o['levels'] == {'4': 43} and o['tokens'] == $answer"
finish

#!/usr/bin/env bash
# Proves, on a tiny model, that what `skymem run` kept at a level is of use to one without it, which
# says that the answer may differ, and stays as it is; that levels which the URL names later are
# added to the blocks that are there, from what is there or computed; and that blocks too long for
# a level are told.
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
holds 'o["level"] == "4" and o["tier_levels"] == {"mem": None, "disk": "4"}'

# Level 8 alone, then three: what lacks is added once, whether the prompt is loaded or computed.
run=("${run[@]:0:${#run[@]}-4}")
for how in --predict=4 --no-load; do
    disk="$work/ladder$how"
    expect 0 "${run[@]}" --store "disk:$disk?level=8"
    holds 'o["saved_blocks"] == 43 and o["level"] is None and o["tier_levels"]["disk"] == "8"'
    expect 0 "${run[@]}" --store "disk:$disk?level=8,4,2" "$how"
    holds 'o["saved_blocks"] == 43 and o["tier_levels"]["disk"] == "8,4,2"'
    expect 0 "${run[@]}" --store "disk:$disk?level=8,4,2" "$how"
    holds 'o["saved_blocks"] == 0'
    [ ! -s "$work/err" ] || fail "said: $(cat "$work/err")"
    expect 0 "$skymem" ls --blocks --json --store "disk:$disk?level=8,4,2"
    for level in 8 4 2; do
        [ "$(grep -c "\"level\": *\"$level\"" "$work/out")" = 43 ] || fail "not 43 at level $level"
    done
done

# A level codes at most 512 tokens.
python3 -c "print('xyz' * 700)" >"$work/long"
long=("$skymem" run --model "$work/tiny.gguf" --prompt-file "$work/long" --predict 4 --json
    --store "disk:$work/wide" --level 4)
expect 0 "${long[@]}" --block-tokens 1024
holds 'o["saved_blocks"] == 2'
says "blocks of 1024 tokens are kept as they come, at no level"
expect 0 "${long[@]}" --block-tokens 512
[ ! -s "$work/err" ] || fail "said: $(cat "$work/err")"
finish

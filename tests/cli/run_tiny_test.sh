#!/usr/bin/env bash
# Proves, on a tiny model, what `skymem run` refuses, and soon, and which memory it falls back to.
. "$(dirname "$0")/common.sh"
need_engine
python3 tests/cli/tiny_gguf.py llama "$work/tiny.gguf"
run=(timeout 600 "$skymem" run --model "$work/tiny.gguf" --block-tokens 16 --predict 2)

# Far more than its context of 4,096 tokens: cutting all of it would take minutes.
python3 -c "print('x y z ' * 200000)" >"$work/long"
expect 1 "${run[@]}" --prompt-file "$work/long"
says "the prompt has more than "
says " tokens, and the model's context holds 4096: shorten it"
silent

# A little more: known to the token.
python3 -c "print('xyz' * 1400)" >"$work/over"
expect 1 "${run[@]}" --prompt-file "$work/over"
says "the prompt has 4205 tokens, and the model's context holds 4096: shorten it"
python3 -c "print('x' * 4000)" >"$work/under"
expect 0 "${run[@]}" --prompt-file "$work/under" --store mem:64MiB --predict 1

# A FIFO that nobody writes to is no model.
mkfifo "$work/fifo"
expect 1 timeout 600 "$skymem" run --model "$work/fifo" --prompt a
says "not a GGUF model file"

# Two tenants with one prompt over one folder: each computes it once, and then hits its own blocks.
python3 -c "print('x' * 600)" >"$work/prompt"
for tenant in a b; do
    (umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/salt.$tenant")
    for hit in 'o["hit_tokens"] == 0' 'o["hit_tokens"] > 0'; do
        expect 0 "${run[@]}" --prompt-file "$work/prompt" --store mem:64MiB \
            --store "disk:$work/shared" --salt-file "$work/salt.$tenant" --json
        holds "$hit"
    done
done
expect 0 "${run[@]}" --prompt-file "$work/prompt" --store "disk:$work/shared" --json
holds 'o["hit_tokens"] == 0'

# Where the time of a run went.
expect 0 env SKYMEM_TRACE="$work/trace" "${run[@]}" --prompt-file "$work/prompt" \
    --store "disk:$work/shared"
python3 tests/cli/trace_check.py "$work/trace" lookup save 'submit get' >"$work/said" 2>&1 ||
    fail "a trace: $(cat "$work/said")"

# Without its disk a run keeps to the memory that was allowed: one block has no room in 64 KiB.
python3 -c "print('x' * 600)" >"$work/short"
run+=(--prompt-file "$work/short" --store "disk:$work/short" --block-tokens 128 --json)
expect 0 "${run[@]}" --store mem:64KiB
holds 'o["saved_blocks"] == 0 and o["tiers"] == {"mem": 0} and len(o["tokens"]) == 2'
grep -q "answering with process memory alone" "$work/err" || fail "unsaid: $(cat "$work/err")"
expect 0 "${run[@]}"
holds 'o["saved_blocks"] == 4 and o["tiers"] == {"mem": 0}'
finish

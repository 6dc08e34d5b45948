#!/usr/bin/env bash
# Proves `skymem run` on a real model: the same tokens cold, warm from another process's disk or a
# host's memory, partly warm, with damage, and uncached; and clear refusals.
. "$(dirname "$0")/common.sh"
need_model
store=(--store mem:64MiB --store "disk:$work/disk?max=1GiB")
run=("$skymem" run --model "$model" --block-tokens 32 --predict 8 "${store[@]}" --json)

# field NAME: of the last answer
field() {
    python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$work/out" "$1"
}

fields='"model namespace block_tokens prompt_tokens hit_tokens overlapped_tokens
 computed_tokens tiers level ttft_ms load_ms prefill_ms total_ms tokens text bytes_loaded
 bytes_saved saved_blocks verdict corrupt_blocks".split()'
head -c 800 docs/ARCHITECTURE.md 2>/dev/null >"$work/prompt" || true
[ -s "$work/prompt" ] || head -c 800 cmd/skymem/demo_text.c >"$work/prompt"
cp "$work/prompt" "$work/forked"
printf ' And now for something else entirely.' >>"$work/forked"

expect 0 "${run[@]}" --prompt-file "$work/prompt"
holds "all(f in o for f in $(tr '\n' ' ' <<<"$fields"))"
holds 'o["verdict"] == "miss" and o["hit_tokens"] == 0'
holds 'o["saved_blocks"] == (o["prompt_tokens"] + 7) // 32'
holds 'o["bytes_saved"] > 0 and o["tiers"] == {"mem": 0, "disk": 0} and len(o["tokens"]) == 8'
cold=$(field tokens) saved=$(field saved_blocks) prompt_tokens=$(field prompt_tokens)

expect 0 "${run[@]}" --prompt-file "$work/prompt"
holds "o['tokens'] == $cold and o['verdict'] == 'hit' and o['saved_blocks'] == 0"
holds 'o["hit_tokens"] == (o["prompt_tokens"] - 1) // 32 * 32 and o["corrupt_blocks"] == 0'
holds 'o["tiers"]["disk"] > 0 and o["bytes_loaded"] > 0'
holds 'o["hit_tokens"] + o["computed_tokens"] == o["prompt_tokens"]'
holds 'o["ttft_ms"] <= o["total_ms"]'

# through a host: what one process saves another restores from its memory
shared=("$skymem" run --model "$model" --block-tokens 32 --predict 8 --store "shm:$work/d.sock"
    --prompt-file "$work/prompt" --json)
start_daemon --socket "$work/d.sock" --store mem:64MiB
expect 0 "${shared[@]}"
holds "o['tokens'] == $cold and o['verdict'] == 'miss' and o['saved_blocks'] == $saved"
expect 0 "${shared[@]}"
holds "o['tokens'] == $cold and o['verdict'] == 'hit' and o['saved_blocks'] == 0"
holds 'o["hit_tokens"] == (o["prompt_tokens"] - 1) // 32 * 32 and o["tiers"]["shm"] > 0'
expect 0 "$skymem" stat --store "shm:$work/d.sock" --json
holds "o['leases'] == 0 and o['arena_bytes_used'] > 0 and o['entries'] >= $saved"
kill -TERM "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"

# a longer prompt finds what it shares
expect 0 "${run[@]}" --prompt-file "$work/forked" --no-load --no-save
holds 'o["hit_tokens"] == 0 and o["saved_blocks"] == 0'
forked=$(field tokens)
expect 0 "${run[@]}" --prompt-file "$work/forked"
holds "o['tokens'] == $forked and o['hit_tokens'] >= 32"

# a disk too small for the prompt: what it did not keep is said, and counted
expect 0 "$skymem" run --model "$model" --block-tokens 32 --predict 2 --store mem:64MiB \
    --store "disk:$work/narrow?max=1MiB" --prompt-file "$work/prompt" --json
holds '1 <= o["saved_blocks"] < (o["prompt_tokens"] + 1) // 32 and o["bytes_saved"] > 0'
kept=$(field saved_blocks) new=$((($(field prompt_tokens) + 1) / 32))
says "disk did not keep $((new - kept)) of $new new blocks"
expect 0 "$skymem" run --model "$model" --block-tokens 32 --predict 2 --no-save \
    --store "disk:$work/narrow?max=1MiB" --prompt-file "$work/prompt" --json
holds "o['verdict'] == 'partial' and o['hit_tokens'] == 32 * $kept" # what it keeps is the beginning

# another KV type is another namespace
expect 0 "${run[@]}" --kv-type f32 --prompt-file "$work/prompt" --no-save
holds 'o["hit_tokens"] == 0'

# damage is a miss, and the answer stays
for file in $(find "$work/disk" -type f -size +100k | head -3); do
    printf 'xxxx' | dd of="$file" bs=1 seek=60000 conv=notrunc status=none
done
expect 0 "${run[@]}" --prompt-file "$work/prompt"
holds "o['tokens'] == $cold"
expect 0 "${run[@]}" --prompt-file "$work/prompt"
holds "o['tokens'] == $cold and o['verdict'] == 'hit'"

# a deadline that has passed: computed, the same
expect 0 "${run[@]}" --prompt-file "$work/prompt" --deadline-ms 0.001
holds "o['tokens'] == $cold and o['verdict'] in ('recompute', 'miss') and o['hit_tokens'] == 0"

# text streams to standard output
expect 0 "$skymem" run --model "$model" --predict 8 "${store[@]}" --prompt "The capital of France"
[ -s "$work/out" ] || fail "no text"
says "first token after"

# a model that cannot be cached is answered all the same
expect 0 "${run[@]}" --kv-type q8_0 --prompt-file "$work/prompt"
holds 'o["hit_tokens"] == 0 and o["saved_blocks"] == 0 and o["refusal"] and len(o["tokens"]) > 0'
says "answering uncached"

# --dump-kv
expect 0 "${run[@]}" --prompt-file "$work/prompt" --no-load --no-save --dump-kv "$work/kv.npy"
python3 - "$work/kv.npy" "$prompt_tokens" <<'PYTHON' || fail "--dump-kv is no array as it should be"
import ast, os, struct, sys
data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x93NUMPY\x01\x00"
length = struct.unpack("<H", data[8:10])[0]
head = ast.literal_eval(data[10:10 + length].decode())
assert (10 + length) % 64 == 0 and head["descr"] == "<f2" and not head["fortran_order"]
layers, two, tokens, heads, dim = head["shape"]
assert two == 2 and tokens == int(sys.argv[2]), head
assert len(data) - 10 - length == layers * 2 * tokens * heads * dim * 2
assert any(data[-4096:])
PYTHON
# … with layers in the model's order, as the calibration knows them
expect 0 "$skymem" codec encode "$work/kv.npy" "$work/kv.skv" --level 3 --json \
    --calibration share/calibration/gemma-3-270m.skycal
holds 'o["bits_per_element"] < 3.3'

# on a terminal: how far the model and the prompt are, cleared before the answer; else nothing
told() { # told PATTERN: the screen has it
    grep -qE "$1" "$work/screen" || fail "the terminal does not show $1: $(cat "$work/screen")"
}
people=("$skymem" run --model "$model" --predict 1 --no-save --no-load)
for i in {1..600}; do printf 'word '; done >"$work/words"
on_terminal "${people[@]}" --prompt-file "$work/words"
told 'loading .*: [0-9]+ %'
told 'computing: 0 of [0-9]+ tokens'
told 'computing: 512 of [0-9]+ tokens'
sed $'s/.*\033\\[K//' "$work/screen" >"$work/left" # what is still on each line
! grep -qE "loading|computing" "$work/left" || fail "progress is left: $(cat "$work/left")"
grep -q "first token after" "$work/left" || fail "no answer on the terminal"
for silent in --json -q; do
    on_terminal "${people[@]}" --prompt "one two three" "$silent"
    ! grep -qE "loading|computing:" "$work/screen" || fail "progress with $silent"
done
expect 0 "${people[@]}" --prompt "one two three"
says "first token after"

# bad input
expect 2 "${run[@]}" --prompt ""
says "the prompt is empty"
expect 2 "${run[@]}"
expect 2 "${run[@]}" --prompt a --prompt-file "$work/prompt"
says "--prompt and --prompt-file exclude each other"
expect 1 "${run[@]}" --prompt-file "$work/absent"
expect 1 "$skymem" run --prompt x --model "$work/absent.gguf"
expect 1 "$skymem" run --prompt x --model "$work/prompt"
says "prompt"
silent
python3 -c 'print("word " * 400000)' >"$work/huge"
expect 1 "${run[@]}" --prompt-file "$work/huge"
says "context"

# a tier that does not open is reported, and the prompt is answered
expect 0 "$skymem" run --model "$model" --predict 2 --store "disk:$work/prompt" --prompt x --json
holds 'len(o["tokens"]) == 2 and o["hit_tokens"] == 0'
grep -q "answering with process memory alone" "$work/err" || fail "not reported: $(cat "$work/err")"
finish

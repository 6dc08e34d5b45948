#!/usr/bin/env bash
# Proves `skymem calibrate`: a file for models of two shapes, small, bound to its model, and better
# than none; and clear refusals.
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")
need_engine
for f in 1 2; do seq "$f" "$((3 * f))" 4000 | tr '\n' ' ' | head -c 1700 >"$work/$f.txt"; done
seq 7 11 9000 | tr '\n' ' ' >"$work/other.txt"

for shape in llama qwen3; do
    model=$work/$shape.gguf
    python3 "$here/tiny_gguf.py" "$shape" "$model"
    expect 0 "$skymem" calibrate --model "$model" --threads 1 --text "$work/1.txt" \
        --text "$work/2.txt" -o "$work/$shape.skycal" --json
    holds 'o["bytes"] < 200000 and o["layers"] == 4 and o["texts"] == 2 and o["tokens"] >= 2000'
    holds 'set(o["levels"]) >= {"8", "6", "4", "3", "2.5", "2"}'
    holds 'abs(o["levels"]["4"] - 4) < 0.3 and abs(o["levels"]["2"] - 2) < 0.3'
    [ "$(stat -c %s "$work/$shape.skycal")" = "$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["bytes"])' "$work/out")" ] || fail "the size is not the file's"

    # on a text it has not seen, at no more bits: closer
    expect 0 "$skymem" eval --model "$model" --text "$work/other.txt" --prefix 512 --continue 64 \
        --levels 3,3-uncalibrated --calibration "$work/$shape.skycal" --json
    lines_hold 'rows[0]["kld_mean"] * 2 ** (2 * (rows[0]["bits_per_element"] -
        rows[1]["bits_per_element"])) < rows[1]["kld_mean"]'
done

# layers in the model's order, though the cache has the sixth, without a window, first
python3 "$here/tiny_gguf.py" gemma3 "$work/gemma3.gguf"
expect 0 "$skymem" calibrate --model "$work/gemma3.gguf" --threads 1 --text "$work/1.txt" \
    -o "$work/gemma3.skycal" --json
order=$(tail -c 36 "$work/gemma3.skycal" | head -c 28 | od -An -tu4 | tr -s ' \n' ' ')
[ "$order" = " 5 0 1 2 3 4 6 " ] || fail "the order of layers is$order"
expect 0 "$skymem" run --model "$work/gemma3.gguf" --prompt-file "$work/1.txt" --predict 1 \
    --no-load --no-save --dump-kv "$work/kv.npy"
expect 0 "$skymem" codec encode "$work/kv.npy" "$work/kv.skv" --level 4 \
    --calibration "$work/gemma3.skycal"
python3 - "$work" <<'PYTHON'
import sys
data = open(f"{sys.argv[1]}/kv.npy", "rb").read()
layer = (len(data) - 128) // 7
body = [data[128 + i * layer:][:layer] for i in range(7)]
open(f"{sys.argv[1]}/cache.npy", "wb").write(data[:128] + body[5] + b"".join(body[:5]) + body[6])
PYTHON
expect 1 "$skymem" codec encode "$work/cache.npy" "$work/x.skv" --level 4 \
    --calibration "$work/gemma3.skycal"
says 'in another order than the model'

# written again as it is now: what is short already stays, what an older program wrote gets shorter
expect 0 "$skymem" calibrate --from "$work/llama.skycal" -o "$work/again.skycal" --json
holds 'o["layers"] == 4'
cmp -s "$work/llama.skycal" "$work/again.skycal" || fail "a short calibration was changed"
expect 0 "$skymem" calibrate --from fuzz/corpus/skycal/pairs -o "$work/short.skycal" --json
holds "o['bytes'] < $(stat -c %s fuzz/corpus/skycal/pairs)"
expect 1 "$skymem" calibrate --from "$work/short.skycal" -o "$work/short.skycal"
says 'is what it is to be made of'
expect 1 "$skymem" calibrate --from fuzz/corpus/skycal/reject-later-version -o "$work/none.skycal"
says 'calibration of version 9; this program reads 1 to 4'
[ ! -e "$work/none.skycal" ] || fail "an empty file was left behind"
# those that come along: short, and nothing is left to shorten
for own in share/calibration/*.skycal; do
    expect 0 "$skymem" calibrate --from "$own" -o "$work/again.skycal"
    cmp -s "$own" "$work/again.skycal" || fail "$own is not as it would be written now"
    [ "$(stat -c %s "$own")" -le 200000 ] || fail "$own is larger than 200 KB"
done

# another model's, or damaged
expect 1 "$skymem" eval --model "$work/llama.gguf" --text "$work/other.txt" --prefix 64 \
    --continue 8 --levels 4 --calibration "$work/qwen3.skycal"
says 'another model'
head -c 3000 "$work/llama.skycal" >"$work/cut.skycal"
expect 1 "$skymem" eval --model "$work/llama.gguf" --text "$work/other.txt" --prefix 64 \
    --continue 8 --levels 4 --calibration "$work/cut.skycal"
says 'skymem calibrate'

# found by its content, next to the cache
expect 0 "$skymem" help --man calibrate
grep -qF 'file in $XDG_CACHE_HOME/skymem-calibration' <(tr -s '[:space:]' ' ' <"$work/out") ||
    fail "the manual does not say where a calibration is looked for"
mkdir -p "$XDG_CACHE_HOME/skymem-calibration"
cp "$work/qwen3.skycal" "$XDG_CACHE_HOME/skymem-calibration/a.skycal"
cp "$work/llama.skycal" "$XDG_CACHE_HOME/skymem-calibration/b.skycal"
expect 0 "$skymem" eval --model "$work/llama.gguf" --text "$work/other.txt" --prefix 64 \
    --continue 8 --levels 4 --json
[ ! -s "$work/err" ] || fail "the calibration was not found: $(cat "$work/err")"
# … past what is none: nobody waits for a pipe, or complains of a folder
rm "$XDG_CACHE_HOME/skymem-calibration"/[ab].skycal
mkfifo "$XDG_CACHE_HOME/skymem-calibration/pipe.skycal"
mkdir "$XDG_CACHE_HOME/skymem-calibration/folder.skycal"
ln -s nowhere "$XDG_CACHE_HOME/skymem-calibration/link.skycal"
cp "$work/cut.skycal" "$XDG_CACHE_HOME/skymem-calibration"
expect 0 timeout 600 "$skymem" eval --model "$work/llama.gguf" --text "$work/other.txt" \
    --prefix 64 --continue 8 --levels 4 --json
says 'no calibration of this model'

# blocks of another calibration of the same model: told, computed and stored anew, and found then
echo short >"$work/short.txt"
expect 0 "$skymem" calibrate --model "$work/llama.gguf" --threads 1 --text "$work/short.txt" \
    --text "$work/2.txt" -o "$work/second.skycal" --json
says "$work/short.txt: has "
says ', 516 are needed; left out'
holds 'o["texts"] == 1'
head -c 700 "$work/other.txt" >"$work/prompt.txt"
run=("$skymem" run --model "$work/llama.gguf" --prompt-file "$work/prompt.txt" --predict 1
    --block-tokens 64 --level 4 --load-only --store "disk:$work/blocks" --json)
expect 0 "${run[@]}" --calibration "$work/llama.skycal"
holds 'o["calibrated"] is True'
holds 'o["verdict"] == "miss" and o["saved_blocks"] == o["prompt_tokens"] // 64 > 9'
expect 0 "${run[@]}" --calibration "$work/llama.skycal"
holds 'o["verdict"] == "hit"'
expect 0 "${run[@]}" --calibration "$work/second.skycal" --no-save
says 'blocks are of no use, coded with another calibration; computing'
holds 'o["hit_tokens"] == 0 and o["saved_blocks"] == 0'
expect 0 "${run[@]}" --calibration "$work/second.skycal"
says 'with another calibration; computing, and storing again'
holds 'o["hit_tokens"] == 0 and o["saved_blocks"] == o["prompt_tokens"] // 64 > 9'
expect 0 "${run[@]}" --calibration "$work/second.skycal"
holds 'o["verdict"] == "hit"'
expect 1 "${run[@]}" --calibration "$work/qwen3.skycal"
says 'qwen3.skycal: made for another model; see skymem calibrate'
excused 1

# refusals
expect 2 "$skymem" calibrate --model "$work/llama.gguf" --text "$work/1.txt"
says '-o FILE.skycal'
expect 1 "$skymem" calibrate --model "$work/llama.gguf" --text "$work/short.txt" -o "$work/x.skycal"
says 'longer ones'
[ ! -e "$work/x.skycal" ] || fail "an empty file was left behind"
# one of several texts is not there
expect 1 "$skymem" calibrate --model "$work/llama.gguf" --text "$work/1.txt" \
    --text "$work/nofile" -o "$work/x.skycal" --json
says 'nofile: No such file'
excused 1
for own in 1.txt llama.gguf; do
    cp "$work/$own" "$work/before"
    ln -sf "$own" "$work/same"
    expect 1 "$skymem" calibrate --model "$work/llama.gguf" --text "$work/1.txt" -o "$work/same"
    says 'is what it is to be made of'
    cmp -s "$work/$own" "$work/before" || fail "$own was written over"
done
# the place is tried before the work is done
expect 1 "$skymem" calibrate --model "$work/llama.gguf" --text "$work/short.txt" \
    -o "$work/none/x.skycal"
says 'none/x.skycal: No such file'
finish

#!/usr/bin/env bash
# Proves `skymem eval` on models of two shapes (grouped heads, interleaved and NEOX rope): its
# lines, that what must be exact is, that more bits move answers less, and clear refusals.
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")
need_engine
seq 1 600 | tr '\n' ' ' >"$work/numbers.txt"
python3 "$here/tiny_gguf.py" llama "$work/llama.gguf"
python3 "$here/tiny_gguf.py" qwen3 "$work/qwen3.gguf"
fields="level text bits_per_element bytes kld_mean kld_p999 top1 ppl_ratio encode_gbps decode_gbps"
eval=("$skymem" eval --text "$work/numbers.txt" --prefix 256 --continue 32 --json)

# a gigabyte is not written without a word
expect 0 "${eval[@]}" --model "$work/llama.gguf" --levels f16
told="writing the weights as F32, [0-9.]* KiB, to $XDG_CACHE_HOME/skymem-weights/.*"
grep -q "$told; skymem clear --weights removes them" "$work/err" ||
    fail "not said before: $(cat "$work/err")"
expect 0 "${eval[@]}" --model "$work/llama.gguf" --levels f16
! grep -q "writing" "$work/err" || fail "the weights were written twice"
mkdir "$XDG_CACHE_HOME/skymem-weights/skymem-weights-killed" # as SIGKILL leaves it
: >"$XDG_CACHE_HOME/skymem-weights/skymem-weights-killed/f32.gguf"
expect 2 "$skymem" clear --weights
expect 0 "$skymem" clear --weights --yes
grep -q "^removed 2 entries, [0-9.]* KiB" "$work/out" || fail "removed: $(cat "$work/out")"
[ ! -e "$XDG_CACHE_HOME/skymem-weights" ] || fail "weights were left"
expect 0 "$skymem" clear --weights --json
holds 'o == {"removed": 0, "bytes": 0}'

for shape in llama qwen3; do
    levels=f16,q8_0,q4_0,kivi-2,cachegen,cachegen-note
    expect 0 "${eval[@]}" --model "$work/$shape.gguf" --levels "$levels"
    lines_hold '[r["level"] for r in rows] == ["f16", "q8_0", "q4_0", "kivi-2", "cachegen",
        "cachegen-note"]'
    lines_hold "all(f in r for f in '$fields'.split() for r in rows)"
    lines_hold 'all(r["text"] == "numbers" for r in rows)'
    lines_hold 'rows[0]["bits_per_element"] == 16 and rows[0]["kld_mean"] < 1e-9'
    lines_hold 'rows[0]["top1"] == 1 and abs(rows[0]["ppl_ratio"] - 1) < 1e-9'
    lines_hold 'rows[0]["bytes"] == 4 * 2 * 256 * 64 * 2' # layers, K and V, tokens, row, f16
    lines_hold '[r["bits_per_element"] for r in rows[1:4]] == [8.5, 4.5, 3.0]'
    # anchors at 8 bits, a token in ten, and tables of 33 x 16 bits a channel
    lines_hold '26 * 8 / 256 + 33 * 16 / 256 < rows[5]["bits_per_element"] < 8'
    lines_hold 'rows[5]["kld_mean"] > 0 and rows[5]["kld_mean"] != rows[4]["kld_mean"]'
    lines_hold '0 < rows[1]["kld_mean"] < rows[2]["kld_mean"] and rows[0]["encode_gbps"] is None'

    # the codec on this layout, without side data: lossless is exact, and finer is closer
    expect 0 "${eval[@]}" --model "$work/$shape.gguf" --levels lossless,8,4,2,4-plain,4-from-8,4-x2
    lines_hold '0.8 < rows[2]["bits_per_element"] - rows[6]["bits_per_element"] < 1.2'
    lines_hold 'rows[0]["kld_mean"] < 1e-9 and rows[0]["bits_per_element"] < 16.3'
    lines_hold '[r["bits_per_element"] for r in rows[:4]] == sorted(
        (r["bits_per_element"] for r in rows[:4]), reverse=True)'
    lines_hold 'rows[1]["kld_mean"] < rows[2]["kld_mean"] < rows[3]["kld_mean"]'
    lines_hold 'all(r["encode_gbps"] > 0 and r["decode_gbps"] > 0 for r in rows)'

    # one of two blocks finer costs half of what all of it would, either of them as much
    expect 0 "${eval[@]}" --model "$work/$shape.gguf" --levels 2,4,2+4@last,2+4@first,2+4@last2
    lines_hold 'all(abs(r["bytes"] - (rows[0]["bytes"] + rows[1]["bytes"]) / 2) < 0.02 * r["bytes"]
        for r in rows[2:4])'
    lines_hold 'rows[4]["bytes"] == rows[1]["bytes"] and rows[4]["kld_mean"] == rows[1]["kld_mean"]'
done

# planted facts: every question is asked
expect 0 "${eval[@]}" --model "$work/llama.gguf" --levels f16 --facts
lines_hold 'rows[1]["text"] == "planted-facts" and rows[1]["asked"] == 24'
lines_hold '0 <= rows[1]["right"] <= 24 and rows[0]["right"] is None'

# CacheGen's claims
expect 0 "${eval[@]}" --model "$work/llama.gguf" --claims
lines_hold 'sum(r["claim"] == "depth" for r in rows) == 8 and rows[-1]["claim"] == "groups"'
lines_hold 'rows[-1]["by_channel"] <= rows[-1]["whole"] + 0.1'

# a table for people, and the plot
expect 0 "${eval[@]:0:8}" --model "$work/llama.gguf" --levels q8_0,q4_0 --plot "$work/plot.svg"
grep -q q4_0 "$work/out" || fail "no table"
python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$work/plot.svg" ||
    fail "the plot is no XML"

# lines kept from earlier runs give the same table, without a model
cp "$work/out" "$work/table"
expect 0 "${eval[@]}" --model "$work/llama.gguf" --levels q8_0,q4_0
cp "$work/out" "$work/lines"
expect 0 "$skymem" eval --lines "$work/lines"
cmp -s "$work/table" "$work/out" || fail "the table of kept lines differs"
expect 1 "$skymem" eval --lines "$work/numbers.txt"
says 'numbers.txt:1: no line that eval prints'
for none in "$work" /dev/null; do
    expect 1 "$skymem" eval --lines "$none"
    says "$none"
done
# the plot's place is tried before anything is measured
expect 1 "${eval[@]}" --model "$work/llama.gguf" --levels q8_0 --plot "$work/none/plot.svg"
says 'none/plot.svg: No such file'
holds 'o["exit"] == 1'

# refusals
expect 2 "${eval[@]}" --model "$work/llama.gguf" --levels q9
says '"q9" is neither'
expect 2 "${eval[@]}" --model "$work/llama.gguf" --levels 3+8@middle
while read -r level why; do # before a model is opened, or a text read
    expect 2 "${eval[@]}" --model "$work/nothing.gguf" --levels "8,$level"
    says "--levels: \"$level\" $why"
done <<'END'
4-from-2 raises a level
4-from-4 raises a level
4-from-8+8@last raises a level
3+8@last3 is of more blocks than the prefix has, which is 2
3+8@first999999 is of more blocks
3+8@last0 is neither
4-x1e30 scales steps
4-xinf scales steps
4-xnan scales steps
4-x0 scales steps
4-x-1 scales steps
4-x is neither
END
expect 1 "${eval[@]}" --model "$work/llama.gguf" --prefix 3600
grep -q 'a shorter --prefix' "$work/err" || fail "a text that is too short: $(cat "$work/err")"
expect 1 "${eval[@]}" --model "$work/nothing.gguf"
expect 1 "${eval[@]}" --model "$work/llama.gguf" --calibration "$work/numbers.txt"
says 'skymem calibrate'
# weights that an earlier run left damaged are written anew, and nothing lies beside them
weights=$(ls "$XDG_CACHE_HOME"/skymem-weights/*.f32.gguf)
for file in $weights; do truncate -s 1000 "$file"; done
expect 0 "${eval[@]}" --model "$work/llama.gguf" --levels f16
expect 0 "${eval[@]}" --model "$work/qwen3.gguf" --levels f16
[ "$(find "$XDG_CACHE_HOME"/skymem-weights -mindepth 1 | sort)" = "$weights" ] ||
    fail "beside the weights lies: $(ls "$XDG_CACHE_HOME"/skymem-weights)"
finish

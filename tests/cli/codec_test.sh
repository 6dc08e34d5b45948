#!/usr/bin/env bash
# Proves that `skymem codec` takes arrays to .skv and back: lossless bit for bit, lower levels
# smaller, layers alone, damage told; and that wrong use says what is wanted.
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

expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/3.skv" --level 3 --json
holds 'o["blocks"] == 2 and o["bytes"] < o["bytes_in"] / 2 and o["bits_per_element"] < 8'
expect 0 "$skymem" codec stat "$work/3.skv" --json
holds 'o["streams"] == 12 and o["levels"][0]["level"] == "3" and not o["calibrated"]'
expect 0 "$skymem" codec decode "$work/3.skv" -o "$work/one.npy" --layers 1-1 --json
holds 'o["layers"] == 1'
expect 0 "$skymem" codec verify "$work/3.skv" --json
holds 'o["corrupt"] == 0'

printf '\xff' | dd of="$work/3.skv" bs=1 seek=2000 conv=notrunc status=none
expect 1 "$skymem" codec verify "$work/3.skv" --json
holds 'o["corrupt"] == 1'
expect 1 "$skymem" codec decode "$work/3.skv" -o "$work/bad.npy"
expect 1 "$skymem" codec stat "$work/kv.npy"
expect 1 "$skymem" codec encode "$work/l.skv" -o "$work/x.skv"
expect 2 "$skymem" codec encode "$work/kv.npy" -o "$work/x.skv" --level 5
expect 2 "$skymem" codec encode "$work/kv.npy"
expect 2 "$skymem" codec nonsense "$work/kv.npy"
expect 2 "$skymem" codec decode "$work/l.skv" -o "$work/x.npy" --layers 2-5

layout="$work/layout.json"
echo '{"rope": {"kind": "neox", "dims": 32, "base": 10000}, "first_position": 7}' >"$layout"
expect 0 "$skymem" codec encode "$work/kv.npy" -o "$work/r.skv" --level 4 --layout "$layout" --json
expect 0 "$skymem" codec decode "$work/r.skv" -o "$work/r.npy" --layout "$layout" --json
expect 1 "$skymem" codec decode "$work/r.skv" -o "$work/x.npy"
finish

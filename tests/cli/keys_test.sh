#!/usr/bin/env bash
# Proves that `skymem keys` prints the chained keys of the contract, against Python's own BLAKE2b.
. "$(dirname "$0")/common.sh"

# expected BLOCK_TOKENS NAMESPACE: from the ids in $work/ids, an object as the contract has it.
expected() {
    python3 - "$work/ids" "$1" "$2" >"$work/expected" <<'PYTHON'
import hashlib, json, struct, sys
ids = [int(x) for x in open(sys.argv[1]).read().split()]
size, ns = int(sys.argv[2]), bytes.fromhex(sys.argv[3])
keys, parent = [], bytes(32)
for i in range(len(ids) // size):
    block = ids[i * size:(i + 1) * size]
    data = parent + struct.pack(f"<{size}I", *block)
    parent = hashlib.blake2b(data, key=ns, digest_size=32).digest()
    keys.append(parent.hex())
print(json.dumps({"namespace": ns.hex(), "block_tokens": size, "keys": keys,
                  "tail_tokens": len(ids) % size}))
PYTHON
}

same() {
    holds "o == $(cat "$work/expected")"
}

zeros=$(printf '0%.0s' {1..64})
ns=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
seq 0 299 >"$work/ids"
expected 128 "$zeros"
expect 0 "$skymem" keys --json "$work/ids"
same
expected 7 "$ns"
expect 0 "$skymem" keys --json --block-tokens 7 --namespace "$ns" "$work/ids"
same
printf '4294967295 0\t1\r\n2' >"$work/ids"
expected 2 "$zeros"
expect 0 "$skymem" keys --json --block-tokens 2 "$work/ids"
same
: >"$work/ids"
expected 128 "$zeros"
expect 0 "$skymem" keys --json "$work/ids"
same
"$skymem" keys --block-tokens 2 --json <<<"1 2 3" >"$work/out" || fail "standard input"
holds 'len(o["keys"]) == 1 and o["tail_tokens"] == 1'
expect 0 "$skymem" keys "$work/ids"
grep -q "0 tokens at the end fill no block" "$work/out" || fail "for people: $(cat "$work/out")"

# a salt makes other keys, the same ones each time, and is asked for in a file that is its owner's
salt=ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100
(umask 077 && echo "$salt" >"$work/salt")
salted=$(python3 -c 'import hashlib, sys
ns, salt = (bytes.fromhex(x) for x in sys.argv[1:])
print(hashlib.blake2b(b"skymem salt" + ns, key=salt, digest_size=32).hexdigest())' "$ns" "$salt")
seq 0 299 >"$work/ids"
expected 7 "$salted"
expect 0 "$skymem" keys --json --block-tokens 7 --namespace "$ns" --salt-file "$work/salt" \
    "$work/ids"
same
SKYMEM_SALT_FILE=$work/salt expect 0 "$skymem" keys --json --block-tokens 7 --namespace "$ns" \
    "$work/ids"
same
chmod 644 "$work/salt"
expect 1 "$skymem" keys --salt-file "$work/salt" "$work/ids"
says "chmod 600"
chmod 600 "$work/salt"
echo "$zeros" >"$work/salt"
expect 1 "$skymem" keys --salt-file "$work/salt" "$work/ids"
says "a salt of zeros is none"
echo "abc" >"$work/salt"
expect 1 "$skymem" keys --salt-file "$work/salt" "$work/ids"
says "64 hexadecimal digits"
expect 1 "$skymem" keys --salt-file "$work/absent" "$work/ids"
says "$work/absent"

for bad in "1 2 x" "-1" "4294967296" "1.5" "99999999999999999999999"; do
    printf '7\n%s\n' "$bad" >"$work/ids"
    expect 1 "$skymem" keys "$work/ids"
    says "$work/ids:2:"
    silent
done
"$skymem" keys <<<"x" 2>"$work/err" && fail "a word for a token id"
says "standard input:1:"
echo 1 >"$work/ids"
expect 0 "$skymem" keys "$work/ids"
grep -q "^1 token at the end fills no block" "$work/out" || fail "one token: $(cat "$work/out")"
expect 2 "$skymem" keys --namespace abc "$work/ids"
expect 1 "$skymem" keys "$work/absent"
says "No such file"
finish

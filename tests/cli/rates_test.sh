#!/usr/bin/env bash
# Proves that `skymem run` keeps how fast the engine was, for the CPU and the threads that it was
# measured with; and that whatever lies in that file's place is answered past and written again.
. "$(dirname "$0")/common.sh"
need_engine
python3 tests/cli/tiny_gguf.py gemma3 "$work/tiny.gguf" || fail "no tiny model"
head -c 300 docs/ARCHITECTURE.md >"$work/long"
head -c 60 docs/ARCHITECTURE.md >"$work/short"
run=("$skymem" run --model "$work/tiny.gguf" --predict 1 --store mem:64MiB --json)
rates=$work/cache/skymem-rates

# rated EXPRESSION: the one file is a list `l` of rates, and the Python expression is true of it.
rated() {
    python3 - "$rates" "$1" <<'PYTHON' || fail "$1: $(head -c 400 "$rates"/*.json)"
import glob, json, sys
[path] = glob.glob(sys.argv[1] + "/*")
l = json.load(open(path))["rates"]
assert len(path.split("/")[-1]) == 64 + len(".json")
sys.exit(not eval(sys.argv[2]))
PYTHON
}

expect 0 "${run[@]}" --threads 1 --prompt-file "$work/short" # too few tokens to say anything
[ ! -e "$rates" ] || fail "a short prompt was kept: $(ls "$rates")"
expect 0 "${run[@]}" --threads 1 --prompt-file "$work/long"
holds 'o["computed_tokens"] >= 256'
tokens=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["tokens"])' "$work/out")
rated 'len(l) == 1 and l[0]["threads"] == 1 and l[0]["cpu"] and 1000 <= l[0]["token_ns"] < 2**32'
rated 'l[0]["loading_token_ns"] == 0'
expect 0 "${run[@]}" --threads 2 --prompt-file "$work/long"
rated '[e["threads"] for e in l] == [1, 2]'
expect 0 "${run[@]}" --threads 1 --prompt-file "$work/long"
rated '[e["threads"] for e in l] == [2, 1]'
file=$(echo "$rates"/*.json)

# a plan of the model goes by what was kept for as many threads, and flags go before that
kept=$(python3 -c 'import json, sys
l = json.load(open(sys.argv[1]))["rates"]
print(next(e["token_ns"] for e in l if e["threads"] == 1) / 1e6)' "$file")
plan=("$skymem" plan --model "$work/tiny.gguf" --tokens 100 --threads)
expect 0 "${plan[@]}" 1 --json
holds "abs(o['compute_ms'] - 100 * $kept) < 1e-6 * o['compute_ms']"
holds 'o["levels"][0]["bytes"] > 0'
expect 0 "${plan[@]}" 1 --token-ms 7 --json
holds 'o["compute_ms"] == 700'
expect 0 "${plan[@]}" 1 --bytes-per-token 100 --json
holds 'o["levels"][0]["bytes"] < 100 * 100'
expect 1 "${plan[@]}" 3
says "no run has measured this model with 3 threads"
expect 0 "${plan[@]}" 3 --token-ms 7
! grep -q assumed "$work/out" || fail "$(cat "$work/out")"
expect 1 "$skymem" plan --model "$work/absent.gguf"
says "absent.gguf"

# what is no such file
for content in '{' '[]' '{"rates": 7}' '{"rates": [7, null, {"cpu": 1}]}'; do
    printf '%s' "$content" >"$file"
    expect 0 "${run[@]}" --threads 1 --prompt-file "$work/long"
    holds "o['tokens'] == $tokens"
    rated 'l[-1]["threads"] == 1 and l[-1]["token_ns"] >= 1000'
done
yes '{"rates": [], ' | head -c 2000000 >"$file"
expect 0 "${run[@]}" --threads 1 --prompt-file "$work/long"
rated 'len(l) == 1'
rm "$file"
mkfifo "$file"
expect 0 timeout 600 "${run[@]}" --threads 1 --prompt-file "$work/long"
rated 'len(l) == 1'
ln -sf /dev/zero "$file"
expect 0 "${run[@]}" --threads 1 --prompt-file "$work/long"
rated 'len(l) == 1'
rm "$file"
mkdir "$file"
expect 0 "${run[@]}" --threads 1 --prompt-file "$work/long"
[ -z "$(find "$rates" -name '*.new-*')" ] || fail "left: $(ls "$rates")"
rmdir "$file"

# a list has an end
python3 - "$file" <<'PYTHON'
import json, sys
json.dump({"rates": [{"cpu": f"x{i}", "threads": i} for i in range(40)]}, open(sys.argv[1], "w"))
PYTHON
expect 0 "${run[@]}" --threads 1 --prompt-file "$work/long"
rated 'len(l) == 16 and l[-1]["threads"] == 1 and l[0]["cpu"] == "x25"'

# rates that cannot be are as good as none, and those that are wrong cost no answer
saved=("$skymem" run --model "$work/tiny.gguf" --predict 1 --threads 1 --json
    --store "disk:$work/disk?max=64MiB" --block-tokens 64 --prompt-file "$work/long")
expect 0 "${saved[@]}"
for ns in -5 1000 4294967295 99999999999999999 1e300 '"1"'; do
    python3 - "$file" "$ns" <<'PYTHON'
import json, sys
l = json.load(open(sys.argv[1]))
l["rates"][-1] |= {"token_ns": json.loads(sys.argv[2]), "loading_token_ns": json.loads(sys.argv[2])}
json.dump(l, open(sys.argv[1], "w"))
PYTHON
    expect 0 "${saved[@]}"
    holds "o['tokens'] == $tokens and o['verdict'] == 'hit'"
done
expect 0 "${run[@]}" --threads 1 --prompt-file "$work/long"
rated '1000 <= l[-1]["token_ns"] < 2**32 - 1'

# a home that cannot be written keeps nothing, and says nothing
touch "$work/file"
expect 0 env XDG_CACHE_HOME="$work/file" "${run[@]}" --threads 1 --prompt-file "$work/long"
[ ! -s "$work/err" ] || fail "it said: $(cat "$work/err")"
finish

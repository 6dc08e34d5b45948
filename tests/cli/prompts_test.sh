#!/usr/bin/env bash
# Proves, on a tiny model, that a store's blocks are told and removed as the prompts they make up:
# ls, du, prune and clear, and that the first words are kept only where that was asked for.
. "$(dirname "$0")/common.sh"
need_engine
python3 tests/cli/tiny_gguf.py llama "$work/tiny.gguf"
store=(--store mem:16MiB --store "disk:$work/disk?max=1GiB")
run=("$skymem" run --model "$work/tiny.gguf" --block-tokens 16 --predict 1 "${store[@]}")
python3 -c "print('a' * 63)" >"$work/first"   # 64 tokens: 4 blocks
python3 -c "print('a' * 32 + 'b' * 31)" >"$work/second" # 2 of them, and 2 of its own
python3 -c "print('a secret of mine ' * 4)" >"$work/secret"

# one line a prompt; what begins alike shares blocks
for prompt in first second; do
    expect 0 "${run[@]}" --prompt-file "$work/$prompt"
done
echo value >"$work/value"
expect 0 "$skymem" put value "$work/value" "${store[@]}"
expect 0 "$skymem" ls "${store[@]}" --json
lines_hold '[r["key"] for r in rows if "blocks" not in r] == ["value"]'
lines_hold 'len(rows) == 3 and all(r["tier"] == "disk" and not r["pinned"] for r in rows)'
lines_hold 'all(r["blocks"] == 4 and r["tokens"] == 64 and r["model"] == "tiny.gguf"
    and "words" not in r and "parent" not in r for r in rows if "blocks" in r)'
lines_hold 'all(0 <= r["used_s"] <= r["age_s"] + 60 for r in rows)'
prompt_bytes=$(python3 -c 'import json,sys
print(max(json.loads(line)["bytes"] for line in open(sys.argv[1])))' "$work/out")
expect 0 "$skymem" ls "${store[@]}"
grep -q '^PROMPT  *MODEL  *TOKENS' "$work/out" || fail "no prompts: $(cat "$work/out")"
[ "$(grep -c 'tiny.gguf  *64  *4 ' "$work/out")" = 2 ] || fail "prompts: $(cat "$work/out")"
grep -q '^value ' "$work/out" || fail "no values: $(cat "$work/out")"
expect 0 "$skymem" ls "${store[@]}" --blocks --json
lines_hold 'len([r for r in rows if len(r["key"]) == 64]) == 6'
lines_hold 'len([r for r in rows if "parent" in r]) == 5'
lines_hold 'set(r["parent"] for r in rows if "parent" in r) <= set(r["key"] for r in rows)'
lines_hold 'len([r for r in rows if r["key"].startswith("skymem/prompt/")]) == 1'
first_block=$(sed -n 's|.*skymem/prompt/\([0-9a-f]*\)".*|\1|p' "$work/out")
expect 0 "$skymem" ls "$first_block" "${store[@]}" --blocks --json
lines_hold 'len(rows) == 1'

# words only where they were asked for
! grep -rq "aaaa" "$work/disk" || fail "words were kept without being asked for"
expect 2 "${run[@]}" --prompt-file "$work/secret" --no-save --keep-words
says "--no-save and --keep-words exclude each other"
expect 0 "${run[@]}" --prompt-file "$work/secret" --keep-words
expect 0 "$skymem" ls "${store[@]}" --json
lines_hold '[r["words"] for r in rows if "words" in r] == [
    "a secret of mine a secret of mine a secret of mine a secret"]'
expect 0 "$skymem" ls "${store[@]}"
grep -q "a secret of mine" "$work/out" || fail "no words: $(cat "$work/out")"

# du: shared blocks count once
expect 0 "$skymem" du "${store[@]}" --json
holds '[t["name"] for t in o["tiers"]] == ["mem", "disk"] and o["tiers"][1]["prompts"] == 3'
holds '[(m["model"], m["prompts"]) for m in o["tiers"][1]["models"]] == [("tiny.gguf", 3)]'
holds "all(m['bytes'] == m['blocks'] * $prompt_bytes / 4 for m in o['tiers'][1]['models'])"
holds "o['tiers'][1]['models'][0]['blocks'] == o['tiers'][1]['entries'] - 3" # the value, records
expect 0 "$skymem" du "${store[@]}"
grep -q '^  tiny.gguf ' "$work/out" || fail "du for people: $(cat "$work/out")"
grep -q '^  values ' "$work/out" || fail "du lacks values: $(cat "$work/out")"

# prune: nothing by chance, nothing pinned, and a dry run removes nothing
expect 2 "$skymem" prune "${store[@]}"
says "say what is to go"
expect 2 "$skymem" prune "${store[@]}" --older-than week
says "--older-than week: must be a number and s, min, h or d"
expect 2 "$skymem" prune "${store[@]}" --to plenty
says "--to plenty: must be a number and KiB"
expect 0 "$skymem" prune "${store[@]}" --older-than 1h --json
holds 'o["removed"] == 0'
expect 0 "$skymem" prune "${store[@]}" --model other --json
holds 'o["removed"] == 0'
expect 0 "$skymem" prune "${store[@]}" --model tiny --dry-run --json
holds 'o["removed"] > 6 and o["dry_run"]'
expect 0 "$skymem" pin --as block "$first_block" "${store[@]}"
expect 0 "$skymem" prune "${store[@]}" --model tiny.gguf --json
holds 'o["removed"] > 5 and not o["dry_run"]'
expect 0 "$skymem" ls "${store[@]}" --json # what is pinned, with its record; and the value
lines_hold '[(r.get("blocks"), r.get("model")) for r in rows] in (
    [(1, "tiny.gguf"), (None, None)], [(None, None), (1, "tiny.gguf")])'
expect 0 "$skymem" unpin --as block "$first_block" "${store[@]}"
expect 0 "$skymem" prune "${store[@]}" --older-than 0s
expect 0 "$skymem" ls "${store[@]}" --blocks --json
silent
# a model of the list goes by its name, though its blocks bear the name of its file
read -r _ name file _ < <(grep '^model ' share/models.list)
[ "${file%.gguf}" != "$name" ] || fail "$file: this test needs a name that is not the file's"
mv "$work/tiny.gguf" "$work/$file"
expect 0 "$skymem" run --model "$work/$file" --block-tokens 16 --predict 1 "${store[@]}" \
    --prompt-file "$work/first"
expect 0 "$skymem" prune "${store[@]}" --model "$name" --json
holds 'o["removed"] >= 4'
mv "$work/$file" "$work/tiny.gguf"
expect 0 "$skymem" prune "${store[@]}" --older-than 0s

# --to: what was not used for longest goes first
for i in 1 2 3 4; do
    head -c 1000000 /dev/zero >"$work/million"
    expect 0 "$skymem" put "v$i" "$work/million" "${store[@]}"
    sleep 0.01
done
expect 0 "$skymem" get v1 "${store[@]}" -o "$work/again"
expect 0 "$skymem" prune "${store[@]}" --to 2.5MiB --json
holds 'o["removed"] == 2'
expect 0 "$skymem" ls "${store[@]}" --json
lines_hold '[r["key"] for r in rows] == ["v1", "v4"]'

# a model in the settings file is none to prune
mkdir -p "$XDG_CONFIG_HOME/skymem"
echo "model: $work/tiny.gguf" >"$XDG_CONFIG_HOME/skymem/config.yaml"
expect 2 "$skymem" prune "${store[@]}"
says "say what is to go"

# clear: not without a yes
expect 2 "$skymem" clear "${store[@]}"
says "2 entries would be removed, 1.91 MiB: give --yes"
expect 0 "$skymem" clear "${store[@]}" --yes --json
holds 'o["removed"] == 2 and o["bytes"] == 2000000'
expect 0 "$skymem" ls "${store[@]}"
expect 0 "$skymem" clear "${store[@]}"
expect 2 "$skymem" clear --weights "${store[@]}"
says "--weights and --store exclude each other"
finish

#!/usr/bin/env bash
# Proves where settings come from: flags before SKYMEM_*, before the file, before defaults; and that
# a wrong one is told with its place.
. "$(dirname "$0")/common.sh"

expect 0 "$skymem" config --json
holds 'o["block-tokens"] == {"value": 128, "from": "default"} and o["model"]["value"] is None'
holds 'o["store"]["value"][0] == "mem:256MiB"'
holds 'o["store"]["value"][1].endswith("/cache/skymem?max=8GiB")'

mkdir -p "$work/config/skymem"
printf 'threads: 3\nblock_tokens: 64\nstore: [mem:1MiB, "disk:/x?max=1GiB"]\n' \
    >"$work/config/skymem/config.yaml"
expect 0 "$skymem" config --json
holds 'o["threads"]["value"] == 3 and o["threads"]["from"].endswith("/skymem/config.yaml:1")'
holds 'o["store"]["value"] == ["mem:1MiB", "disk:/x?max=1GiB"]'
SKYMEM_THREADS=5 SKYMEM_STORE="mem:2MiB mem:3MiB" expect 0 "$skymem" config --json
holds 'o["threads"] == {"value": 5, "from": "SKYMEM_THREADS"}'
holds 'o["store"] == {"value": ["mem:2MiB", "mem:3MiB"], "from": "SKYMEM_STORE"}'
SKYMEM_THREADS=5 expect 0 "$skymem" config --json --threads=7 --store mem:9MiB
holds 'o["threads"] == {"value": 7, "from": "--threads"} and o["store"]["value"] == ["mem:9MiB"]'
holds 'o["block-tokens"]["value"] == 64'
expect 0 "$skymem" config
grep -q "^threads  *3  *.*config.yaml:1" "$work/out" || fail "config for people: $(cat "$work/out")"

printf '# other\nblock_tokens: 32\n' >"$work/other.yaml"
expect 0 "$skymem" config --json --config "$work/other.yaml"
holds 'o["block-tokens"]["value"] == 32 and o["threads"]["value"] == 0'
SKYMEM_CONFIG=$work/other.yaml expect 0 "$skymem" config --json
holds 'o["block-tokens"]["value"] == 32'

printf 'threads: 1\n\nblock_token: 32\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says 'bad.yaml:3: unknown key "block_token", did you mean "block-tokens"?'
silent
printf 'threads: many\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "bad.yaml:1: threads many: must be a whole number"
printf 'threads: [1\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "not YAML"
printf -- '- a\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "must be a mapping"
: >"$work/empty.yaml"
expect 0 "$skymem" config --config "$work/empty.yaml"
expect 1 "$skymem" config --config "$work/absent.yaml"
says "No such file"
expect 1 "$skymem" config --config "$work"
says "Is a directory"
SKYMEM_THREADS=-1 expect 2 "$skymem" config
says "SKYMEM_THREADS -1: must be"
finish

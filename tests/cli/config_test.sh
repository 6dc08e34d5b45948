#!/usr/bin/env bash
# Proves where settings come from: flags before SKYMEM_*, before the file, before defaults; and that
# a wrong one is told with its place.
. "$(dirname "$0")/common.sh"

expect 0 "$skymem" config --json
holds 'o["block_tokens"] == {"value": 128, "from": "default"} and o["model"]["value"] is None'
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
holds 'o["block_tokens"]["value"] == 64'
expect 0 "$skymem" config
grep -q "^threads  *3  *.*config.yaml:1" "$work/out" || fail "config for people: $(cat "$work/out")"
default=$("$skymem" codec --help | sed -n 's/^ *--level L .*(default: \(.*\)).*/\1/p')
grep -q "^skymem codec has a --level of its own: $default unless given$" "$work/out" ||
    fail "the level of skymem codec, '$default': $(cat "$work/out")"

printf '# other\nblock_tokens: 32\n' >"$work/other.yaml"
expect 0 "$skymem" config --json --config "$work/other.yaml"
holds 'o["block_tokens"]["value"] == 32 and o["threads"]["value"] == 0'
SKYMEM_CONFIG=$work/other.yaml expect 0 "$skymem" config --json
holds 'o["block_tokens"]["value"] == 32'

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
says "not a plain file"
mkfifo "$work/pipe" # nobody ever writes into it
expect 1 timeout 600 "$skymem" config --config "$work/pipe"
says "not a plain file"
printf 'model: a\nmodel: b\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "bad.yaml:2: model is there twice"
for none in '~' null ''; do
    printf 'threads: 1\nmodel: %s\n' "$none" >"$work/bad.yaml"
    expect 2 "$skymem" config --config "$work/bad.yaml"
    says "bad.yaml:2: model has no value"
done
printf 'store: []\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "bad.yaml:1: store is an empty list"
printf 'store: "disk:a\\0b"\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "bad.yaml:1: store must be a plain value"
printf '"threads\\0x": 1\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "bad.yaml:1: a key must be a plain word"
head -c 20000 /dev/zero | tr '\0' '[' >"$work/bad.yaml" # would take seconds to read
expect 1 "$skymem" config --config "$work/bad.yaml"
says "too large for settings"
printf 'threads: 1\n---\nthreads: 2\n' >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "bad.yaml:2: a second document"
printf 'threads: 1\n...\n' >"$work/other.yaml"
expect 0 "$skymem" config --config "$work/other.yaml"
mkdir -p "$work/folder/skymem/config.yaml"
XDG_CONFIG_HOME=$work/folder expect 1 "$skymem" config
says "$work/folder/skymem/config.yaml: not a plain file"
printf 'model: "null"\n' >"$work/other.yaml"
expect 0 "$skymem" config --json --config "$work/other.yaml"
holds 'o["model"]["value"] == "null"'

# ~/ is the home folder wherever a path stands, also where no shell has seen it; ~NAME is refused
printf 'model: ~/m.gguf\nstore: [mem:1MiB, "disk:~/c?max=1GiB", sky:~/s.yaml, disk:~]\n' \
    >"$work/other.yaml"
expect 0 "$skymem" config --json --config "$work/other.yaml"
holds "o['model']['value'] == '$HOME/m.gguf'"
holds "o['store']['value'][1:] == ['disk:$HOME/c?max=1GiB', 'sky:$HOME/s.yaml', 'disk:$HOME']"
SKYMEM_STORE="disk:~/x disk:a~/y" expect 0 "$skymem" config --json --model="~/z" \
    --calibration "./~w"
holds "o['store']['value'] == ['disk:$HOME/x', 'disk:a~/y']"
holds "o['model']['value'] == '$HOME/z' and o['calibration']['value'] == './~w'"
SKYMEM_STORE="skymem://h:1?key=~/k&connections=2 disk:~/x?seal=~/s disk:/a=~/y?max=1MiB" \
    expect 0 "$skymem" config --json
holds "o['store']['value'][0] == 'skymem://h:1?key=$HOME/k&connections=2'"
holds "o['store']['value'][1:] == ['disk:$HOME/x?seal=$HOME/s', 'disk:/a=~/y?max=1MiB']"
mkdir -p "$HOME"
cp "$work/other.yaml" "$HOME/settings.yaml"
SKYMEM_CONFIG='~/settings.yaml' expect 0 "$skymem" config --json
holds "o['model'] == {'value': '$HOME/m.gguf', 'from': '$HOME/settings.yaml:1'}"
expect 2 "$skymem" config --store "disk:~other/x"
says "--store disk:~other/x: ~NAME is not known here"
printf 'store: [%s]\n' "$(printf 'mem:1MiB, %.0s' {1..8})mem:1MiB" >"$work/bad.yaml"
expect 2 "$skymem" config --config "$work/bad.yaml"
says "bad.yaml:1: store: at most 8 of them"

# without HOME the account's own home counts, never a folder that others could make first
expect 0 env -u HOME -u XDG_CACHE_HOME -u XDG_CONFIG_HOME "$skymem" config --json
holds '"/tmp" not in "".join(o["store"]["value"])'
account=$(getent passwd "$(id -u)" | cut -d: -f6)
[ -z "$account" ] || holds "o['store']['value'][1] == 'disk:$account/.cache/skymem?max=8GiB'"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    # still reading what root alone may: the program and its libraries
    other=(setpriv --reuid 54321 --clear-groups --inh-caps +dac_read_search
        --ambient-caps +dac_read_search)
    expect 0 "${other[@]}" env -u HOME -u XDG_CACHE_HOME -u XDG_CONFIG_HOME "$skymem" config --json
    holds 'o["store"]["value"] == ["mem:256MiB"]'
fi
SKYMEM_THREADS=-1 expect 2 "$skymem" config
says "SKYMEM_THREADS -1: must be"
finish

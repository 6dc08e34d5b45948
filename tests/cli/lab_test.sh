#!/usr/bin/env bash
# Proves that bench, eval and sim are run by skymem-lab as if skymem did it: words, output and exit
# status pass unchanged. Without that program skymem says what is missing, and still explains them.
source tests/cli/common.sh

mkdir "$work/alone"
cp "$skymem" "$work/alone/"
cp -a "$build"/libskymem*.so* "$work/alone/"
[ ! -e "$build/llama" ] || ln -s "$build/llama" "$work/alone/llama"
alone=$work/alone/skymem

expect 1 "$alone" sim scenarios/demo-hop.yaml --until 1
says "needs the program skymem-lab, which is not installed"
expect 1 "$alone" bench index --quick --json
excused 1
for verb in bench eval sim; do
    expect 0 "$alone" "$verb" --help
    expect 0 "$alone" help --man "$verb"
    grep -q "^\.Dt SKYMEM-${verb^^} 1" "$work/out" || fail "no man page for $verb"
    "$alone" help --list | grep -qx "$verb" || fail "help --list lacks $verb"
    expect 2 "$alone" "$verb" --no-such-flag
    says "--no-such-flag"
done

# what it writes is never what it reads
cp scenarios/demo-hop.yaml "$work/own.yaml"
ln "$work/own.yaml" "$work/other-name"
expect 2 "$skymem" sim "$work/own.yaml" --until 1 --csv "$work/other-name"
says "--csv $work/other-name: this is the scenario itself"
expect 2 "$skymem" sim "$work/own.yaml" --until 1 --trace "$work/own.yaml"
says "name another file"
cmp scenarios/demo-hop.yaml "$work/own.yaml" || fail "the scenario was written over"

# a program of that name that shows what it got
printf '#!/bin/sh\nprintf "%%s|" "$@"\ncat\nexit 7\n' >"$work/alone/skymem-lab"
chmod +x "$work/alone/skymem-lab"
code=0
said=$(echo in | "$alone" sim --seed 7 -- 'a  b.yaml') || code=$?
[ "$code" = 7 ] || fail "exit $code of skymem-lab did not pass"
[ "$said" = 'sim|--seed|7|--|a  b.yaml|in' ] || fail "skymem-lab got: $said"

# the real one, under its own name and the other
expect 0 "$build/skymem-lab" sim scenarios/demo-hop.yaml --until 1 --json
holds "o['virtual_s'] >= 1 and all(o['checks'].values())"
expect 2 "$build/skymem-lab" put k
says 'no verb "put"'
expect 2 "$skymem" bench nosuch
says "skymem bench: "
finish

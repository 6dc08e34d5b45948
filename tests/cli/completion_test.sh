#!/usr/bin/env bash
# Proves that `skymem completion` completes: in bash verbs, options, choices, stores, scenarios and
# files; for zsh and fish that their scripts name every verb and option, and parse where the shell
# is here.
. "$(dirname "$0")/common.sh"

for shell in bash zsh fish; do
    expect 0 "$skymem" completion $shell
    cp "$work/out" "$work/skymem.$shell"
done
expect 2 "$skymem" completion tcsh
says "bash, zsh and fish"

mkdir "$work/folder"
touch "$work/folder/kv.npy" "$work/folder/mine.yaml"
# complete WORDS...: what bash offers for the last of them.
complete_words() {
    (cd "$work/folder" && PATH=$build:$PATH bash -c '
        . "$0"
        COMP_WORDS=(skymem "$@")
        COMP_CWORD=$#
        _skymem
        printf "%s\n" "${COMPREPLY[@]}"' "$work/skymem.bash" "$@")
}
# offers WANTED WORDS...: bash offers exactly the words of WANTED.
offers() {
    local wanted=$1
    shift
    local got
    got=$(complete_words "$@" | sort | tr '\n' ' ')
    [ "$got" = "$wanted " ] || fail "skymem $*: bash offers \"$got\" instead of \"$wanted\""
}
offers "config constellation" con
offers "--threads" run --thr
offers "lossless" run --level lo
offers "seed sim-smoke storm" sim s
offers "demo-hop demo-rotation demo-rotation-hop demo-slow" locate --scenario demo
offers "up" constellation u
offers "constellation consumer" constellation up con
offers "kv.npy" put key kv
offers "mine.yaml" sim mi
offers "bash" completion b
offers "locate" help loc
offers "passes propagate" orbit p
offers "gemma-3-270m qwen2.5-coder-0.5b qwen2.5-coder-1.5b" model pull ""
offers "qwen2.5-coder-0.5b qwen2.5-coder-1.5b" run --model qw
offers "pull" model p
offers "--json" config --js
offers "mem:" put key kv.npy --store m
offers "disk:" get key --store disk
offers "sky+udp:" run --store sky+
offers "shm: shm:auto" run --store sh
offers "seed sim-smoke storm" put key --store sky : s # as bash parts sky:s
offers "kv.npy mine.yaml" get key --store disk :
grep -q -- '--store\[.*:URL:_skymem_stores' "$work/skymem.zsh" || fail "zsh completes no store"
grep -q -- "-l store .* -x -a 'mem: disk: .* sky: sky+udp: sky:(skymem help" "$work/skymem.fish" ||
    fail "fish completes no store"

# Every verb and every option of its help is in each script.
"$skymem" help --list >"$work/verbs"
while read -r verb; do
    for shell in bash zsh fish; do
        grep -qw -- "$verb" "$work/skymem.$shell" || fail "$shell: no $verb"
    done
    options=$("$skymem" "$verb" --help |
        sed -n '/^Options/,/^$/s/^  \(-., \)\?--\([a-z-]*\).*/\2/p')
    [ -n "$options" ] || fail "$verb --help has no options"
    for option in $options; do
        sed -n "/^    '$verb '\*)/,/;;/p" "$work/skymem.bash" | grep -qw -- "--$option" ||
            fail "bash: $verb has no --$option"
        sed -n "/^        $verb)/,/;;/p" "$work/skymem.zsh" | grep -qw -- "--$option" ||
            fail "zsh: $verb has no --$option"
        grep -q "__fish_seen_subcommand_from $verb' -l $option " "$work/skymem.fish" ||
            fail "fish: $verb has no --$option"
    done
done <"$work/verbs"
for shell in bash zsh fish; do
    ! command -v $shell >/dev/null || $shell -n "$work/skymem.$shell" ||
        fail "$shell cannot read it"
done
finish

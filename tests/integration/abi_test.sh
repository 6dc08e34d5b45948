#!/usr/bin/env bash
# Proves that the libraries are what tools/LIBRARY.abi says, and that tools/abi notices what breaks
# programs: a function that is gone, a structure that is another, a parameter that changed.
set -euo pipefail
build=${SKYMEM_BUILD:-build}
if ! command -v abidw >/dev/null || [ "$(uname -m)" != x86_64 ]; then
    echo "skipped: abidw is not installed (tools/setup dev), or this is not x86-64"
    exit 77
fi
if grep -q '^SKYMEM_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" ||
    ! readelf -S "$build/libskymem.so" | grep '\.debug_info' >/dev/null; then
    echo "skipped: a library of another kind"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*"
    exit 1
}

tools/abi "$build" || fail "a new function needs a line there: make abi"

# LIBRARY EXPRESSION SAYS: the file, changed by sed, is not what the library is.
differs() {
    cp tools/*.abi "$work"
    sed -E -i "$2" "$work/$1.abi"
    cmp -s "$work/$1.abi" "tools/$1.abi" && fail "nothing in $1.abi for $2"
    SKY_ABI_FILES=$work tools/abi "$build" >"$work/said" && fail "$1: nothing noticed after $2"
    grep -q -- "$3" "$work/said" || fail "$1, $2: not '$3' in: $(cat "$work/said")"
}
differs libskymem-codec 's/sky_encode_bound/sky_encode_ghost/g' "\[D\].*sky_encode_ghost"
differs libskymem 's/sky_release_owner/sky_release_ghost/g' "\[D\].*sky_release_ghost"
differs libskymem-sky 's/sky_shell_find/sky_shell_ghost/g' "\[D\].*sky_shell_ghost"
declaration() { echo "/<function-decl name='$1'/,/<\/function-decl>/"; }
differs libskymem "/<elf-symbol name='sky_flush'/d; $(declaration sky_flush)d" "\[A\].*sky_flush"
differs libskymem "s/(name='sky_call' size-in-bits=)'[0-9]*'/\1'64'/" "type size changed"
differs libskymem "$(declaration sky_event_fd){/<parameter/d}" "parameter 1 .*added"

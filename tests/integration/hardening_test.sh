#!/usr/bin/env bash
# Proves on the binaries that what ships was built with the protections of cmake/hardening.cmake,
# and that built programs load libraries from their own folder alone: never from the working
# directory, and from wherever the build folder was copied to.
set -euo pipefail
build=$(realpath "${SKYMEM_BUILD:-build}")
if grep -q '^SKYMEM_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: a sanitized build is not shipped"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "$*"
    failed=1
}

# ELF files of our own: programs and tests
mapfile -t programs < <(find "$build" -maxdepth 2 -type f -executable ! -name '*.so*' \
    ! -path '*/CMakeFiles/*' -exec sh -c 'head -c 4 "$1" | grep -q "^.ELF"' _ {} \; -print)
[ "${#programs[@]}" -gt 1 ] || fail "no programs in $build"

for file in "${programs[@]}" "$build"/libskymem{-codec,,-sky}.so; do
    path=$(readelf -d "$file" | sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\]/\2/p')
    [ -n "$path" ] || continue
    while read -r element; do
        case $element in
        '$ORIGIN' | '$ORIGIN/'*) ;;
        '') fail "$file: an empty element in RUNPATH ($path): it is the working directory" ;;
        *) fail "$file: RUNPATH names $element, outside the build folder" ;;
        esac
    done < <(tr : '\n' <<<"$path")
done

shipped=("$build"/libskymem{-codec,,-sky}.so)
for name in skymem skymemd skymem-lab; do
    [ ! -x "$build/$name" ] || shipped+=("$build/$name")
done
for file in "${shipped[@]}"; do
    dynamic=$(readelf -d "$file")
    segments=$(readelf -lW "$file")
    symbols=$(nm -D --undefined-only "$file")
    grep -q 'GNU_RELRO' <<<"$segments" || fail "$file: no RELRO"
    grep -Eq 'BIND_NOW|Flags:.* NOW' <<<"$dynamic" || fail "$file: symbols are bound late"
    grep -q 'GNU_STACK .* RW ' <<<"$segments" || fail "$file: the stack is executable"
    grep -q '__stack_chk_fail' <<<"$symbols" || fail "$file: no stack protector"
    grep -q '_chk\b' <<<"$(grep -v __stack_chk_fail <<<"$symbols")" || fail "$file: no FORTIFY"
    readelf -h "$file" | grep -q 'Type: *DYN' || fail "$file: its addresses are fixed (no PIE)"
done

# a copy is whole, and needs nothing of the folder it came from
mkdir "$work/copy"
for file in skymem skymemd skymem-lab llama; do
    [ ! -e "$build/$file" ] || cp -a "$build/$file" "$work/copy/"
done
cp -a "$build"/libskymem*.so* "$work/copy/"
for name in skymem skymemd; do
    [ -x "$work/copy/$name" ] || continue
    (cd / && "$work/copy/$name" --version >/dev/null) || fail "a copy of $name does not start"
    libraries=$(ldd "$work/copy/$name")
    grep -q 'not found' <<<"$libraries" && fail "a copy of $name lacks a library: $libraries"
    grep -q "$work/copy/libskymem" <<<"$libraries" ||
        fail "a copy of $name uses another libskymem.so"
done

(cd / && "$work/copy/skymem-lab" --version >/dev/null) || fail "a copy of skymem-lab does not start"
(cd / && "$work/copy/skymem" sim "$OLDPWD/scenarios/demo-hop.yaml" --until 1 >/dev/null) ||
    fail "a copy of skymem does not find skymem-lab"

# a library planted in the working directory is not looked at
mkdir "$work/planted"
for library in $(readelf -d "$build/skymem" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
    echo "no library" >"$work/planted/$library"
done
(cd "$work/planted" && "$build/skymem" --version >/dev/null) ||
    fail "skymem loads libraries from the working directory"
exit "$failed"

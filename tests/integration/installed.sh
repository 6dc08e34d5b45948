# What the tests of the installed library share: sourced, not run. The build is installed under
# $prefix, in the folder $work.
set -euo pipefail
build=${SKYMEM_BUILD:-build}
if grep -q '^SKYMEM_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: a program outside cannot link a sanitized library"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*"
    exit 1
}

prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >"$work/log" || fail "$(cat "$work/log")"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

#!/usr/bin/env bash
# Proves that docs/paper-map.md names only files, functions and tests that exist, that no row says
# "done" without naming a test, and that tools/mutate notices when one of these is not so.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
failed=0
tools/mutate --check || failed=1
rows=$(grep -c '^| [ACSV][0-9]' docs/paper-map.md)
if [ "$rows" -lt 80 ]; then
    echo "docs/paper-map.md: only $rows rows"
    failed=1
fi

# wrong ROW SAYS: a map of this one row must be refused, for that reason.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/docs" "$tree/src/base" "$tree/tools"
cp tools/mutate "$tree/tools/"
printf 'int f(void) {\n    return 1;\n}\n' >"$tree/src/base/f.c"
printf 'void f_is_one(void) {\n    f();\n}\n' >"$tree/src/base/f_test.c"
wrong() {
    local said
    printf '%s\n' "$1" >"$tree/docs/paper-map.md"
    if said=$("$tree/tools/mutate" --check) || ! grep -qF -- "$2" <<<"$said"; then
        echo "not refused for \"$2\": $1 ($said)"
        failed=1
    fi
}
wrong '| S1 | c | `src/base/g.c` | `src/base/f_test.c` | done |' 'src/base/g.c: no such file'
wrong '| S1 | c | `src/base/f.c` `g` | `src/base/f_test.c` | done |' 'names g in src/base/f.c'
wrong '| S1 | c | `src/base/f.c` `f` | `src/base/f_test.c` `gone` | done |' 'names gone in'
wrong '| S1 | c | `src/base/f.c` `f` | — | done |' 'says done and names no test'
# What a test calls is none of its own.
wrong '| S1 | c | `src/base/f.c` `f` | `src/base/f_test.c` `f` | done |' 'names f in src'
printf '%s\n' '| S1 | c | `src/base/f.c` `f` | `src/base/f_test.c` `f_is_one` | done |' \
    >"$tree/docs/paper-map.md"
"$tree/tools/mutate" --check || failed=1
exit "$failed"

#!/usr/bin/env bash
# Proves that libskymem.so exports what tools/libskymem.symbols lists and nothing else: what is
# exported once is kept for ever, so that a new function there must be meant. With --write it
# writes that list.
set -euo pipefail
build=${SKYMEM_BUILD:-build}
list=tools/libskymem.symbols
exported=$(nm -D --defined-only "$build/libskymem.so" |
    awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort)
if [ "${1:-}" = --write ]; then
    echo "$exported" >"$list"
    exit
fi
diff <(echo "$exported") "$list" || {
    echo "$list (>) is not what libskymem.so exports (<); if that is meant:" \
        "bash tests/integration/symbols_test.sh --write"
    exit 1
}
declared=$(sed -n '/^SKY_API/,/;/p' include/skymem/*.h | grep -o '\bsky_[a-z0-9_]*(' |
    tr -d '(' | LC_ALL=C sort -u)
undeclared=$(LC_ALL=C comm -23 "$list" <(echo "$declared"))
[ -z "$undeclared" ] || {
    echo "exported, but no public header declares it:" $undeclared
    exit 1
}

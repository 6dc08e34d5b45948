#!/usr/bin/env bash
# Proves that the libraries export what tools/LIBRARY.symbols lists, which is what public headers
# declare: each function in one library. What is exported once is kept for ever, so that a new line
# there must be meant. What the libraries have for each other alone (SKYMEM_PRIVATE) does not count.
set -euo pipefail
build=${SKYMEM_BUILD:-build}
for library in libskymem-codec libskymem libskymem-sky; do
    list=tools/$library.symbols
    exported=$(nm -D --defined-only "$build/$library.so" |
        awk '$2 != "A" && !/@SKYMEM_PRIVATE/ { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort)
    diff <(echo "$exported") "$list" || {
        echo "$list (>) is not what $library.so exports (<): it lists what is there no more"
        exit 1
    }
done
declared=$(sed -n '/^SKY_API/{:more;/;/!{N;b more};p}' include/*/*.h | grep -o '\bsky_[a-z0-9_]*(' |
    tr -d '(' | LC_ALL=C sort -u)
diff <(LC_ALL=C sort -m tools/*.symbols) <(echo "$declared") || {
    echo "the lists in tools/*.symbols (<) are not what headers declare (>): a new public" \
        "function stands in the list of one library"
    exit 1
}

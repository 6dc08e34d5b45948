#!/usr/bin/env bash
# Proves that who writes a tier can test it by what `make install` gives: the suite, linked by
# pkg-config and by find_package, passes on the example's store, and fails on one that forgets.
. "$(dirname "$0")/installed.sh"
cp -r "$prefix"/share/doc/*/examples "$work/examples"
cd "$work/examples"
read -ra flags < <(pkg-config --cflags --libs skymem-conformance)
cc -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE test_tier.c "${flags[@]}" -o test_tier
./test_tier "$work/values" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
grep -q "payloads_survive_reopening" "$work/log" || fail "not the whole suite: $(cat "$work/log")"

# a program that opens other stores too
cat >"$work/opens.c" <<'C'
#include <skymem/cache.h>
int main(void) {
    const char *url = "mem:1MiB";
    sky_cache *cache;
    return sky_cache_open(&url, 1, &cache, NULL);
}
C
cc "$work/opens.c" "${flags[@]}" -o "$work/opens" || fail "not all that a cache needs is named"
"$work/opens" || fail "a cache does not open"

# a removal that is not done, and a write that is not
mkdir "$work/liar"
cp test_tier.c "$work/liar"
for lie in 's/unlinkat(store->folder, name, 0) == 0/true/' 's/renameat(.*) != 0)/false)/'; do
    sed "$lie" tier_dir.c >"$work/liar/tier_dir.c"
    cmp -s tier_dir.c "$work/liar/tier_dir.c" && fail "the example does not say what $lie changes"
    cc -std=c11 -D_GNU_SOURCE "$work/liar/test_tier.c" "${flags[@]}" -o "$work/liar/run"
    "$work/liar/run" "$work/lies" >"$work/log" 2>&1 && fail "the suite passes $lie"
    grep -q 'FAILED' "$work/log" || fail "$lie: $(cat "$work/log")"
done
"$work/examples/test_tier" /proc/nothing/here >"$work/log" 2>&1 && fail "a store that cannot open"
grep -q 'sky_conformance_run: cannot open the folder' "$work/log" || fail "$(cat "$work/log")"

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(outside C)
find_package(skymem 0.1 REQUIRED COMPONENTS conformance)
add_executable(test_tier ${EXAMPLES}/test_tier.c)
add_executable(opens ${EXAMPLES}/../opens.c)
target_compile_definitions(test_tier PRIVATE _GNU_SOURCE)
target_link_libraries(test_tier skymem::conformance)
target_link_libraries(opens skymem::conformance)
CMAKE
configure=(cmake -S "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" -DEXAMPLES="$work/examples")
{ "${configure[@]}" -B "$work/cmake/build" && cmake --build "$work/cmake/build"; } \
    >"$work/log" 2>&1 || fail "$(cat "$work/log")"
"$work/cmake/build/test_tier" "$work/values" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
sed -i 's/COMPONENTS conformance/& nonsense/' "$work/cmake/CMakeLists.txt"
"${configure[@]}" -B "$work/cmake/other" >"$work/log" 2>&1 && fail "found what nothing is named"
grep -q 'no component nonsense' "$work/log" || fail "$(cat "$work/log")"
sed -i 's/ nonsense//' "$work/cmake/CMakeLists.txt"
rm "$work/prefix/lib/libskymem-conformance.a"
"${configure[@]}" -B "$work/cmake/without" >"$work/log" 2>&1 && fail "found what is not there"
grep -q 'without its conformance suite' "$work/log" || fail "$(cat "$work/log")"

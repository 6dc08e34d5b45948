#!/usr/bin/env bash
# Proves that a satellite needs no C library beyond memcpy and its kin, and no memory but what it
# is given: node, messages, placement and checksums are compiled freestanding and linked alone, and
# what is still undefined then is looked at.
set -euo pipefail

compiler=${CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

sources=(src/satellite/node.c src/satellite/node_table.c src/satellite/node_look.c
    src/satellite/node_chunk.c src/satellite/node_store.c
    src/satellite/gossip.c src/satellite/copies.c src/satellite/removed.c src/satellite/decide.c
    src/orbit/frame.c src/orbit/placement.c
    src/wire/message.c src/base/bytes.c src/base/hash.c src/base/checksum.c)
flags=(-std=c17 -O2 -ffreestanding -fno-builtin -fno-stack-protector -ffunction-sections
    -fdata-sections -DNDEBUG -DXXH_INLINE_ALL -Iinclude -Isrc -Wall -Wextra -Werror
    -Wno-unused-parameter) # what only assertions look at
for source in "${sources[@]}"; do
    "$compiler" "${flags[@]}" -c "$source" -o "$scratch/$(basename "$source" .c).o"
done

# Linked together and without what no satellite calls: the ground's half of these files.
interface=(sky_node_slots sky_node_bytes sky_node_init sky_node_input sky_node_output sky_node_wake
    sky_node_idle sky_node_chunks sky_node_find sky_node_each)
roots=()
for name in "${interface[@]}"; do
    roots+=(-u "$name")
done
link=(ld --gc-sections -e sky_node_input "${roots[@]}" "$scratch"/*.o -o "$scratch/satellite")

missing="s/.*undefined reference to [\`']\([A-Za-z0-9_.]*\)'.*/\1/p"
needed=$({ "${link[@]}" 2>&1 || true; } | sed -n "$missing" | sort -u)
"${link[@]}" --unresolved-symbols=ignore-all
for name in "${interface[@]}"; do
    nm "$scratch/satellite" | grep " T $name$" >/dev/null || {
        echo "$name is not there: the check checks nothing"
        exit 1
    }
done
[[ $needed == *mem* ]] || {
    echo "not even memcpy is missing: the check checks nothing"
    exit 1
}
beyond=$(grep -vxE 'mem(cpy|set|move|cmp)' <<<"$needed" || true)
if [ -n "$beyond" ]; then
    echo "a satellite would need these from a C library it does not have:"
    echo "$beyond"
    exit 1
fi
echo "a satellite needs: ${needed//$'\n'/ }"

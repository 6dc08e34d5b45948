#!/usr/bin/env bash
# Proves that docs/paper-map.md names only files that exist, and that no row says "done" without
# naming a test.
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0
while read -r file; do
    if [ ! -e "$file" ]; then
        echo "docs/paper-map.md names $file: no such file"
        failed=1
    fi
done < <(grep -o '`[a-z][A-Za-z0-9_./-]*\.[a-z]*`' docs/paper-map.md | tr -d '`' | grep / | sort -u)
rows=$(grep -c '^| [SCV][0-9]' docs/paper-map.md)
if [ "$rows" -lt 30 ]; then
    echo "docs/paper-map.md: only $rows rows"
    failed=1
fi
# The fourth column of a row whose fifth begins with "done".
if awk -F'|' '/^\| [SCV][0-9]/ && $6 ~ /^ done/ && $5 !~ /test/' docs/paper-map.md | grep .; then
    echo "docs/paper-map.md: rows that say done and name no test"
    failed=1
fi
exit "$failed"

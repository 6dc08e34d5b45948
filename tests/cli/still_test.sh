#!/usr/bin/env bash
# Proves that docs/demo.svg is the picture of what docs/demo.txt says, and that the README shows it.
set -uo pipefail
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
tools/still docs/demo.txt | cmp -s - docs/demo.svg ||
    { echo "FAILED: docs/demo.svg is old: tools/still docs/demo.txt >docs/demo.svg"; exit 1; }
python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' docs/demo.svg ||
    { echo "FAILED: docs/demo.svg is no XML"; exit 1; }
grep -q '](docs/demo.svg)' README.md ||
    { echo "FAILED: README.md does not show docs/demo.svg"; exit 1; }

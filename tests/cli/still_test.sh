#!/usr/bin/env bash
# Proves that docs/demo.svg is the picture of what README.md's first screen says.
set -uo pipefail
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
tools/still README.md | cmp -s - docs/demo.svg ||
    { echo "FAILED: docs/demo.svg is old: tools/still README.md >docs/demo.svg"; exit 1; }
python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' docs/demo.svg ||
    { echo "FAILED: docs/demo.svg is no XML"; exit 1; }

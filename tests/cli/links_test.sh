#!/usr/bin/env bash
# Proves that every relative link and image of the documents leads to a file, and every anchor in
# one to a heading.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 - <<'PYTHON'
import pathlib, re, sys

links = wrong = 0


def anchors(page):
    """The names a reader's browser knows for the headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    names = re.findall(r"^#+ +(.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names}


for page in [*pathlib.Path(".").glob("*.md"), *pathlib.Path("docs").rglob("*.md"),
             *pathlib.Path("bench").rglob("*.md"), *pathlib.Path("integrations").rglob("*.md")]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        links += 1
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        if not there.exists():
            print(f"{page}: {target}: no such file")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            print(f"{page}: {target}: no such heading")
        else:
            continue
        wrong += 1
print(f"{links} links, {wrong} wrong")
sys.exit(wrong != 0 or links < 40)
PYTHON

"""Proves that the examples run and print what they promise, and that the notebook's cells still
give what it shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(name: str, *args: object) -> str:
    return subprocess.run(
        [sys.executable, "-P", EXAMPLES / "python" / name, *map(str, args)],
        check=True, text=True, stdout=subprocess.PIPE,
    ).stdout  # fmt: skip


def test_scripts(tmp_path: Path) -> None:
    assert run("store.py", tmp_path / "store") == "visit 1; 2 entries\n"
    assert run("store.py", tmp_path / "store") == "visit 2; 2 entries\n"
    answers = "['2 of 2 blocks', '2 of 2 blocks', '2 of 2 blocks', '0 of 2 blocks']\n"
    assert run("many.py") == answers
    assert run("own_tier.py") == "[('greeting', 0, 5), ('greeting', 1, 5)]\n"


def shown(cell: Any) -> list[str]:
    return [
        "".join(output["data"]["text/plain"]) if "data" in output else "".join(output["text"])
        for output in cell["outputs"]
        if "image/png" not in output.get("data", {})
    ]


def test_the_notebook(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    cells = json.loads((EXAMPLES / "first_steps.ipynb").read_text())["cells"]
    scope: dict[str, Any] = {}
    figures = 0
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        lines = "".join(cell["source"]).split("\n")
        plots = any("image/png" in output.get("data", {}) for output in cell["outputs"])
        answer = None
        if cell["outputs"] and cell["outputs"][0]["output_type"] == "execute_result":
            exec("\n".join(lines[:-1]), scope)
            answer = repr(eval(lines[-1], scope)) + "\n"
        else:
            exec("\n".join(lines), scope)
        said = capsys.readouterr().out
        if plots:
            figures += 1
            assert len(pyplot.get_fignums()) == figures
        else:
            assert (answer or said) == "\n".join(shown(cell) + [""] * bool(answer))
    assert figures == 2

"""Runs the Python blocks of the documents, each in a directory that contains `examples`."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks():
    """Returns the blocks; those that need a framework that is not installed are skipped."""
    for path in DOCUMENTS:
        for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S)):
            lacks = [name for name in ("torch", "paddle") if f"lodstone.{name}" in block and not is_installed(name)]
            skip = pytest.mark.skipif(bool(lacks), reason=f"needs {lacks}")
            yield pytest.param(block, marks=skip, id=f"{path.name}-{number}")


def is_installed(module):
    return importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("block", list(blocks()))
def test_blocks_run(block, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

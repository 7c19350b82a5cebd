"""Checks the type annotations."""

import importlib.resources
import subprocess
import sys


def test_annotations_of_the_package():
    package = importlib.resources.files("lodstone")
    assert (package / "py.typed").is_file()
    # PyTorch and PaddlePaddle need not be installed.
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir=/dev/null"]
    checked = subprocess.run([*command, "-p", "lodstone"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_stubs_match_the_extension(tmp_path):
    # Python exposes this method of buffers since 3.12.
    allowed = tmp_path / "allowed"
    allowed.write_text("lodstone._lodstone.Buffer.__buffer__\n")
    command = [sys.executable, "-m", "mypy.stubtest", "lodstone._lodstone", "--ignore-unused-allowlist"]
    checked = subprocess.run([*command, "--allowlist", allowed], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout

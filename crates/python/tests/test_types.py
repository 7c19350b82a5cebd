"""What is said of types holds."""

import importlib.resources
import subprocess
import sys


def test_types_agree():
    package = importlib.resources.files("lodstone")
    assert (package / "py.typed").is_file()
    # PyTorch and PaddlePaddle need not be installed.
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir=/dev/null"]
    checked = subprocess.run([*command, "-p", "lodstone"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_stubs_are_those_of_the_extension(tmp_path):
    # A method of every buffer, which Python shows from 3.12 on.
    allowed = tmp_path / "allowed"
    allowed.write_text("lodstone._lodstone.Buffer.__buffer__\n")
    command = [sys.executable, "-m", "mypy.stubtest", "lodstone._lodstone", "--ignore-unused-allowlist"]
    checked = subprocess.run([*command, "--allowlist", allowed], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout

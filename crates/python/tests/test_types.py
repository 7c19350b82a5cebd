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

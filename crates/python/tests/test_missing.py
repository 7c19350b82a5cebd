"""Errors if a framework is not installed."""

import subprocess
import sys

import pytest
from conftest import DIGITS


@pytest.mark.parametrize(
    "missing, work, package",
    [
        ("numpy", "import lodstone.numpy", "numpy"),
        ("numpy", "lodstone.safe_open(path, 'np')", "numpy"),
        ("numpy", "lodstone.open(path)['fc_0.b_0'].__array__()", "numpy"),
        ("numpy", "lodstone.open(path)['fc_0.b_0'].numpy()", "numpy"),
        ("numpy", "from lodstone.program import layers; layers.assign([1.0])", "numpy"),
        ("numpy", "lodstone.open(path)['fc_0.b_0'][2:4]", "numpy"),
        ("numpy", "lodstone.program.Executor().run(network(), fetch_list=['out'])", "numpy"),
        ("torch", "import lodstone.torch", "torch"),
        ("torch", "lodstone.safe_open(path, 'pt')", "torch"),
        ("paddle", "import lodstone.paddle", "paddlepaddle"),
        ("paddle", "lodstone.safe_open(path, 'paddle')", "paddlepaddle"),
    ],
)
def test_the_error_names_the_install_command(missing, work, package):
    code = f"""
import sys, lodstone
from lodstone.program import Network, layers

def network():
    with Network() as net:
        layers.fill_constant([1], "float32", 2.0, out=layers.create_global_var([1], 0.0, "float32", name="out"))
    return net.main

path = {str(DIGITS)!r}
sys.modules[{missing!r}] = None
try:
    {work}
except ImportError as error:
    print(error, error.name, sep="|")
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == f"{missing} is not installed: pip install {package}|{missing}\n"


def test_a_missing_dependency_of_a_framework_is_reported_as_such(tmp_path):
    (tmp_path / "torch.py").write_text("import something_else")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import lodstone.torch"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "No module named 'something_else'" in found.stderr and "pip install" not in found.stderr

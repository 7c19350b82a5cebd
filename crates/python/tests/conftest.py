"""What the tests and the examples in documentation share."""

import pathlib

import pytest

import lodstone

ROOT = pathlib.Path(__file__).parents[3]
GOLDEN = ROOT / "crates/formats/tests/golden"
DIGITS = ROOT / "examples/digits/paddle"


@pytest.fixture(autouse=True)
def examples(doctest_namespace, monkeypatch, tmp_path):
    """Examples are run where the repository is."""
    monkeypatch.chdir(ROOT)
    doctest_namespace.update(lodstone=lodstone, tmp=tmp_path)


@pytest.fixture
def digits(tmp_path):
    """A copy of the example to be damaged."""
    copy = tmp_path / "digits"
    copy.mkdir()
    for file in DIGITS.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy

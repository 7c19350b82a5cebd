"""What the tests and the examples in documentation share."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[3]
GOLDEN = ROOT / "crates/formats/tests/golden"
DIGITS = ROOT / "examples/digits/paddle"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    """Examples have paths of the repository."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def digits(tmp_path):
    """A copy of the example to be damaged."""
    copy = tmp_path / "digits"
    copy.mkdir()
    for file in DIGITS.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy

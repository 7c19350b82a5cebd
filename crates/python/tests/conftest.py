"""Fixtures of the tests and of the examples in documentation."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[3]
GOLDEN = ROOT / "crates/formats/tests/golden"
DIGITS = ROOT / "examples/digits/paddle"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    """Runs in the root of the repository, to which the paths of examples are relative."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def digits(tmp_path):
    """A copy of the example, which tests may change."""
    copy = tmp_path / "digits"
    copy.mkdir()
    for file in DIGITS.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy

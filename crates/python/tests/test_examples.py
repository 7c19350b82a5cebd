"""Runs the examples in documentation."""

import doctest
import importlib
import subprocess
import sys

import pytest
from conftest import ROOT

import lodstone

# The modules for PyTorch and PaddlePaddle are tested with these frameworks.
MODULES = [
    "lodstone",
    "lodstone._files",
    "lodstone._model",
    "lodstone._run",
    "lodstone._safe_open",
    "lodstone._slices",
    "lodstone._train",
    "lodstone._work",
    "lodstone.checkpoint",
    "lodstone.numpy",
    "lodstone.program",
    "lodstone.program._core",
    "lodstone.program._files",
    "lodstone.program._run",
    "lodstone.program.layers._control",
    "lodstone.program.optimizer",
    "lodstone.program.unique_name",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_modules(name, tmp_path):
    names = {"lodstone": lodstone, "tmp": tmp_path}
    found = doctest.testmod(importlib.import_module(name), extraglobs=names)
    assert found.attempted > 0 and found.failed == 0


def test_the_example_notebook():
    told = subprocess.run([sys.executable, ROOT / "examples/old_model.py"], check=True, capture_output=True, text=True)
    lines = told.stdout.splitlines()
    assert lines[0] == "<lodstone.Model paddle, 12 tensors>" and "whole not sealed" in lines
    assert lines[-3:] == ["True", "the same", "0 equal, 24 different"]

"""The examples in documentation."""

import doctest
import importlib

import pytest

import lodstone

# Those for PyTorch and PaddlePaddle are tested with them.
MODULES = ["lodstone", "lodstone._files", "lodstone._model", "lodstone._work", "lodstone.numpy"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_say_what_happens(name, tmp_path):
    names = {"lodstone": lodstone, "tmp": tmp_path}
    found = doctest.testmod(importlib.import_module(name), extraglobs=names)
    assert found.attempted > 0 and found.failed == 0

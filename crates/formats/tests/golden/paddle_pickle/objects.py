"""Code shared by the scripts: the facts of `../paddle/facts.py`, and objects to save.

`tensors` are in the order of the file, named by their paths. `metadata` holds the other values,
as in Python. The facts come from the arrays that were passed to the framework.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "paddle"))

import numpy as np

import facts

FORMAT = "paddle-pickle"

# Element types that all releases save, and that NumPy has.
DTYPES = ("bool", "int16", "int32", "int64", "float16", "float32", "float64", "uint8")


def state(prefix=""):
    """Arrays of two layers by structured name, and the names of their parameters."""
    arrays = {
        prefix + "fc.weight": facts.random_floats((4, 3), 1),
        prefix + "fc.bias": facts.random_floats((3,), 2),
    }
    return arrays


def tensors_of(arrays, dtypes=None):
    """Facts of arrays by path."""
    dtypes = dtypes or {}
    return [facts.dense(name, array, dtypes.get(name)) for name, array in arrays.items()]


def orders():
    """Arrays that are stored in another order of bytes or dimensions, empty and without dims."""
    base = np.arange(24, dtype="float32").reshape(2, 3, 4) / 7
    return {
        "c": base,
        "fortran": np.asfortranarray(base),
        "big": base.astype(">f4"),
        "big_fortran": np.asfortranarray(base.astype(">f8")),
        "big_complex": (base[0] + 1j * base[1]).astype(">c8"),
        "scalar": np.array(1.5, "float32"),
        "empty": np.zeros((0, 3), "int64"),
        "one": np.array([7], "int16"),
    }

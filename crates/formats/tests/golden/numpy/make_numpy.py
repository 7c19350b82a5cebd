"""Writes the golden files of NumPy.

    python make_numpy.py OUT_DIR

Arrays that Lodstone rejects are also written: objects, structures, text, dates, extended precision
and the types of ml_dtypes, whose names NumPy does not keep.
"""

import os
import sys
import warnings

import ml_dtypes
import numpy as np
from numpy.lib import format as npy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "paddle"))
import facts

FRAMEWORK = "numpy=={}".format(np.__version__)
SCRIPT = os.path.basename(__file__)

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()


def array_of(dtype, shape=(3, 5)):
    if dtype.startswith("uint"):
        return facts.integer_array(dtype.replace("uint", "int"), shape, 7).view(dtype)
    return facts.array_of(dtype, shape)


def dense(name, array):
    return facts.dense(name, np.ascontiguousarray(array).reshape(array.shape))


def make_arrays(index):
    arrays = {"dtype/" + dtype: array_of(dtype) for dtype in DTYPES}
    for dtype in "int16 int32 uint64 float16 float32 float64 complex64 complex128".split():
        array = array_of(dtype)
        arrays["big-endian/" + dtype] = array.astype(array.dtype.newbyteorder(">"))
    fortran = {
        "int8": array_of("int8", (4, 6)),
        "float16": array_of("float16", (2, 3, 4)),
        "float32": array_of("float32", (50, 70)),
        "float64": array_of("float64", (1, 5, 1, 4)),
        "complex128": array_of("complex128", (3, 2, 2, 2)),
        "big-endian": array_of("float32", (7, 3)).astype(">f4"),
    }
    arrays.update({"fortran/" + name: np.asfortranarray(array) for name, array in fortran.items()})
    arrays["shape/scalar"] = np.array(2.5, "float32")
    arrays["shape/one"] = np.array([7], "int64")
    arrays["shape/empty"] = np.zeros((0,), "float32")
    arrays["shape/empty-middle"] = np.zeros((2, 0, 3), "float64")
    arrays["shape/scalar-big-endian"] = np.array(2.5, ">f8")
    # A header of more than 128 bytes.
    arrays["shape/deep"] = array_of("float32", (1,) * 30 + (8,))
    for name, array in arrays.items():
        path = index.path(name + ".npy")
        np.save(path, array)
        index.add(name + ".npy", "npy", [dense("", array)])


def make_versions(index):
    for version in (1, 0), (2, 0), (3, 0):
        name = "version/{}.{}.npy".format(*version)
        array = array_of("float32")
        with open(index.path(name), "wb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            npy.write_array(file, array, version=version)
        index.add(name, "npy", [dense("", array)])


def make_archives(index):
    arrays = {
        "weight": array_of("float32"),
        "a/b/c": array_of("int64"),
        "größe": array_of("float16"),
        "層": array_of("bool"),
        "scalar": np.array(2.5, "float64"),
        "empty": np.zeros((0, 3), "float32"),
        "fortran": np.asfortranarray(array_of("float32", (40, 30))),
        "big": array_of("complex64").astype(">c8"),
    }
    # Much smaller than its elements.
    sparse = {"zeros": np.zeros((1000, 1000), "float64"), "ones": np.ones((300, 400), "int16")}
    cases = [
        ("archive/stored.npz", np.savez, arrays),
        ("archive/deflated.npz", np.savez_compressed, arrays),
        ("archive/sparse.npz", np.savez_compressed, sparse),
        ("archive/none.npz", np.savez, {}),
    ]
    for name, save, members in cases:
        save(index.path(name), **members)
        index.add(name, "npz", [dense(key, array) for key, array in members.items()])


def make_refused(index):
    refused = {
        "object": np.array([{"a": 1}, None], object),
        "structure": np.zeros(2, [("a", "<i4"), ("b", "<f4")]),
        "unicode": np.array(["ab", "c"]),
        "bytes": np.array([b"ab", b"c"]),
        "datetime": np.array(["2020-01-01"], "datetime64[D]"),
        "longdouble": np.zeros(2, "float128"),
        "raw": np.zeros(2, "V3"),
        "bfloat16": np.zeros(2, ml_dtypes.bfloat16),
        "float8_e4m3fn": np.zeros(2, ml_dtypes.float8_e4m3fn),
        "float8_e5m2": np.zeros(2, ml_dtypes.float8_e5m2),
    }
    for name, array in refused.items():
        path = "refused/" + name + ".npy"
        np.save(index.path(path), array, allow_pickle=True)
        index.add(path, "npy-refused", [])


def main(out_dir):
    index = facts.Index(out_dir, SCRIPT, FRAMEWORK)
    make_arrays(index)
    make_versions(index)
    make_archives(index)
    make_refused(index)
    index.write()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

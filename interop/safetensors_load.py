"""Loads safetensors, npz and npy files with their own libraries, and compares the contents.

    python safetensors_load.py DIR

DIR/expect.json lists the cases; paths in it are relative to DIR:

    {"cases": [{"load": KIND, "path": PATH, "tensors": [TENSOR, ...], ...}]}

A TENSOR is {"name", "dtype", "shape", "sha256"}; the digest is of the raw little-endian bytes.
KIND is "safetensors", "npz" or "npy". A file must hold the expected tensors and no others; an
npy file holds one, whose name does not matter. For safetensors, "metadata" is the text that the
header must hold ({key: value}).

numpy has neither bfloat16 nor float8 types. In safetensors files, their raw bytes are compared; in
npz and npy files, which cannot represent them, any type of the same width is accepted.
Prints a line for each case and then `N passed, M failed`.
"""

import hashlib
import json
import os
import struct

import numpy as np
from safetensors import safe_open

import cases
from cases import require

try:
    # Registers bfloat16 with numpy, so that safetensors can make such arrays.
    import ml_dtypes  # noqa: F401
except ImportError:
    ml_dtypes = None

SAFETENSORS_TYPES = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}

# Types that numpy lacks, with their bytes.
FOREIGN_TYPES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


def raw_bytes(array):
    """Returns the bytes of an array, row-major and little-endian whatever the byte order of the file."""
    array = np.asarray(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.tobytes()


def require_bytes(name, data, expected):
    require("sha256 of " + name, hashlib.sha256(data).hexdigest(), expected["sha256"])


def stored_bytes(path, name):
    """Returns the bytes of a tensor by the offsets in the header, which `safe_open` has checked."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        start, end = json.loads(file.read(size))[name]["data_offsets"]
        file.seek(8 + size + start)
        return file.read(end - start)


def numpy_knows(dtype):
    """Returns whether safetensors can make a numpy array of this type.

    It looks up bfloat16 by name, which ml_dtypes registers, and float8 types as attributes of numpy,
    which do not exist.
    """
    return dtype not in FOREIGN_TYPES or (dtype == "bfloat16" and ml_dtypes is not None)


def compare_safetensors(path, opened, expected):
    name = expected["name"]
    described = opened.get_slice(name)
    dtype = SAFETENSORS_TYPES.get(described.get_dtype(), described.get_dtype())
    require("dtype of " + name, dtype, expected["dtype"])
    require("shape of " + name, list(described.get_shape()), expected["shape"])
    require_bytes(name, stored_bytes(path, name), expected)
    if numpy_knows(dtype):
        array = opened.get_tensor(name)
        require("shape of the array " + name, list(array.shape), expected["shape"])
        require_bytes("the array " + name, raw_bytes(array), expected)


def load_safetensors(case, path):
    with safe_open(path, framework="numpy") as opened:
        names = sorted(tensor["name"] for tensor in case["tensors"])
        require("names", sorted(opened.keys()), names)
        if "metadata" in case:
            require("metadata", opened.metadata() or {}, case["metadata"])
        for tensor in case["tensors"]:
            compare_safetensors(path, opened, tensor)


def compare_array(array, expected):
    """Compares an array of an npz or npy file."""
    name = expected["name"] or "the array"
    width = FOREIGN_TYPES.get(expected["dtype"])
    if width is None:
        require("dtype of " + name, array.dtype.name, expected["dtype"])
    else:
        require("width of " + name, array.dtype.itemsize, width)
    require("shape of " + name, list(array.shape), expected["shape"])
    require_bytes(name, raw_bytes(array), expected)


def load_npz(case, path):
    with np.load(path, allow_pickle=False) as archive:
        names = sorted(tensor["name"] for tensor in case["tensors"])
        require("names", sorted(archive.files), names)
        for tensor in case["tensors"]:
            compare_array(archive[tensor["name"]], tensor)


def load_npy(case, path):
    compare_array(np.load(path, allow_pickle=False), case["tensors"][0])


LOADERS = {"safetensors": load_safetensors, "npz": load_npz, "npy": load_npy}


def load(case, root):
    LOADERS[case["load"]](case, os.path.join(root, case["path"]))


if __name__ == "__main__":
    cases.run(__doc__, load)

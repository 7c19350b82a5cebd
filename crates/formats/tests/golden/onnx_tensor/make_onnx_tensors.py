"""Writes the golden files of single ONNX tensors.

    python make_onnx_tensors.py OUT_DIR

Each is one `TensorProto`, as the test data of ONNX's models are (`input_0.pb`), serialized by ONNX's own messages.
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", name) for name in ("paddle", "onnx")]
import facts
from make_onnx import array_of, fact, packed_bytes, raw_tensor, typed_tensor


def tensors():
    """Returns the names of files and tensors, and their contents."""
    for name in ("float32", "int64", "bfloat16", "uint4", "complex64"):
        array = array_of(name)
        described = fact("x", name, array.shape, packed_bytes(name, array))
        yield name + "-raw", raw_tensor("x", name, array), described
        yield name + "-typed", typed_tensor("x", name, array), described
    words = TensorProto(name="words", data_type=TensorProto.STRING, dims=[2])
    words.string_data.extend([b"plain", "größe".encode()])
    yield "strings", words, {"name": "words", "kind": "strings", "dtype": "string", "shape": [2],
                             "texts": ["plain", "größe"]}
    scalar = numpy_helper.from_array(np.array(2.5, "float32"))
    scalar.doc_string = "without a name"
    yield "scalar", scalar, fact("", "float32", (), np.array(2.5, "<f4").tobytes())
    empty = numpy_helper.from_array(np.zeros((0, 3), "float32"), "empty")
    yield "empty", empty, fact("empty", "float32", (0, 3), b"")


def main(out):
    os.makedirs(out, exist_ok=True)
    index = facts.Index(out, os.path.basename(__file__), "onnx=={}".format(onnx.__version__))
    for name, tensor, described in tensors():
        with open(os.path.join(out, name + ".pb"), "wb") as file:
            file.write(tensor.SerializeToString(deterministic=True))
        index.add(name + ".pb", "onnx-tensor", [described], [name + ".pb"])
    index.write()


if __name__ == "__main__":
    main(sys.argv[1])

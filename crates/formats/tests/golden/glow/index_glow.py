"""Describes the golden files of Glow in `index.json`: the contents according to protobuf's own parser.

    python index_glow.py DIRECTORY

The files were written by Glow itself (commit 05dd99b9, built in debug mode): those whose names begin with
a capital by the tests of its exporter (`ONNXExporterTest.cpp`), the others by a program that builds
a graph as the name suggests and calls `ONNXModelWriter` in each of its modes. Glow is archived, and its
build needs a compiler and an LLVM of 2020, so no script recreates them.
"""

import os
import sys
import zipfile

import onnx
from google.protobuf import text_format

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "paddle"))
import facts

GLOW = "glow at 05dd99b9"
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 16: "bfloat16",
}


def message(data):
    model = onnx.ModelProto()
    try:
        text_format.Parse(data.decode("utf-8"), model)
    except (UnicodeDecodeError, text_format.ParseError):
        model.Clear()
        model.ParseFromString(data)
    return model


def read(path):
    """The model, and its tensors."""
    if not path.endswith(".zip"):
        with open(path, "rb") as file:
            model = message(file.read())
        return model, list(model.graph.initializer)
    with zipfile.ZipFile(path) as archive:
        prefix = archive.namelist()[0].split("/")[0]
        count = int(archive.read(prefix + "/weights"))
        tensors = [onnx.TensorProto.FromString(archive.read("{}/weight_{}".format(prefix, i)))
                   for i in range(count)]
        return message(archive.read(prefix + "/model")), tensors


def describe(tensor):
    import hashlib

    data = tensor.raw_data
    if tensor.float_data:
        data = facts.little_endian_bytes(facts.np.array(tensor.float_data, "float32"))
    absent = not data and 0 not in tensor.dims
    return {
        "name": tensor.name,
        "kind": "absent" if absent else "dense",
        "dtype": DTYPES[tensor.data_type],
        "shape": list(tensor.dims),
        "nbytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def main(directory):
    index = facts.Index(directory, os.path.basename(__file__), GLOW)
    for name in sorted(os.listdir(directory)):
        ending = name.rsplit(".", 1)[-1]
        if ending not in ("onnx", "onnxtxt", "zip"):
            continue
        model, tensors = read(os.path.join(directory, name))
        glow = "onnx-glow" if model.producer_name == "GlowONNXModelWriter" else "onnx"
        kind = glow + {"onnx": "", "onnxtxt": "-text", "zip": "-zip"}[ending]
        graph = model.graph
        given = {tensor.name for tensor in tensors}
        index.add(
            name, kind, [describe(tensor) for tensor in tensors],
            operators=[[node.op_type for node in graph.node]],
            inputs=[value.name for value in graph.input if value.name not in given],
            outputs=[value.name for value in graph.output],
        )
    index.write()


if __name__ == "__main__":
    main(sys.argv[1])

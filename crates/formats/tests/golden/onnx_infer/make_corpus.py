"""Records the results of ONNX's own inference for the node tests of its package.

    python3.11 -m venv v && v/bin/pip install onnx==1.23.2 numpy==2.4.6 ml_dtypes==0.6.0
    v/bin/python make_corpus.py            # writes the files beside it
    v/bin/python make_corpus.py --check    # compares them with ONNX

`node_tests.gz` is a compressed list of cases, each a length (u32, little-endian), JSON, a length, a model. A model is
that of the test without the types of its outputs. The JSON holds for each output, in order,

    inferred   the result of `infer_shapes(strict_mode=True, data_prop=True)`, or null
    folded     the same if the small integer inputs are constants of the model
    declared   the type that the test declares
    recorded   the shape of the recorded output, only for tensors

and in `values` the small inputs. A type is `[kinds, dtype, shape]`: kinds from the outside in.

`old_versions.gz` is the same for operators of old versions, with only `inferred`.

`bad_models.gz` is a list of invalid models, with the message of strict inference, if any.

`undeclared.onnx` does not declare its output, `contradictory.onnx` declares a wrong type.

`operators.json` lists every operator of every domain, with its newest version.
"""

import gzip
import json
import struct
import sys
import warnings
from pathlib import Path

import ml_dtypes  # noqa: F401
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from bad_models import bad_models
from old_models import old_models

NAMES = {
    TensorProto.FLOAT: "float32", TensorProto.UINT8: "uint8", TensorProto.INT8: "int8",
    TensorProto.UINT16: "uint16", TensorProto.INT16: "int16", TensorProto.INT32: "int32",
    TensorProto.INT64: "int64", TensorProto.STRING: "string", TensorProto.BOOL: "bool",
    TensorProto.FLOAT16: "float16", TensorProto.DOUBLE: "float64", TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64", TensorProto.COMPLEX64: "complex64",
    TensorProto.COMPLEX128: "complex128", TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn", TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2", TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.UINT4: "uint4", TensorProto.INT4: "int4", TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu", TensorProto.UINT2: "uint2", TensorProto.INT2: "int2",
}

# Inputs with at most this number of integers or floats are also tested as constants.
INTEGERS, FLOATS = 64, 16


def type_of(proto):
    kinds = []
    while True:
        field = proto.WhichOneof("value")
        if field is None:
            return [kinds + ["unspecified"], None, None]
        if field in ("tensor_type", "sparse_tensor_type"):
            kinds.append("tensor" if field == "tensor_type" else "sparse")
            inner = getattr(proto, field)
            shape = None
            if inner.HasField("shape"):
                shape = []
                for dim in inner.shape.dim:
                    kind = dim.WhichOneof("value")
                    value = None if kind is None else getattr(dim, kind)
                    # The symbols that inference creates for unknown dims.
                    if isinstance(value, str) and value.startswith("unk__"):
                        value = None
                    shape.append(value)
            return [kinds, NAMES.get(inner.elem_type), shape]
        if field == "map_type":
            kinds += ["map", NAMES[proto.map_type.key_type]]
            proto = proto.map_type.value_type
        else:
            kinds.append(field.split("_")[0])
            proto = getattr(proto, field).elem_type


def inferred(model):
    """Returns the types that ONNX infers for the outputs, each null if it infers none."""
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:  # noqa: BLE001
        return [None] * len(model.graph.output), str(error)
    types = []
    for output in model.graph.output:
        known = output.HasField("type") and output.type.WhichOneof("value")
        types.append(type_of(output.type) if known else None)
    return types, None


def without_outputs(model):
    stripped = onnx.ModelProto()
    stripped.CopyFrom(model)
    for output in stripped.graph.output:
        output.ClearField("type")
    for graph in [stripped.graph]:
        graph.ClearField("doc_string")
        for node in graph.node:
            node.ClearField("doc_string")
    stripped.ClearField("producer_name")
    return stripped


def small(array):
    if not isinstance(array, np.ndarray):
        return False
    if array.dtype.kind in "iub" or array.dtype == np.bool_:
        return array.size <= INTEGERS
    return array.dtype in (np.float32, np.float64) and array.size <= FLOATS


def packed(cases):
    parts = []
    for facts, model in cases:
        facts = json.dumps(facts, separators=(",", ":")).encode()
        parts += [struct.pack("<I", len(facts)), facts, struct.pack("<I", len(model)), model]
    return b"".join(parts)


def node_tests():
    for case in collect_testcases(None):
        model = without_outputs(case.model)
        facts = {"name": case.name}
        facts["inferred"], facts["error"] = inferred(model)
        facts["declared"] = [type_of(output.type) for output in case.model.graph.output]
        facts["recorded"], facts["values"] = [], {}
        if case.data_sets:
            inputs, outputs = case.data_sets[0]
            # The results of several data sets need not have the same shape.
            facts["recorded"] = [
                list(value.shape) if isinstance(value, (np.ndarray, np.generic)) else None
                for value in outputs
            ]
            folded = onnx.ModelProto()
            folded.CopyFrom(model)
            for info, value in zip(case.model.graph.input, inputs):
                if isinstance(value, np.generic):
                    value = np.asarray(value)
                known = info.type.WhichOneof("value") == "tensor_type"
                if known and info.type.tensor_type.elem_type in (2, 3, 4, 5, 6, 7, 9, 12, 13, 1, 11) and small(value):
                    tensor = numpy_helper.from_array(value, info.name)
                    if tensor.data_type != info.type.tensor_type.elem_type:
                        continue
                    folded.graph.initializer.append(tensor)
                    facts["values"][info.name] = [list(value.shape), np.asarray(value).astype(
                        np.float64 if value.dtype.kind == "f" else np.int64).ravel().tolist()]
            # NaN and infinities are not JSON.
            facts["values"] = {
                name: value for name, value in facts["values"].items() if np.isfinite(value[1]).all()
            }
            facts["folded"], _ = inferred(folded)
        yield facts, model.SerializeToString()


def shapes(declared):
    """Merges the rows of a batch, by computations on shapes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["rows"], axis=0),
        helper.make_node("Concat", ["rows", "open"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 4])
    y = helper.make_tensor_value_info("y", *declared) if declared else None
    y = y or helper.make_empty_tensor_value_info("y")
    constants = [numpy_helper.from_array(np.array([n]), m) for m, n in [("zero", 0), ("open", -1)]]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def old_versions():
    """Returns the inferred types for operators of old versions; no types are declared or recorded."""
    for name, model in old_models():
        types, error = inferred(model)
        unspecified = [["unspecified"], None, None]
        if error:
            raise ValueError(f"{name}: {error}")
        yield {
            "name": name, "inferred": types, "declared": [unspecified] * len(types), "recorded": [],
            "values": {},
        }, model.SerializeToString()


def corpus():
    """Returns all files by name; compressed ones uncompressed."""
    operators = sorted({
        (schema.domain, schema.name, schema.since_version)
        for schema in onnx.defs.get_all_schemas_with_history()
    })
    lines = ",\n".join(json.dumps(row) for row in operators)
    return {
        "node_tests.gz": packed(node_tests()),
        "old_versions.gz": packed(old_versions()),
        "bad_models.gz": packed(bad_models()),
        "operators.json": f"[\n{lines}\n]\n".encode(),
        "undeclared.onnx": shapes(None).SerializeToString(),
        "contradictory.onnx": shapes((TensorProto.FLOAT, [4, 5])).SerializeToString(),
    }


def main():
    warnings.simplefilter("ignore")
    here, check = Path(__file__).parent, "--check" in sys.argv[1:]
    different = []
    for name, content in corpus().items():
        is_packed, path = name.endswith(".gz"), here / name
        if not check:
            path.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)
        elif (gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes()) != content:
            different.append(name)
    if check:
        print(f"ONNX {onnx.__version__} gives other files: {different}" if different
              else f"ONNX {onnx.__version__} infers what was recorded")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()

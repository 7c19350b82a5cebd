"""Compares the findings of ONNX and Lodstone on the same models, for the scripts beside it.

Types are `[kinds, dtype, shape]`: kinds from the outside in, `null` if unknown.
"""

import json
import os
import subprocess

import onnx
from onnx import TensorProto

# Lodstone's names of element types, if they are not ONNX's in lower case.
NAMES = {
    "FLOAT": "float32", "DOUBLE": "float64", "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz", "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz", "FLOAT8E8M0": "float8_e8m0fnu",
    "FLOAT4E2M1": "float4_e2m1fn", "FLOAT6E2M3": "float6_e2m3fn", "FLOAT6E3M2": "float6_e3m2fn",
}


def dtype_name(code):
    if code not in TensorProto.DataType.values() or code == TensorProto.UNDEFINED:
        return None
    name = TensorProto.DataType.Name(code)
    return NAMES.get(name, name.lower())


def type_of(proto):
    """Converts a TypeProto to a list."""
    kinds = []
    while True:
        field = proto.WhichOneof("value")
        if field is None:
            return [kinds + ["unspecified"], None, None]
        inner = getattr(proto, field)
        if field in ("tensor_type", "sparse_tensor_type"):
            kinds.append(field.split("_")[0])
            shape = [dim_of(dim) for dim in inner.shape.dim] if inner.HasField("shape") else None
            return [kinds, dtype_name(inner.elem_type), shape]
        if field == "opaque_type":
            return [kinds + ["opaque"], None, None]
        if field == "map_type":
            kinds += ["map", dtype_name(inner.key_type)]
            proto = inner.value_type
        else:
            kinds.append(field.split("_")[0])
            proto = inner.elem_type


def dim_of(dim):
    kind = dim.WhichOneof("value")
    value = None if kind is None else getattr(dim, kind)
    # Symbols that inference creates for unknown dims, and the empty name that many exporters write for them.
    unknown = value == "" or (isinstance(value, str) and value.startswith("unk__"))
    return None if unknown or (isinstance(value, int) and value < 0) else value


def types_of(model):
    """Returns the types of the values of an inferred model, by name."""
    graph = model.graph
    infos = [*graph.input, *graph.value_info, *graph.output]
    return {info.name: type_of(info.type) for info in infos}


def is_less(theirs, ours):
    """Returns the part of ONNX's type that Lodstone's type lacks or contradicts, or None."""
    if theirs[0] == ["unspecified"]:
        return None
    if ours is None or theirs[0] != ours[0]:
        return "kind"
    if theirs[1] not in (None, ours[1]):
        return "element type"
    if theirs[2] is None:
        return None
    if ours[2] is None or len(theirs[2]) != len(ours[2]):
        return "rank"
    for their, our in zip(theirs[2], ours[2]):
        # A number is more specific than a symbol.
        known = their is None or their == our or (isinstance(their, str) and isinstance(our, int))
        if not known:
            return "dims"
    return None


def judged(program, paths):
    """Returns Lodstone's findings for each model."""
    lines = "".join(os.path.abspath(path) + "\n" for path in paths)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("{} failed: {}".format(program, done.stderr[-2000:]))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if len(found) != len(paths):
        raise SystemExit("{} judged {} of {} models".format(program, len(found), len(paths)))
    return found


def full_check(model):
    """Returns the reason why ONNX rejects a model (bytes, or the path of a file), or None."""
    checker = onnx.checker.C
    try:
        if isinstance(model, bytes):
            checker.check_model(model, True, False, False)
        else:
            checker.check_model_path(model, True, False, False)
    except Exception as error:  # noqa: BLE001 - includes errors of protobuf
        return "{}: {}".format(type(error).__name__, error)
    return None


def isolated(function):
    """Runs a function in a separate process; returns None if a signal ends it, since ONNX sometimes aborts."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        # Discard the message of a failed assertion.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(writer, "w") as file:
            json.dump(function(), file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        result = file.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    return json.loads(result)


def findings(found):
    """Returns all problems that Lodstone reports for a model."""
    if found["unreadable"] is not None:
        return [found["unreadable"]]
    return found["check"] + found["infer"]

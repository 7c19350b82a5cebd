"""Loads model files with PaddlePaddle itself, and compares the contents with the expected ones.

    python paddle_load.py DIR

DIR/expect.json lists the cases; paths in it are relative to DIR:

    {"cases": [{"load": KIND, "path": PATH, "tensors": [TENSOR, ...], ...}]}

A TENSOR is {"name", "dtype", "shape", "sha256"} and, if it has them, "lod", "rows" and "height".
The digest is of the raw little-endian bytes. KIND is the way of loading:

- "inference_model": `load_inference_model` of a prefix, or of a directory with "model_filename"
  (default: `__model__`) and "params_filename" (none if each variable has its own file). "feeds" and
  "fetch" are npz archives with inputs and outputs: the model is run on the inputs and must return
  the outputs; "tensors" is then optional. Their keys are variable names, unless "feed_keys"
  ({variable: key}) and "fetch_keys" ([key of each output]) set other keys.
- "vars": a directory with one file per variable, each loaded by a `load` operator.
- "params": one file with every variable, loaded by one `load_combine` operator, in the order of
  the tensors; their names may be empty.
- "saved": a prefix: its program, and `static.load_program_state`.
- "tensor", "selected_rows": a file with a single value and no name.
- "pickle": `paddle.load`; the name of a tensor is its path: keys and indices, joined with dots.

With "program", the path of a binary program, "vars" and "params" load all that the program
declares by `load_vars`, as a user of this program would.

Works with 2.6.2 and 3.3.1. Prints a line for each case and then `N passed, M failed`.
"""

import ctypes
import hashlib
import os

os.environ.setdefault("GLOG_minloglevel", "2")
# Without this, releases since 3.0 look for JSON programs and cannot build older ones.
os.environ["FLAGS_enable_pir_api"] = "0"

import numpy as np
import paddle
from paddle.base import core

import cases
from cases import Mismatch, require

static = paddle.static
VarType = core.VarDesc.VarType

# Release 3 renamed the LoDTensor and its functions; the files are the same.
Tensor = getattr(core, "LoDTensor", None) or core.DenseTensor
load_tensor = getattr(core, "load_lod_tensor", None) or core.load_dense_tensor

ELEMENT_BYTES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}

VARIABLE_TYPES = {
    "bool": "BOOL",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
    "complex64": "COMPLEX64",
    "complex128": "COMPLEX128",
    "float8_e4m3fn": "FP8_E4M3FN",
    "float8_e5m2": "FP8_E5M2",
}

TOLERANCE = 1e-5


def dtype_of(tensor):
    """Returns the element type, with its name in numpy or ml_dtypes."""
    return str(tensor._dtype()).rpartition(".")[2]


def raw_bytes(tensor):
    """Returns the bytes in memory: a conversion to numpy would change types that numpy lacks."""
    size = ELEMENT_BYTES[dtype_of(tensor)] * int(np.prod(tensor.shape(), dtype="int64"))
    return ctypes.string_at(tensor._ptr(), size) if size else b""


def compare(tensor, expected):
    """Compares a loaded dense tensor with its expectation."""
    name = expected["name"] or "the tensor"
    require("dtype of " + name, dtype_of(tensor), expected["dtype"])
    require("shape of " + name, list(tensor.shape()), expected["shape"])
    digest = hashlib.sha256(raw_bytes(tensor)).hexdigest()
    require("sha256 of " + name, digest, expected["sha256"])
    if "lod" in expected:
        require("lod of " + name, tensor.lod(), expected["lod"])


def compare_scope(expected):
    """Compares variables of the current scope, by name."""
    for tensor in expected:
        variable = static.global_scope().find_var(tensor["name"])
        if variable is None:
            raise Mismatch(tensor["name"] + " was not loaded")
        if "rows" in tensor:
            compare_rows(variable.get_selected_rows(), tensor)
        else:
            compare(variable.get_tensor(), tensor)


def compare_rows(value, expected):
    require("rows", list(value.rows()), expected["rows"])
    require("height", value.height(), expected["height"])
    compare(value.get_tensor(), expected)


def read_program(path):
    with open(path, "rb") as file:
        return static.Program.parse_from_string(file.read())


def is_saved(variable):
    """Returns whether Paddle's own save functions write a variable."""
    return static.io.is_persistable(variable) and variable.type != VarType.RAW


def declare(block, tensor):
    """Declares a variable for the output of a load operator."""
    kind = VarType.SELECTED_ROWS if "rows" in tensor else VarType.LOD_TENSOR
    return block.create_var(
        name=tensor["name"],
        shape=tensor["shape"],
        dtype=getattr(VarType, VARIABLE_TYPES[tensor["dtype"]]),
        type=kind,
        persistable=True,
    )


def require_all_expected(program, expected):
    """Checks that the saved variables of the program are the expected ones."""
    found = sorted(variable.name for variable in program.list_vars() if is_saved(variable))
    require("saved variables", found, sorted(tensor["name"] for tensor in expected))


def load_by_program(executor, case, path, directory, filename):
    program = read_program(path)
    require_all_expected(program, case["tensors"])
    static.load_vars(
        executor, directory, main_program=program, predicate=is_saved, filename=filename
    )


def load_variables(executor, case, root):
    """Loads one file per variable."""
    directory = os.path.join(root, case["path"])
    if "program" in case:
        load_by_program(executor, case, os.path.join(root, case["program"]), directory, None)
    else:
        loader = static.Program()
        block = loader.global_block()
        for tensor in case["tensors"]:
            path = os.path.join(directory, tensor["name"])
            output = {"Out": [declare(block, tensor)]}
            block.append_op(type="load", inputs={}, outputs=output, attrs={"file_path": path})
        executor.run(loader)
    compare_scope(case["tensors"])


def load_combined(executor, case, root):
    """Loads all variables from one file, which must end after the last one."""
    path = os.path.join(root, case["path"])
    tensors = [
        dict(tensor, name=tensor["name"] or "record_{}".format(number))
        for number, tensor in enumerate(case["tensors"])
    ]
    if "program" in case:
        directory, filename = os.path.split(path)
        program = os.path.join(root, case["program"])
        load_by_program(executor, case, program, directory, filename)
    else:
        loader = static.Program()
        block = loader.global_block()
        outputs = {"Out": [declare(block, tensor) for tensor in tensors]}
        attributes = {"file_path": path}
        block.append_op(type="load_combine", inputs={}, outputs=outputs, attrs=attributes)
        executor.run(loader)
    compare_scope(tensors)


def load_single_tensor(_executor, case, root):
    path = os.path.join(root, case["path"])
    tensor = Tensor()
    require("end of the tensor", load_tensor(tensor, path), os.path.getsize(path))
    compare(tensor, case["tensors"][0])


def load_single_rows(_executor, case, root):
    path = os.path.join(root, case["path"])
    value = core.SelectedRows()
    require("end of the rows", core.load_selected_rows(value, path), os.path.getsize(path))
    compare_rows(value, case["tensors"][0])


def flatten(value, path, found):
    """Returns the arrays in dicts, lists and tuples by path, in order."""
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, (list, tuple)):
        pairs = enumerate(value)
    else:
        if isinstance(value, np.ndarray):
            found.append((path, value))
        return
    for key, inner in pairs:
        flatten(inner, "{}.{}".format(path, key) if path else str(key), found)


def load_pickle(_executor, case, root):
    value = paddle.load(os.path.join(root, case["path"]), return_numpy=True)
    found = []
    flatten(value, "", found)
    compare_arrays(found, case["tensors"])


def load_saved(_executor, case, root):
    prefix = os.path.join(root, case["path"])
    require_all_expected(read_program(prefix + ".pdmodel"), case["tensors"])
    compare_arrays(list(static.load_program_state(prefix).items()), case["tensors"])


def compare_arrays(found, tensors):
    """Compares arrays and their names."""
    expected = {tensor["name"]: tensor for tensor in tensors}
    require("names", sorted(name for name, _ in found), sorted(expected))
    for name, array in found:
        tensor = expected[name]
        require("dtype of " + name, array.dtype.name, tensor["dtype"])
        require("shape of " + name, list(array.shape), tensor["shape"])
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        require("sha256 of " + name, hashlib.sha256(data).hexdigest(), tensor["sha256"])


def load_inference_model(executor, case, root):
    path = os.path.join(root, case["path"])
    files = {}
    if os.path.isdir(path):
        files["model_filename"] = case.get("model_filename", "__model__")
        files["params_filename"] = case.get("params_filename")
    program, feed_names, targets = static.load_inference_model(path, executor, **files)
    if "tensors" in case:
        require_all_expected(program, case["tensors"])
        compare_scope(case["tensors"])
    if "feeds" in case:
        outputs = run_model(executor, case, root, program, feed_names, targets)
        names = [target.name for target in targets]
        compare_outputs(case, root, names, outputs)


def run_model(executor, case, root, program, feed_names, targets):
    keys = case.get("feed_keys", {})
    with np.load(os.path.join(root, case["feeds"]), allow_pickle=False) as archive:
        feed = {name: archive[keys.get(name, name)] for name in feed_names}
    return executor.run(program, feed=feed, fetch_list=targets)


def compare_outputs(case, root, names, outputs):
    keys = case.get("fetch_keys", names)
    require("number of outputs", len(outputs), len(keys))
    with np.load(os.path.join(root, case["fetch"]), allow_pickle=False) as archive:
        for key, output in zip(keys, outputs):
            expected = archive[key]
            require("shape of " + key, output.shape, expected.shape)
            if not np.allclose(output, expected, rtol=TOLERANCE, atol=TOLERANCE):
                distance = float(np.abs(output - expected).max())
                raise Mismatch("{} differs by up to {}".format(key, distance))


LOADERS = {
    "inference_model": load_inference_model,
    "vars": load_variables,
    "params": load_combined,
    "tensor": load_single_tensor,
    "selected_rows": load_single_rows,
    "pickle": load_pickle,
    "saved": load_saved,
}


def describe(error):
    """Returns Paddle's message without the Python stack of the operator, which comes first."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    return "{}: {}".format(type(error).__name__, " ".join(lines[-3:])[-400:])


def main():
    paddle.enable_static()
    executor = static.Executor(paddle.CPUPlace())

    def load(case, root):
        with static.scope_guard(static.Scope()):
            LOADERS[case["load"]](executor, case, root)

    cases.run(__doc__, load, describe)


if __name__ == "__main__":
    main()

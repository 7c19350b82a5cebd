"""Recorded facts of the golden files, shared by the scripts that create them.

Every script describes the files it writes in one `index.json`. The facts come from the arrays
that were passed to the framework, or that the framework holds, never from reading a file back,
so that they can judge a reader. Works with Python 3.8 and later.
"""

import hashlib
import json
import os
import sys

import numpy as np

SCHEMA = 1

FLOAT_TYPES = ("float16", "float32", "float64")
INTEGER_TYPES = ("int8", "int16", "int32", "int64", "uint8")

# Values that a careless conversion loses, as bfloat16 bits: infinities, a NaN, minus zero, the
# greatest and the lowest finite value, the smallest normal and the smallest subnormal number.
BFLOAT16_EDGES = (0x7F80, 0xFF80, 0x7FC0, 0x8000, 0x7F7F, 0xFF7F, 0x0080, 0x0001)


def fix_hash_seed():
    """Starts the script again with a fixed hash seed, unless it runs with one.

    Paddle iterates over sets of names when it builds loops, and writes the results in that order.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable] + sys.argv)


def sha256_of_file(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def little_endian_bytes(array):
    """Returns the raw row-major, little-endian bytes of an array on every machine."""
    array = np.asarray(array)
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def describe_data(name, array, dtype=None):
    """The facts that every kind of tensor has.

    `dtype` overrides numpy's name where numpy has no such type and the array holds its bits.
    """
    data = little_endian_bytes(array)
    return {
        "name": name,
        "kind": "dense",
        "dtype": dtype or np.asarray(array).dtype.name,
        "shape": list(np.shape(array)),
        "nbytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def dense(name, array, dtype=None, lod=None):
    """Facts of a dense tensor; `lod` holds offsets, not lengths."""
    facts = describe_data(name, array, dtype)
    if lod:
        facts["lod"] = [list(level) for level in lod]
    return facts


def selected_rows(name, array, rows, height, dtype=None):
    """Facts of a SelectedRows variable: some rows of a matrix that has `height` of them."""
    facts = describe_data(name, array, dtype)
    facts["kind"] = "selected_rows"
    facts["rows"] = list(rows)
    facts["height"] = height
    return facts


def vocab(name, tokens):
    """Facts of a vocabulary, which holds no numbers but the ids of its tokens."""
    return {"name": name, "kind": "vocab", "tokens": dict(tokens)}


def without_names(tensors):
    """The same facts as a reader sees them in a file that holds no names."""
    return [dict(facts, name="") for facts in tensors]


def offsets_of(lengths):
    """Turns a level given as sequence lengths into the offsets that files hold."""
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return offsets


def operators_of(program):
    """The operator types of every block of a program."""
    return [[operator.type for operator in block.ops] for block in program.blocks]


def random_floats(shape, seed):
    """Normally distributed float32 values that depend on `seed` alone."""
    return np.random.RandomState(seed).standard_normal(shape).astype("float32")


def float_array(dtype, shape, seed):
    """Random floats that begin with the values a careless conversion loses."""
    limits = np.finfo(dtype)
    array = random_floats(shape, seed).astype(dtype)
    smallest = np.nextafter(np.zeros((), dtype), np.ones((), dtype))
    edges = [np.inf, -np.inf, np.nan, -0.0, limits.max, limits.min, limits.tiny, smallest]
    array.reshape(-1)[: len(edges)] = np.array(edges, dtype)
    return array


def integer_array(dtype, shape, seed):
    """Random integers that begin with the lowest and the greatest one, zero, and one."""
    limits = np.iinfo(dtype)
    random = np.random.RandomState(seed)
    array = random.randint(-(2**30), 2**30, shape).astype("int64").astype(dtype)
    array.reshape(-1)[:4] = np.array([limits.min, limits.max, 0, 1], dtype)
    return array


def bfloat16_bits(shape, seed):
    """Bits of bfloat16 values, since numpy lacks the type: edges, then cut float32 values."""
    bits = (random_floats(shape, seed).view("uint32") >> 16).astype("uint16")
    bits.reshape(-1)[: len(BFLOAT16_EDGES)] = BFLOAT16_EDGES
    return bits


def complex_array(dtype, shape, seed):
    """Complex numbers whose parts both hold edge values, never in the same place."""
    part = {"complex64": "float32", "complex128": "float64"}[dtype]
    real = float_array(part, shape, seed)
    array = np.empty(shape, dtype)
    array.real = real
    array.imag = real.reshape(-1)[::-1].reshape(shape)
    return array


def array_of(dtype, shape=(3, 5), seed=7):
    """A deterministic array of at least eight elements; bfloat16 comes as its bits."""
    if dtype in FLOAT_TYPES:
        return float_array(dtype, shape, seed)
    if dtype in INTEGER_TYPES:
        return integer_array(dtype, shape, seed)
    if dtype == "bfloat16":
        return bfloat16_bits(shape, seed)
    if dtype == "bool":
        return np.random.RandomState(seed).rand(*shape) > 0.5
    return complex_array(dtype, shape, seed)


def case_order(case):
    """Sorting key of a case: one path may be opened in several ways."""
    return case["path"], case["format"], case.get("params", "")


def format_value(value):
    """JSON of one value, with a line to each entry of a list of tensors or of files."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        lines = [json.dumps(entry, ensure_ascii=False) for entry in value]
        return "[\n   " + ",\n   ".join(lines) + "\n  ]"
    return json.dumps(value, ensure_ascii=False)


def format_case(case):
    """JSON of one case, with a line to each of its keys."""
    lines = ["  {}: {}".format(json.dumps(key), format_value(case[key])) for key in case]
    return " {\n" + ",\n".join(lines) + "\n }"


def format_index(cases):
    """JSON of the whole index, laid out so that differences between two versions are readable."""
    return '{{"schema": {}, "cases": [\n{}\n]}}\n'.format(
        SCHEMA, ",\n".join(format_case(case) for case in cases)
    )


class Index:
    """The cases of `index.json` that one script writes with one release; all others stay."""

    def __init__(self, out_dir, made_by, framework):
        self.out_dir = out_dir
        self.made_by = made_by
        self.framework = framework
        self.cases = []

    def path(self, relative):
        """The place of a file inside the output directory, whose folders are created."""
        path = os.path.join(self.out_dir, relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def files_of(self, relative):
        """The file itself, or every file directly inside a directory."""
        path = os.path.join(self.out_dir, relative)
        if not os.path.isdir(path):
            return [relative]
        return [relative + "/" + name for name in sorted(os.listdir(path))]

    def add(self, path, kind, tensors, files=None, **more):
        """Records a case: the path that a user would open, the layout, and the contents."""
        files = files or self.files_of(path)
        case = {"path": path}
        if "params" in more:
            case["params"] = more.pop("params")
        case["format"] = kind
        case["made_by"] = self.made_by
        case["with"] = self.framework
        case["files"] = {name: sha256_of_file(self.path(name)) for name in files}
        case["tensors"] = tensors
        case.update(more)
        self.cases.append(case)

    def write(self):
        """Merges this script's cases into the index, in a reproducible order."""
        path = os.path.join(self.out_dir, "index.json")
        kept = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                cases = json.load(file)["cases"]
            own = (self.made_by, self.framework)
            kept = [case for case in cases if (case["made_by"], case["with"]) != own]
        cases = sorted(kept + self.cases, key=case_order)
        with open(path, "w", encoding="utf-8") as file:
            file.write(format_index(cases))
        print("{}: {} cases".format(self.made_by, len(self.cases)))

"""Writes the golden files of safetensors 0.8.

    python make_safetensors.py OUT_DIR

Needs numpy and ml_dtypes. The Python package has no names for the two 6-bit floats, so no file
has them. It writes the keys of metadata in random order: `metadata.safetensors` differs
in every run.
"""

import ctypes
import json
import os
import sys

import ml_dtypes
import numpy as np
import safetensors
from safetensors import TensorSpec, serialize_file
from safetensors.numpy import save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "paddle"))
import facts

FRAMEWORK = "safetensors=={}".format(safetensors.__version__)
SCRIPT = os.path.basename(__file__)

PLAIN = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"
).split()
EXTRA = "bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split()


def array_of(dtype, shape=(3, 5)):
    if dtype in EXTRA:
        count = int(np.prod(shape)) * np.dtype(getattr(ml_dtypes, dtype)).itemsize
        raw = np.random.RandomState(7).bytes(count)
        return np.frombuffer(raw, getattr(ml_dtypes, dtype)).reshape(shape)
    if dtype.startswith("uint"):
        return facts.integer_array(dtype.replace("uint", "int"), shape, 7).view(dtype)
    return facts.array_of(dtype, shape)


def dense(name, array):
    """Like `facts.dense`; ml_dtypes has no types of the other byte order."""
    if array.dtype.name in EXTRA:
        bits = array.view("uint{}".format(8 * array.itemsize))
        return facts.dense(name, bits, dtype=array.dtype.name)
    return facts.dense(name, array)


def in_order(path, tensors):
    """Returns the facts of `tensors` in the order of the file; the package orders ties arbitrarily."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    names = sorted(header, key=lambda name: header[name]["data_offsets"])
    assert sorted(names) == sorted(tensors)
    return [dense(name, tensors[name]) for name in names]


def make_single(index):
    unicode_names = {
        "größe": array_of("float32"),
        "層.0.重み": array_of("float16"),
        "a\"b\\c\n": array_of("int8"),
        "emoji.\U0001F40D": array_of("bool"),
        "with space": array_of("int64"),
    }
    shapes = {
        "scalar": np.array(2.5, "float32"),
        "one": np.array([7], "int64"),
        "empty": np.zeros((0,), "float32"),
        "empty.middle": np.zeros((2, 0, 3), "float32"),
        "deep": facts.array_of("float32", (1, 2, 1, 3, 1, 2)),
    }
    every = {dtype: array_of(dtype) for dtype in PLAIN + EXTRA}
    # More than the first 4 KiB, including the header.
    many = {"layers.{}.weight".format(i): array_of("float32", (2, 4)) for i in range(96)}
    cases = [
        ("dtypes", every, None),
        ("shapes", shapes, None),
        ("unicode", unicode_names, {"ключ": "значение \U0001F40D"}),
        ("metadata", {"a": array_of("float32")}, {"format": "np", "z": "1", "b": "\"2\"\n"}),
        ("metadata-empty", {"a": array_of("float32")}, {}),
        ("none", {}, None),
        ("many", many, {"format": "np"}),
    ]
    for name, tensors, metadata in cases:
        path = index.path(name + ".safetensors")
        save_file(tensors, path, metadata=metadata)
        more = {"metadata": metadata} if metadata else {}
        index.add(name + ".safetensors", "safetensors", in_order(path, tensors), **more)


def make_packed(index):
    """Two 4-bit floats per byte, for which numpy has no arrays."""
    data = bytes(range(6))
    buffer = ctypes.create_string_buffer(data, len(data))
    spec = TensorSpec(
        dtype="float4_e2m1fn_x2",
        shape=(3, 2),
        data_ptr=ctypes.addressof(buffer),
        data_len=len(data),
    )
    serialize_file({"packed": spec}, index.path("packed.safetensors"), metadata=None)
    described = facts.dense("packed", np.frombuffer(data, "uint8"), dtype="float4_e2m1fn")
    described["shape"] = [3, 4]
    index.add("packed.safetensors", "safetensors", [described])


def make_sharded(index):
    """Three files and an index, as `save_pretrained` of transformers lays them out."""
    shards = [
        {"embed.weight": array_of("float32"), "größe": array_of("float16")},
        {"block.0.bias": array_of("bfloat16", (4, 2)), "block.0.weight": array_of("int8")},
        {"head.weight": array_of("float64")},
    ]
    weight_map, tensors, total = {}, [], 0
    for number, shard in enumerate(shards, 1):
        name = "model-{:05}-of-{:05}.safetensors".format(number, len(shards))
        path = index.path("sharded/" + name)
        save_file(shard, path, metadata={"format": "pt"})
        weight_map.update({tensor: name for tensor in shard})
        tensors += in_order(path, shard)
        total += sum(array.nbytes for array in shard.values())
    content = {"metadata": {"total_size": total}, "weight_map": weight_map}
    path = index.path("sharded/model.safetensors.index.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2, sort_keys=True) + "\n")
    index.add("sharded", "safetensors", tensors, metadata={"format": "pt"})


def main(out_dir):
    index = facts.Index(out_dir, SCRIPT, FRAMEWORK)
    make_single(index)
    make_packed(index)
    make_sharded(index)
    index.write()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

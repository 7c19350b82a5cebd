"""Writes the pickles of PaddlePaddle 2.6.2, or of 3.3.1 if that is installed.

    python make_paddle_2_x.py OUT_DIR

Names that PaddlePaddle generates for tensors are numbered from the start of the process: a second run
writes the same bytes.
"""

import os
import sys

os.environ.setdefault("GLOG_minloglevel", "2")

import collections
import pickle

import numpy as np
import paddle
from paddle.framework import io_utils

import objects
from objects import facts

facts.fix_hash_seed()

RELEASE = paddle.__version__
FRAMEWORK = "paddlepaddle==" + RELEASE
# Both releases use this script; their cases are distinguished by the release.
SCRIPT = "make_paddle_2_x.py " + RELEASE


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(4, 3)
        self.bn = paddle.nn.BatchNorm1D(3)

    def forward(self, x):
        return self.bn(self.fc(x))


def tensor(array, dtype=None):
    """Returns a tensor; bfloat16 as its bits."""
    if dtype == "bfloat16":
        bits = paddle.to_tensor(array.view("int16"))
        return bits.view("bfloat16")
    return paddle.to_tensor(array)


def make_state(index, save):
    """A state dict in every protocol, and with optimizer state."""
    net = Net()
    arrays, table = {}, {}
    for number, (name, parameter) in enumerate(net.state_dict().items()):
        arrays[name] = facts.random_floats(tuple(parameter.shape), number)
        parameter.set_value(arrays[name])
        table[name] = parameter.name
    metadata = {"StructuredToParameterName@@": table}
    for protocol in (2, 3, 4):
        path = "state_p{}.pdparams".format(protocol)
        save(net.state_dict(), path, objects.tensors_of(arrays), metadata, protocol=protocol)
    scheduler = paddle.optimizer.lr.StepDecay(0.1, 3)
    adam = paddle.optimizer.Adam(scheduler, parameters=net.parameters())
    net(paddle.to_tensor(facts.random_floats((5, 4), 9))).mean().backward()
    adam.step()
    scheduler.step()
    state, arrays, metadata = adam.state_dict(), {}, {}
    for name, value in state.items():
        if isinstance(value, paddle.Tensor):
            arrays[name] = value.numpy()
        else:
            metadata[name] = value
    metadata["StructuredToParameterName@@"] = {name: state[name].name for name in arrays}
    save(state, "adam.pdopt", objects.tensors_of(arrays), metadata)


def make_objects(index, save):
    """Tensors alone, in lists, in dicts, and beside other values."""
    a, b = facts.random_floats((2, 3), 3), facts.random_floats((4,), 4)
    save(tensor(a), "tensor.pdtensor", [facts.dense("", a)], {})
    save([tensor(a), 5, tensor(b)], "list.pdtensor", [facts.dense("0", a), facts.dense("2", b)], {"1": 5})
    nested = {
        "a": tensor(a),
        "n": [1, 2.5, "x", None, True, tensor(b)],
        "m": {"k": (tensor(a), 7)},
        "np": b,
        "step": 12,
        "ordered": collections.OrderedDict([("p", b), ("q", [1, 2])]),
        "großes Ö": "層",
    }
    tensors = [("a", a), ("n.5", b), ("m.k.0", a), ("np", b), ("ordered.p", b)]
    metadata = {
        "n.0": 1, "n.1": 2.5, "n.2": "x", "n.3": None, "n.4": True, "m.k.1": 7, "step": 12,
        "ordered.q": [1, 2], "großes Ö": "層",
    }
    tensors = [facts.dense(name, array) for name, array in tensors]
    save(nested, "nested.pdparams", tensors, metadata)
    save(nested, "nested_p2.pdparams", tensors, metadata, protocol=2)
    values = {
        "big": 2**70, "minus": -(2**70), "int": -5, "long": 2**40, "nan": float("nan"), "inf": float("inf"),
        "tuple": (1, (2,)), "f8": np.float64(0.5), "i4": np.int32(-3),
        "f2": np.float16(1.5), "b1": np.bool_(True),
    }
    said = dict(
        values, big="0x400000000000000000", minus="-0x400000000000000000", nan="NaN", inf="inf",
        tuple=[1, [2]], f8=0.5, i4=-3, f2=1.5, b1=True,
    )
    for protocol in (2, 4):
        save(values, "values_p{}.pdstates".format(protocol), [], said, protocol=protocol)
    save({}, "empty.pdopt", [], {"StructuredToParameterName@@": {}})


def make_arrays(index, save):
    """Every element type, and arrays stored in other orders."""
    arrays = {dtype: facts.array_of(dtype) for dtype in objects.DTYPES}
    arrays["complex64"] = facts.array_of("complex64")
    arrays["complex128"] = facts.array_of("complex128")
    for protocol in (2, 4):
        path = "dtypes_p{}.pdparams".format(protocol)
        save(arrays, path, objects.tensors_of(arrays), {}, protocol=protocol)
    tensors = {name: tensor(array) for name, array in arrays.items()}
    table = {name: value.name for name, value in tensors.items()}
    metadata = {"StructuredToParameterName@@": table}
    save(tensors, "tensors.pdparams", objects.tensors_of(arrays), metadata)
    for protocol in (2, 4):
        path = "orders_p{}.pdparams".format(protocol)
        save(objects.orders(), path, objects.tensors_of(objects.orders()), {}, protocol=protocol)
    if RELEASE >= "3":
        return
    # Only bytes that are encoded as two in the text of protocol 2, in several parts.
    long = {"long": (np.arange(100_000) * 7919 % 251).astype("uint8"), "after": np.arange(3.0)}
    save(long, "long_p2.pdparams", objects.tensors_of(long), {}, protocol=2)


def make_bfloat16(index, save):
    """Types that the pickle does not record: the bits as integers."""
    bits = facts.bfloat16_bits((2, 4), 5)
    value = tensor(bits, "bfloat16")
    metadata = {"StructuredToParameterName@@": {"w": value.name}}
    save({"w": value}, "bfloat16.pdparams", [facts.dense("w", bits)], metadata)


def make_cut(index, save):
    """Arrays cut into parts by PaddlePaddle's own function, whose limit is lowered."""
    arrays = {
        "small": facts.random_floats((3,), 6),
        "large": facts.random_floats((7, 11), 7),
        "wide": facts.integer_array("int16", (2, 50), 8),
    }
    original = io_utils._unpack_saved_dict
    source_limit = 2**30 - 1

    def lowered(saved, protocol):
        # The limit is a constant of (2^30 - 1) bytes in the code of the function, which is replaced here.
        code = original.__code__
        constants = tuple(100 if c in (source_limit, 2**30) else c for c in code.co_consts)
        function = type(original)(code.replace(co_consts=constants), original.__globals__)
        return function(saved, protocol)

    paddle.framework.io._unpack_saved_dict = lowered
    for protocol in (2, 3):
        path = "cut_p{}.pdparams".format(protocol)
        tensors = {name: tensor(array) for name, array in arrays.items()}
        metadata = {"StructuredToParameterName@@": {name: t.name for name, t in tensors.items()}}
        save(tensors, path, objects.tensors_of(arrays), metadata, protocol=protocol)
        with open(index.path(RELEASE + "/" + path), "rb") as file:
            assert b"UnpackBigParamInfor@@" in file.read()
    paddle.framework.io._unpack_saved_dict = original


def make_python(index):
    """Pickles by Python itself: protocol 5, and values that PaddlePaddle rejects."""
    arrays = objects.orders()
    values = {
        "bytes": b"\x00\xff", "none": b"", "array": bytearray(b"ab"), "set": {3}, "frozen": frozenset([4]),
        "complex": 1 + 2j,
    }
    metadata = {
        "bytes": {"__bytes__": "00ff"}, "none": {"__bytes__": ""}, "array": {"__bytes__": "6162"},
        "set": [3], "frozen": [4], "complex": [1.0, 2.0],
    }
    for protocol in (2, 3, 4, 5):
        path = RELEASE + "/pickle_p{}.pdparams".format(protocol)
        with open(index.path(path), "wb") as file:
            pickle.dump(dict(arrays, **values), file, protocol=protocol)
        index.add(path, objects.FORMAT, objects.tensors_of(arrays), metadata=metadata)


def make_info(index):
    """The file that `jit.save` writes beside combined parameters: names, and no tensors."""
    from paddle.static import InputSpec

    net = Net()
    net.eval()
    prefix = index.path(RELEASE + "/jit/net")
    paddle.jit.save(net, prefix, input_spec=[InputSpec([None, 4])])
    metadata = {
        parameter.name: {
            "structured_name": name,
            "stop_gradient": parameter.stop_gradient,
        }
        for name, parameter in net.state_dict().items()
    }
    for name, parameter in net.named_parameters():
        metadata[parameter.name]["trainable"] = parameter.trainable
    for extension in ("pdmodel", "pdiparams"):
        os.remove(prefix + "." + extension)
    path = RELEASE + "/jit/net.pdiparams.info"
    index.add(path, objects.FORMAT, [], metadata=metadata)


def main(out_dir):
    paddle.seed(1)
    index = facts.Index(out_dir, SCRIPT, FRAMEWORK)

    def save(value, name, tensors, metadata, **more):
        path = RELEASE + "/" + name
        paddle.save(value, index.path(path), **more)
        index.add(path, objects.FORMAT, tensors, metadata=metadata)

    make_state(index, save)
    make_objects(index, save)
    make_arrays(index, save)
    make_bfloat16(index, save)
    make_cut(index, save)
    make_python(index)
    if RELEASE < "3":
        make_info(index)
    index.write()


if __name__ == "__main__":
    main(sys.argv[1])

"""Adds the operators of the installed MXNet to `mxnet_operators.tsv`, beside this script.

    python make_mxnet_operators.py

Run once with each release (0.9.5.post2, 0.11.0, 1.5.1, 1.9.1, 2.0.0b1); the order does not matter.
Everything comes out of the library itself: the registry says the names, aliases and arguments, and
a node of each operator that can be made without knowing more says its variables and outputs.

One line an operator: its name, the name it is an alias of (or nothing), the releases that have it,
its inputs, those of its inputs that it changes (auxiliary states), and its outputs where they are
not called `output`, or `output0`, `output1`, ... if there are several; a 1 there says that the first
of several is called `output`.
"""
import ctypes
import json
import os

import mxnet
from mxnet.base import _LIB, check_call

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mxnet_operators.tsv")
RELEASES = ["0.9.5", "0.11.0", "1.5.1", "1.9.1", "2.0.0b1"]
RELEASE = mxnet.__version__.replace("0.9.5-2", "0.9.5").replace("2.0.0beta1", "2.0.0b1")

# What operators may need to be made, and what shows all of their outputs.
ATTEMPTS = [
    {},
    {"output_mean_var": "True"},
    {"output_mean_var": "True", "key_var_num": "1"},
    {"num_args": "2"},
    {"num_hidden": "2"},
    {"num_filter": "2", "kernel": "(1, 1)"},
    {"num_filter": "2", "kernel": "(1, 1)", "no_bias": "False"},
    {"kernel": "(1, 1)", "num_filter": "2", "num_group": "1", "num_deformable_group": "1"},
    {"act_type": "relu"},
    {"kernel": "(2, 2)"},
    {"kernel": "(2, 2)", "pool_type": "max"},
    {"act_type": "rrelu"},
    {"act_type": "prelu"},
    {"state_size": "2", "num_layers": "1", "mode": "lstm", "state_outputs": "True"},
    {"num_outputs": "2"},
    {"num_weights": "1", "lrs": "0.1", "wds": "0.1"},
    {"lr": "0.1"},
    {"input_dim": "2", "output_dim": "2"},
    {"scale": "2", "sample_type": "nearest", "num_args": "1"},
    {"scale": "2", "sample_type": "bilinear", "num_args": "1", "num_filter": "2"},
    {"transform_type": "affine"},
    {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(2, 2)"},
    {"pooled_size": "(2, 2)", "spatial_scale": "1.0"},
    {"spatial_scale": "1.0", "output_dim": "2", "pooled_size": "2"},
    {"scalar": "1.0"},
    {"axis": "0"},
    {"shape": "(2,)"},
    {"nsize": "3"},
    {"dtype": "float32"},
]


def c_string(text):
    return ctypes.c_char_p(text.encode())


def registered():
    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return [names[index].decode() for index in range(size.value)]


def describe(name):
    """The handle of an operator, its real name, and the names of its inputs."""
    handle, real, text = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_char_p()
    key, result, count = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_uint()
    lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    check_call(_LIB.NNGetOpHandle(c_string(name), ctypes.byref(handle)))
    arguments = [ctypes.byref(real), ctypes.byref(text), ctypes.byref(count)]
    arguments += [ctypes.byref(one) for one in lists] + [ctypes.byref(key), ctypes.byref(result)]
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, *arguments))
    pairs = [(lists[0][i].decode(), lists[1][i].decode()) for i in range(count.value)]
    inputs = [name for name, kind in pairs if "Symbol" in kind.split(",")[0]]
    several = [name + "*" for name, kind in pairs if "Symbol[]" in kind.split(",")[0]]
    names = [name for name in inputs if name + "*" not in several] + several
    return handle, real.value.decode(), names


def compose(handle, attributes):
    """A node called `n` of an operator: its variables and outputs; None if it cannot be made."""
    keys = (ctypes.c_char_p * len(attributes))(*[key.encode() for key in attributes])
    values = (ctypes.c_char_p * len(attributes))(*[v.encode() for v in attributes.values()])
    symbol = ctypes.c_void_p()
    size = ctypes.c_uint(len(attributes))
    if _LIB.MXSymbolCreateAtomicSymbol(handle, size, keys, values, ctypes.byref(symbol)):
        return None
    none = ctypes.POINTER(ctypes.c_char_p)()
    handles = ctypes.POINTER(ctypes.c_void_p)()
    if _LIB.NNSymbolCompose(symbol, c_string("n"), ctypes.c_uint(0), none, handles):
        return None

    def listed(function):
        size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
        check_call(function(symbol, ctypes.byref(size), ctypes.byref(names)))
        return [names[index].decode() for index in range(size.value)]

    text = ctypes.c_char_p()
    if _LIB.MXSymbolSaveToJSON(symbol, ctypes.byref(text)):
        return None
    graph = json.loads(text.value.decode())
    rows = graph["node_row_ptr"]
    outputs = [name[2:] for name in listed(_LIB.MXSymbolListOutputs) if name.startswith("n_")]
    auxiliary = [name[2:] for name in listed(_LIB.MXSymbolListAuxiliaryStates)]
    variables = [node["name"][2:] for node in graph["nodes"] if node["op"] == "null"]
    return variables, auxiliary, outputs, rows[-1] - rows[-2]


def usual(outputs):
    return outputs == ["output"] or outputs == ["output%d" % i for i in range(len(outputs))]


def probe(name):
    """Real name, inputs, auxiliary states and outputs of an operator, as columns."""
    handle, real, inputs = describe(name)
    auxiliary, outputs, fewer = [], [], ""
    for attributes in ATTEMPTS:
        made = compose(handle, attributes)
        if made is None:
            continue
        variables, more, names, total = made
        auxiliary = more or auxiliary
        if len(variables) > len(inputs) and not any(one.endswith("*") for one in inputs):
            inputs = variables
        if not usual(names) and len(names) > len(outputs):
            outputs = names
        # MXNet numbers outputs if there are several, unless the operator names them.
        if names == ["output"] and total > 1:
            fewer = "1"
    if auxiliary and not set(auxiliary) & set(inputs):
        inputs = inputs + auxiliary
    return [real, " ".join(inputs), " ".join(auxiliary), " ".join(outputs) or fewer]


def probe_apart(name):
    """The same in a process of its own: some operators bring it down when they are made bare."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.write(writer, json.dumps(probe(name)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if text:
        return json.loads(text)
    _, real, inputs = describe(name)
    return [real, " ".join(inputs), "", ""]


def main():
    table = {}
    if os.path.exists(TABLE):
        with open(TABLE) as file:
            for line in file.read().splitlines():
                name, real, releases, inputs, auxiliary, outputs = line.split("\t")
                table[name] = [real, set(releases.split()), inputs, auxiliary, outputs]
    for name in registered():
        real, inputs, auxiliary, outputs = probe_apart(name)
        known = table.setdefault(name, ["", set(), "", "", ""])
        known[1].add(RELEASE)
        # What newer releases say stays; older ones fill in what those no longer have.
        latest = RELEASE == max(known[1], key=RELEASES.index)
        if latest:
            # An operator of its own may have been an alias before.
            known[0] = real if real != name else ""
        for column, said in [(2, inputs), (3, auxiliary), (4, outputs)]:
            if said and (latest or not known[column]):
                known[column] = said
    with open(TABLE, "w") as file:
        for name, (real, releases, inputs, auxiliary, outputs) in sorted(table.items()):
            ordered = " ".join(sorted(releases, key=RELEASES.index))
            file.write("\t".join([name, real, ordered, inputs, auxiliary, outputs]) + "\n")


main()

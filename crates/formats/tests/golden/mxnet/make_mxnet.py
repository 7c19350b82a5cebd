"""Writes the golden files of the installed MXNet.

    python make_mxnet.py OUT_DIR

Run once with each of

    mxnet==0.9.5.post2 "numpy<1.20"    Python 3.7: V0, no 64-bit and 8-bit signed integers
    mxnet==0.11.0 "numpy<1.20"         Python 3.7: V1
    mxnet==1.5.1 "numpy<1.20"          Python 3.7: V2, sparse arrays
    mxnet==1.9.1 numpy==1.23.5         Python 3.11: V2 and V3, subgraphs
    mxnet==2.0.0b1 "numpy<1.24"        Python 3.8: NumPy archives

The program in the format of 0.8, for which there is no package, is rewritten from that of 1.9.1; its facts are those
that 1.9.1 reports.
"""

import ctypes
import json
import os
import sys

import mxnet as mx
import numpy as np
from mxnet import nd
from mxnet import sym as S
from mxnet.base import _LIB, c_array, c_str, check_call

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "paddle"))
import facts

RELEASE = mx.__version__.replace("0.9.5-2", "0.9.5").replace("2.0.0beta1", "2.0.0b1")
NUMPY = RELEASE.startswith("2")
DTYPES = "float32 float64 float16 uint8 int32 int8 int64".split()
DENSE = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 5]], "float32")


def array_of(dtype):
    return facts.array_of(dtype)


def dense(name, array, dtype=None):
    return facts.dense(name, np.asarray(array), dtype)


def numbers(array):
    array = array.asnumpy()
    return [array.dtype.name, [int(number) for number in array]]


def sparse(name, array):
    """Returns the facts of a sparse array, from MXNet's description of its parts."""
    case = facts.dense(name, array.data.asnumpy())
    case["kind"] = array.stype
    case["shape"] = list(array.shape)
    case["parts"] = {"indices": numbers(array.indices)}
    if array.stype == "csr":
        case["parts"]["indptr"] = numbers(array.indptr)
    return case


def operator(name, inputs, **attributes):
    """Runs an operator that the Python layer does not offer."""
    from mxnet._ctypes import ndarray as calls

    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(c_str(name), ctypes.byref(handle)))
    keys, values = list(attributes), [str(value) for value in attributes.values()]
    return calls._imperative_invoke(handle.value, inputs, keys, values, None, False, False)


def made(dtype):
    """Returns an MXNet array and its facts."""
    if dtype == "bfloat16":
        values = facts.random_floats((3, 5), 7)
        bits = (values.view("uint32") >> 16).astype("uint16")
        exact = (bits.astype("uint32") << 16).view("float32")
        return operator("amp_cast", [nd.array(exact)], dtype="bfloat16"), bits
    array = array_of(dtype)
    if dtype == "bool":
        return mx.np.array(array, dtype="bool").as_nd_ndarray(), array
    return nd.array(array, dtype=dtype), array


def make_arrays(index):
    dtypes = [dtype for dtype in DTYPES if RELEASE != "0.9.5" or dtype not in ("int8", "int64")]
    if RELEASE == "1.9.1":
        dtypes += ["bool", "bfloat16"]
    named, described = {}, []
    for dtype in dtypes:
        array, values = made(dtype)
        path = "%s/%s.params" % (RELEASE, dtype)
        nd.save(index.path(path), [array])
        index.add(path, "mxnet-params", [dense("", values, dtype)])
        named["arg:" + dtype] = array
        described.append(dense("arg:" + dtype, values, dtype))
    # Dicts keep the order in which they were filled since Python 3.7.
    path = "%s/dict.params" % RELEASE
    nd.save(index.path(path), named)
    index.add(path, "mxnet-params", described)
    shapes = {"one": (1,), "deep": (2, 1, 3, 1, 2), u"na\u00efve/\u5c42.0": (4,), "with space": (2, 2)}
    arrays = {name: facts.random_floats(shape, 3) for name, shape in shapes.items()}
    path = "%s/names.params" % RELEASE
    nd.save(index.path(path), {name: nd.array(array) for name, array in arrays.items()})
    index.add(path, "mxnet-params", [dense(name, array) for name, array in arrays.items()])


def make_sparse(index):
    rows = np.zeros((6, 3), "float32")
    rows[[1, 4]] = facts.random_floats((2, 3), 1)
    arrays = {
        "dense": nd.array(DENSE),
        "rows": nd.array(rows).tostype("row_sparse"),
        "csr": nd.array(DENSE).tostype("csr"),
        "csr64": nd.array(DENSE, dtype="float64").tostype("csr"),
        "no rows": nd.sparse.zeros("row_sparse", (5, 2)),
        "no elements": nd.sparse.zeros("csr", (5, 2)),
    }
    nd.waitall()
    path = "%s/sparse.params" % RELEASE
    kind = "mxnet-npz" if NUMPY else "mxnet-params"
    if NUMPY:
        names = list(arrays)
        handles = c_array(ctypes.c_void_p, [arrays[name].handle for name in names])
        keys = c_array(ctypes.c_char_p, [name.encode() for name in names])
        check_call(_LIB.MXNDArraySave(c_str(index.path(path)), len(names), handles, keys))
    else:
        nd.save(index.path(path), arrays)
    describe = lambda name, array: (
        dense(name, DENSE) if array.stype == "default" else sparse(name, array)
    )
    index.add(path, kind, [describe(*item) for item in arrays.items()])


def make_numpy_shapes(index):
    """Scalars and arrays without elements."""
    path = "%s/scalars.params" % RELEASE
    if not NUMPY:
        # Without NumPy shapes, MXNet writes scalars that it cannot load.
        nd.save(index.path(path), {"a": nd.array(1.5), "b": nd.array([2.5]), "c": nd.array(3.5)})
        values = [dense("a", np.float32(1.5)), dense("b", np.float32([2.5]))]
        index.add(path, "mxnet-params", values + [dense("c", np.float32(3.5))])
    mx.npx.set_np()
    arrays = {
        "scalar": mx.np.array(3.5),
        "empty": mx.np.zeros((0, 4)),
        "matrix": mx.np.array(facts.random_floats((2, 3), 1)),
        "bool": mx.np.array([True, False, True], dtype="bool"),
    }
    values = {
        "scalar": np.float32(3.5),
        "empty": np.zeros((0, 4), "float32"),
        "matrix": facts.random_floats((2, 3), 1),
        "bool": np.array([True, False, True]),
    }
    if NUMPY:
        for dtype in "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float64".split():
            values[dtype] = np.array([1, 0, 3], dtype)
            arrays[dtype] = mx.np.array(values[dtype], dtype=dtype)
    described = [dense(name, array) for name, array in values.items()]
    path = "%s/numpy.params" % RELEASE
    (mx.npx.savez(index.path(path), **arrays) if NUMPY else mx.npx.save(index.path(path), arrays))
    index.add(path, "mxnet-npz" if NUMPY else "mxnet-params", described)
    if NUMPY:
        # The form of 1.x, with the types that only 2.x has.
        path = "%s/own.params" % RELEASE
        nd.save(index.path(path), {name: array.as_nd_ndarray() for name, array in arrays.items()})
        index.add(path, "mxnet-params", described)
    mx.npx.reset_np()


def network():
    data = S.Variable("data")
    net = S.Convolution(data, num_filter=4, kernel=(3, 3), pad=(1, 1), name="c1")
    net = S.BatchNorm(net, name="bn1", fix_gamma=False)
    net = S.Activation(net, act_type="relu", name="relu1")
    net = S.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool1")
    net = S.FullyConnected(S.Flatten(net, name="flat"), num_hidden=3, name="fc1")
    return S.SoftmaxOutput(net, name="softmax")


def describe_symbol(symbol):
    nodes = json.loads(symbol.tojson())["nodes"]
    variables = symbol.list_arguments() + symbol.list_auxiliary_states()
    return {
        "operators": [[node["op"] for node in nodes if node["op"] != "null"]],
        "outputs": symbol.list_outputs(),
        "variables": sorted(variables),
    }


def make_checkpoint(index):
    """Returns a module after a little training, and its state after two epochs."""
    images = facts.random_floats((8, 1, 8, 8), 1)
    labels = (np.arange(8) % 3).astype("float32")
    module = mx.mod.Module(network(), context=mx.cpu())
    batches = mx.io.NDArrayIter(images, labels, 4)
    module.bind(batches.provide_data, batches.provide_label)
    mx.random.seed(3)
    np.random.seed(3)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(kvstore=None, optimizer="sgd")
    directory = "%s/module" % RELEASE
    prefix = os.path.join(os.path.dirname(index.path(directory + "/net-symbol.json")), "net")
    for epoch in (1, 12):
        batches.reset()
        for batch in batches:
            module.forward(batch, is_train=True)
            module.backward()
            module.update()
        module.save_checkpoint(prefix, epoch)
        arguments, states = module.get_params()
        described = [dense("arg:" + name, a.asnumpy()) for name, a in arguments.items()]
        described += [dense("aux:" + name, a.asnumpy()) for name, a in states.items()]
        # Older releases write dicts in another order.
        names = list(nd.load(prefix + "-%04d.params" % epoch))
        described.sort(key=lambda case: names.index(case["name"]))
        path = "%s/net-%04d.params" % (directory, epoch)
        index.add(path, "mxnet-params", described)
    facts_of_symbol = describe_symbol(module.symbol)
    files = [directory + "/net-symbol.json", directory + "/net-0012.params"]
    index.add(directory, "mxnet", described, files, inputs=["data"], **facts_of_symbol)


def make_symbols(index):
    """Programs alone."""
    data = S.var("data", shape=(0, 3))
    loop = S.contrib.foreach(lambda x, s: (x + s, x + s), data, S.var("s0"))[0]
    branch = S.contrib.cond(S.var("p") < 1, lambda: data * 2, lambda: data + 1)
    two = S.Group([S.softmax(data, name="soft"), S.topk(data, k=2, ret_typ="both", name="top")])
    split = S.Group(list(S.split(data, num_outputs=3, axis=1, name="parts")))
    odd = S.var('quote" and \\ back')
    odd = S.FullyConnected(odd, num_hidden=2, name="new\nline\ttab", attr={"__note__": "na\u00efve"})
    shared = S.FullyConnected(data, S.var("w"), num_hidden=3, no_bias=True, name="same")
    shared = S.FullyConnected(shared, S.var("w"), num_hidden=3, no_bias=True, name="same")
    many = S.add_n(*[S.var("v%d" % number) for number in range(12)], name="sum")
    programs = {"foreach": loop, "cond": branch, "group": two, "split": split, "odd": odd,
                "shared": shared, "many": many}
    for name, symbol in programs.items():
        path = "%s/%s-symbol.json" % (RELEASE, name)
        symbol.save(index.path(path))
        case = describe_symbol(symbol)
        if name in ("foreach", "cond"):
            del case["operators"]
        index.add(path, "mxnet-symbol", [], **case)


def make_symbol_0_8(index):
    """Rewrites the program of a checkpoint to the form that 0.8 wrote."""
    graph = json.loads(network().tojson())
    dropped = [n for n, node in enumerate(graph["nodes"]) if node["name"].startswith("bn1_moving")]
    number = {old: new for new, old in enumerate(
        old for old in range(len(graph["nodes"])) if old not in dropped)}
    nodes = []
    for old, node in enumerate(graph["nodes"]):
        if old in dropped:
            continue
        inputs = [[number[entry[0]], entry[1]] for entry in node["inputs"] if entry[0] in number]
        user = {"c1": {"weight_lr_mult": "1.2", "ctx_group": "one"}}.get(node["name"])
        made = {"op": node["op"], "param": node.get("attrs", {}) if node["op"] != "null" else {},
                "name": node["name"], "inputs": inputs, "backward_source_id": -1}
        if user:
            made["attr"] = user
        nodes.append(made)
    old = {"nodes": nodes, "arg_nodes": [n for n, node in enumerate(nodes) if node["op"] == "null"],
           "heads": [[number[entry[0]], entry[1]] for entry in graph["heads"]]}
    path = "early/old-symbol.json"
    with open(index.path(path), "w") as file:
        file.write(json.dumps(old, indent=2))
    symbol = mx.sym.load(index.path(path))
    attributes = {node["name"]: node["attrs"] for node in json.loads(symbol.tojson())["nodes"]
                  if node["name"] in ("c1", "c1_weight", "bn1_moving_var")}
    index.add(path, "mxnet-symbol", [], upgraded=attributes, **describe_symbol(symbol))


def make_gluon(index):
    """A Gluon block, exported and saved."""
    mx.npx.set_np()
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(2, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(3))
    net.initialize()
    net.hybridize()
    net(mx.np.ones((1, 1, 8, 8)))
    directory = "%s/gluon" % RELEASE
    prefix = os.path.join(os.path.dirname(index.path(directory + "/net-symbol.json")), "net")
    symbol, _ = net.export(prefix)
    net.save_parameters(index.path("%s/gluon.params" % RELEASE))
    values = {name: value.data().asnumpy() for name, value in net.collect_params().items()}
    index.add("%s/gluon.params" % RELEASE, "mxnet-npz",
              [dense(name, value) for name, value in values.items()])
    tag = lambda name: ("aux:" if "running" in name else "arg:") + name
    described = [dense(tag(name), value) for name, value in values.items()]
    index.add(directory, "mxnet", described, inputs=["data"],
              **describe_symbol(mx.sym.load(prefix + "-symbol.json")))
    mx.npx.reset_np()


def main(out_dir):
    index = facts.Index(out_dir, "make_mxnet.py with " + RELEASE, "mxnet==" + RELEASE)
    if NUMPY:
        make_sparse(index)
        make_numpy_shapes(index)
        make_gluon(index)
    else:
        make_arrays(index)
        make_checkpoint(index)
    if RELEASE in ("1.5.1", "1.9.1"):
        make_sparse(index)
    if RELEASE == "1.9.1":
        make_symbols(index)
        make_symbol_0_8(index)
        make_numpy_shapes(index)
    index.write()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

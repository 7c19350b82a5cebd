"""Writes programs of operators that no other case has, and what MXNet returns, to the current directory.

    pip install mxnet==1.9.1 numpy==1.23.5 && MXNET_MKLDNN_ENABLED=0 python make_rules.py
    pip install mxnet==2.0.0b1 numpy==1.23.5 && python make_rules.py

The second release has operators of its own. Random operators draw from distributions of one number.
"""

import ctypes
import json

import mxnet as mx
import numpy as np

rng = np.random.RandomState(0)
IS_LATER = mx.__version__.startswith("2")


def R(*shape):
    return rng.randn(*shape).astype("f")


def save(name, y, given, found):
    y.save(name + "-symbol.json")
    outputs = {f"out:{i}:{n}": it.asnumpy() for i, (n, it) in enumerate(zip(y.list_outputs(), found))}
    np.savez(name + "-io.npz", **{"in:" + key: it for key, it in given.items()}, **outputs)


def write(name, arrays, ops, state={}, rows=(), run=None):
    """`ops` are operators, the names of their inputs, attributes, and the number of outputs.

    `rows` are inputs stored as sparse rows. `run` returns the outputs of operators that a symbol cannot run.
    """
    given, arrays = arrays, {**arrays, **state}
    nodes = [{"op": "null", "name": name, "inputs": []} for name in arrays]
    index = {name: number for number, name in enumerate(arrays)}
    heads = []
    for number, (op, inputs, attributes, outputs) in enumerate(ops):
        heads += [[len(nodes), output, 0] for output in range(outputs)]
        nodes.append({
            "op": op,
            "name": f"y{number}",
            "attrs": {key: str(value) for key, value in attributes.items()},
            "inputs": [[index[it], 0, 0] for it in inputs],
        })
    version = ["int", 20000 if IS_LATER else 10901]
    graph = {
        "nodes": nodes,
        "arg_nodes": list(range(len(arrays))),
        "heads": heads,
        "attrs": {"mxnet_version": version},
    }
    read = mx.sym.fromjson if IS_LATER else mx.sym.load_json
    y = read(json.dumps(graph))
    args = {key: mx.nd.array(it, dtype=it.dtype) for key, it in given.items()}
    held = {key: mx.nd.array(it) for key, it in state.items()}
    args |= {key: args[key].tostype("row_sparse") for key in rows}
    bind = y._bind if IS_LATER else y.bind
    if run is None:
        found = bind(mx.cpu(), args, aux_states=held, grad_req="null").forward(is_train=False)
    else:
        found = run(**args)
    mx.nd.save(name + "-0000.params", {"aux:" + key: it for key, it in held.items()})
    save(name, y, given, found)


if IS_LATER:
    write("rules_later", {"x": R(2, 1, 4)}, [
        ("log_sigmoid", ["x"], {}, 1),
        ("mish", ["x"], {}, 1),
        ("_npi_copy", ["x"], {}, 1),
        ("_npi_squeeze", ["x"], {"axis": 1}, 1),
        ("_npi_transpose", ["x"], {"axes": (2, 0, 1)}, 1),
    ])
    window = {"kernel": (3, 3), "num_filter": 2, "no_bias": True, "num_deformable_group": 1}
    images = {"x": R(1, 2, 5, 5), "o": R(1, 18, 3, 3), "m": R(1, 9, 3, 3), "w": R(2, 2, 3, 3)}
    write("rules_deformable", images, [
        ("_npx_deformable_convolution", ["x", "o", "w"], window, 1),
        ("_npx_modulated_deformable_convolution", ["x", "o", "m", "w"], window, 1),
    ])
else:
    write("rules_passing", {"x": R(2, 3, 4), "z": R(2, 3, 4)}, [
        ("_npx_relu", ["x"], {}, 1),
        ("_npx_sigmoid", ["x"], {}, 1),
        ("_contrib_gradientmultiplier", ["x"], {"scalar": 2}, 1),
        ("_np_copy", ["x"], {}, 1),
        ("_CrossDeviceCopy", ["x"], {}, 1),
        ("_identity_with_attr_like_rhs", ["x", "z"], {}, 1),
        ("cast_storage", ["x"], {"stype": "default"}, 1),
        ("make_loss", ["x"], {}, 1),
        ("_scatter_minus_scalar", ["x"], {"scalar": 2}, 1),
        ("_scatter_plus_scalar", ["x"], {"scalar": 2}, 1),
        ("_npx_reshape", ["x"], {"newshape": (-1, 4)}, 1),
        ("_random_exponential_like", ["x"], {"lam": 1e9}, 1),
        ("_random_normal_like", ["x"], {"loc": 3, "scale": 1e-9}, 1),
        ("_random_normal", [], {"loc": 3, "scale": 1e-9, "shape": (2, 3)}, 1),
        ("_random_uniform_like", ["x"], {"low": 2, "high": 2}, 1),
        ("_random_exponential", [], {"lam": 1e9, "shape": (2, 3)}, 1),
        ("_random_randint", [], {"low": 5, "high": 6, "shape": (2, 3)}, 1),
        ("_random_uniform", [], {"low": 2, "high": 2, "shape": (2, 3)}, 1),
        ("_npi_ones", [], {"shape": (2, 3)}, 1),
        ("_npi_zeros", [], {"shape": (2, 3)}, 1),
    ])
    write("rules_matrices", {"x": R(3, 4), "z": R(3, 2)}, [
        ("_np_diag", ["x"], {"k": 1}, 1),
        ("_np_diagonal", ["x"], {"offset": 1}, 1),
        ("_np_trace", ["x"], {}, 1),
        ("_npi_column_stack", ["x", "z"], {"num_args": 2}, 1),
    ])
    sparse = {"x": rng.rand(3, 4).astype("f")}
    write("rules_sparse", sparse, [("IdentityAttachKLSparseReg", ["x", "a"], {}, 1)], {"a": R(4)})
    write("rules_depth", {"x": R(3, 4), "z": R(3, 4)}, [("_npi_dstack", ["x", "z"], {"num_args": 2}, 1)])
    write("rules_rows", {"x": R(3, 4), "z": R(3, 2)}, [("_npi_hstack", ["x", "z"], {"num_args": 2}, 1)])
    write("rules_types", {"x": R(2, 3), "h": R(2, 3).astype("float16")}, [
        ("amp_multicast", ["x", "h"], {"num_outputs": 2}, 2),
    ])
    draws = {
        "l": np.array([1e9, 2e9], "f"),
        "m": np.array([1, 2], "f"),
        "s": np.array([0, 0], "f"),
        "p": np.array([[0, 1, 0], [0, 0, 1]], "f"),
        "e": np.ones((3, 2), "f"),
    }
    write("rules_draws", draws, [
        ("_sample_exponential", ["l"], {"shape": (3,)}, 1),
        ("_sample_normal", ["m", "s"], {"shape": (3,)}, 1),
        ("_sample_uniform", ["m", "m"], {"shape": (3,)}, 1),
        ("_sample_multinomial", ["p"], {"shape": (3,)}, 1),
        ("_shuffle", ["e"], {}, 1),
    ])
    some = R(5, 3) * np.array([[1], [0], [1], [1], [0]], "f")
    write("rules_sparse_rows", {"x": some, "i": np.array([0, 1, 3]), "f": np.array([2, 3], "f")}, [
        ("_sparse_retain", ["x", "i"], {}, 1),
        ("_sparse_retain", ["x", "f"], {}, 1),
        ("_square_sum", ["x"], {"axis": 0}, 1),
        ("_square_sum", ["x"], {"axis": 1}, 1),
        ("_square_sum", ["x"], {"axis": (1,), "keepdims": True}, 1),
    ], rows=["x"])
    write("rules_nonzero", {"x": some, "i": np.array([0, 3, 0, 5])}, [
        ("_npx_nonzero", ["x"], {}, 1),
        ("_npx_nonzero", ["i"], {}, 1),
    ])
    internal = mx.nd._internal
    write("rules_copied", {"x": R(2, 3)}, [("_copyto", ["x"], {}, 1)], run=lambda x: [internal._copyto(x, out=mx.nd.empty((2, 3)))])
    # The operator writes to its first operand.
    for name, ids, dims in [("rows", [[2, 0]], (2, 3)), ("cells", [[2, 0, 3], [1, 2, 0]], (3,))]:
        write(f"rules_scatter_{name}", {"x": R(4, 3), "v": R(*dims), "i": np.array(ids)}, [
            ("_scatter_set_nd", ["x", "v", "i"], {"shape": (4, 3)}, 1),
        ], run=lambda x, v, i: [internal._scatter_set_nd(x, v, i, shape=(4, 3), out=x)])

    # Operators that MXNet gathers into subgraphs. It writes them to a file, but reads none.
    x, w = mx.sym.var("x"), mx.sym.var("w")
    dense = mx.sym.relu(mx.sym.FullyConnected(x, w, no_bias=True, num_hidden=4, name="dense"), name="relu")
    parts = mx.sym.SliceChannel(dense, num_outputs=2, name="parts")
    whole = mx.sym.exp(parts[0], name="exp") + parts[1]
    names = ["FullyConnected", "relu", "SliceChannel"]
    gathered = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXBuildSubgraphByOpNames(
        whole.handle, b"default", len(names), mx.base.c_str_array(names), ctypes.byref(gathered)
    ))
    cached = mx.sym.Symbol(gathered)
    given = {"x": R(2, 3), "w": R(4, 3)}
    args = {key: mx.nd.array(it) for key, it in given.items()}
    found = cached.bind(mx.cpu(), args, grad_req="null").forward(is_train=False)
    mx.nd.save("rules_cached-0000.params", {})
    save("rules_cached", cached, given, found)

"""Writes programs of operators that no other case has, and what MXNet returns, to the current directory.

    pip install mxnet==1.9.1 numpy==1.23.5 && MXNET_MKLDNN_ENABLED=0 python make_rules.py
    pip install mxnet==2.0.0b1 numpy==1.23.5 && python make_rules.py

The second release has operators of its own. Random operators draw from distributions of one number.
"""

import json

import mxnet as mx
import numpy as np

rng = np.random.RandomState(0)
IS_LATER = mx.__version__.startswith("2")


def R(*shape):
    return rng.randn(*shape).astype("f")


def write(name, arrays, ops, state={}):
    """`ops` are operators, the names of their inputs, attributes, and the number of outputs."""
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
    bind = y._bind if IS_LATER else y.bind
    found = bind(mx.cpu(), args, aux_states=held, grad_req="null").forward(is_train=False)
    y.save(name + "-symbol.json")
    mx.nd.save(name + "-0000.params", {"aux:" + key: it for key, it in held.items()})
    outputs = {f"out:{i}:{n}": it.asnumpy() for i, (n, it) in enumerate(zip(y.list_outputs(), found))}
    np.savez(name + "-io.npz", **{"in:" + key: it for key, it in given.items()}, **outputs)


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

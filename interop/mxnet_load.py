"""Loads files that were written for MXNet with MXNet 1.9.1, and compares the results.

    python mxnet_load.py DIR

DIR/expect.json lists the cases; paths in it are relative to DIR:

    {"cases": [{"load": KIND, "path": PATH, "tensors": [TENSOR, ...], ...}]}

A TENSOR is {"name", "kind", "dtype", "shape", "sha256", "parts"}; the digest is of the values in
raw little-endian bytes, "parts" are the types and values of index arrays. KIND is

- "params": a list or dict of arrays. With "numpy", NumPy shapes are enabled.
- "symbol": a program with its "outputs" and "variables"; "equal" is the path of another file that
  MXNet must read as the same program.
- "checkpoint": a prefix of a program and the parameters of "epoch", run on the arrays of the
  archive "feeds" ("feed_keys" is {variable: key}) and compared with those of "fetch".

Prints a line for each case and then `N passed, M failed`.
"""

import hashlib
import json
import os
import warnings

import mxnet as mx
import numpy as np

import cases
from cases import Mismatch, require

TOLERANCE = 1e-5


def values_of(array):
    """Returns the values of an array; bfloat16 as bits."""
    if array.dtype == np.dtype([("bfloat16", np.uint16)]):
        return array.asnumpy().view("uint16"), "bfloat16"
    values = array.asnumpy()
    return values, values.dtype.name


def compare(array, expected):
    name = expected["name"] or "the array"
    kinds = {"default": "dense"}
    require("kind of " + name, kinds.get(array.stype, array.stype), expected["kind"])
    require("shape of " + name, list(array.shape), expected["shape"])
    stored = array if array.stype == "default" else array.data
    values, dtype = values_of(stored)
    require("dtype of " + name, dtype, expected["dtype"])
    digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
    require("sha256 of " + name, digest, expected["sha256"])
    for part, (dtype, numbers) in expected.get("parts", {}).items():
        found = getattr(array, part).asnumpy()
        require(part + " of " + name, [found.dtype.name, found.tolist()], [dtype, numbers])


def load_params(case, root):
    path = os.path.join(root, case["path"])
    # Types that only 2.x has are not among these cases.
    with mx.util.np_shape(case.get("numpy", False)):
        loaded = mx.nd.load(path)
        if isinstance(loaded, list):
            loaded = [("", array) for array in loaded]
        else:
            loaded = list(loaded.items())
        require("names", [name for name, _ in loaded], [t["name"] for t in case["tensors"]])
        for (_, array), tensor in zip(loaded, case["tensors"]):
            compare(array, tensor)


def load_symbol(case, root):
    symbol = mx.sym.load(os.path.join(root, case["path"]))
    require("outputs", symbol.list_outputs(), case["outputs"])
    variables = sorted(set(symbol.list_arguments() + symbol.list_auxiliary_states()))
    require("variables", variables, sorted(set(case["variables"])))
    if "equal" in case:
        other = mx.sym.load(os.path.join(root, case["equal"]))
        if json.loads(symbol.tojson()) != json.loads(other.tojson()):
            raise Mismatch("MXNet reads a different program than in " + case["equal"])


def load_checkpoint(case, root):
    prefix = os.path.join(root, case["path"])
    symbol, arguments, states = mx.model.load_checkpoint(prefix, case["epoch"])
    with np.load(case["feeds"]) as archive:
        for variable, key in case["feed_keys"].items():
            arguments[variable] = mx.nd.array(archive[key])
    executor = symbol.bind(mx.cpu(), arguments, aux_states=states, grad_req="null")
    found = executor.forward(is_train=False)[0].asnumpy()
    with np.load(case["fetch"]) as archive:
        expected = archive[case["fetch_key"]]
    require("shape of the output", found.shape, expected.shape)
    if not np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE):
        raise Mismatch("outputs differ by up to {}".format(np.abs(found - expected).max()))


LOADERS = {"params": load_params, "symbol": load_symbol, "checkpoint": load_checkpoint}


def load(case, root):
    LOADERS[case["load"]](case, root)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cases.run(__doc__, load)

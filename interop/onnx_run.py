"""Runs ONNX's backend test models with the Python package.

    python onnx_run.py [--share N] [--seed SEED]

Each model runs as it is, and after it was written as text and read again. Outputs must equal the recorded ones: element
types and shapes exactly, values to the tolerance of the test, or a few units in the last place of 16-bit floats.
`UNRUN` in `onnx_differences.py` lists the models that are expected to fail, with reasons; one that passes is an error as
well. Of the models of operators, one in N runs; those that PyTorch and others exported all run, with ONNX Runtime too.
"""

import argparse
import glob
import os
import random
import re
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.model import collect_testcases as collect_models
from onnx.backend.test.case.node import collect_testcases as collect_nodes

import lodstone
from onnx_differences import UNRUN

OPSET = 21
"""An opset version that ONNX Runtime implements."""

DATA = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")


def plain(value):
    """Returns a value of ONNX as arrays, lists and dictionaries."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return [plain(one) for one in numpy_helper.to_list(value)]
    if isinstance(value, onnx.OptionalProto):
        return plain(numpy_helper.to_optional(value))
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, dict) else np.asarray(value)


def exported():
    """Yields the exported models of the package: name, model, data sets, relative and absolute tolerance."""
    protos = {"tensor_type": onnx.TensorProto, "sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    for path in sorted(glob.glob(os.path.join(DATA, "*", "*", "model.onnx"))):
        model = onnx.load(path)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in constants]

        def read(directory, kind, values):
            for number, value in enumerate(values):
                proto = protos[value.type.WhichOneof("value")]()
                with open(os.path.join(directory, f"{kind}_{number}.pb"), "rb") as file:
                    proto.ParseFromString(file.read())
                yield plain(proto)

        sets = [
            (list(read(one, "input", inputs)), list(read(one, "output", model.graph.output)))
            for one in sorted(glob.glob(os.path.join(os.path.dirname(path), "test_data_set_*")))
        ]
        yield os.path.basename(os.path.dirname(path)), model, sets, 1e-3, 1e-7


def operators():
    """Yields the models of operators, likewise."""
    for case in collect_nodes(None) + collect_models():
        if case.model is not None and case.data_sets:
            sets = [([plain(one) for one in ins], [plain(one) for one in outs]) for ins, outs in case.data_sets]
            yield case.name, case.model, sets, case.rtol, case.atol


def check(found, expected, rtol, atol):
    """Raises an `AssertionError` if an output is not the recorded one."""
    if expected is None or found is None:
        assert expected is None and found is None, f"{found!r} instead of {expected!r}"
        return
    if isinstance(expected, (list, dict)):
        assert len(found) == len(expected), f"{len(found)} values instead of {len(expected)}"
        if isinstance(expected, dict):
            assert list(found) == list(expected), f"other keys: {list(found)}"
            found, expected = list(found.values()), list(expected.values())
        for one, other in zip(found, expected):
            check(one, np.asarray(other), rtol, atol)
        return
    found = np.asarray(found)
    assert found.shape == expected.shape, f"shape {found.shape} instead of {expected.shape}"
    if expected.dtype.kind in "OSU":
        bare = [one.encode() if isinstance(one, str) else bytes(one) for one in expected.reshape(-1)]
        assert found.reshape(-1).tolist() == bare, f"{found.tolist()} instead of {expected.tolist()}"
        return
    assert found.dtype == expected.dtype, f"{found.dtype} instead of {expected.dtype}"
    # Kernels that round once differ from the reference, which rounds every intermediate result.
    ulps = {"bfloat16": 2**-6, "float16": 2**-8}.get(found.dtype.name, 0)
    rtol, atol = max(rtol, ulps), max(atol, 1e-6)
    if found.dtype.kind not in "biufc":
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol, atol)


def run(model, case):
    """Runs a model on all data sets of its case."""
    _, proto, sets, rtol, atol = case
    constants = {tensor.name for tensor in proto.graph.initializer}
    names = [value.name for value in proto.graph.input if value.name not in constants]
    session = model.session()
    for inputs, outputs in sets:
        found = session.run(dict(zip(names, inputs)))
        assert list(found) == [value.name for value in proto.graph.output], f"outputs {list(found)}"
        for one, expected in zip(found.values(), outputs):
            check(one, expected, rtol, atol)


def fails(case, work, with_runtime):
    """Returns why a case fails, or `None`."""
    name, proto, sets, _, _ = case
    try:
        model = lodstone.open(proto.SerializeToString())
        run(model, case)
        path = os.path.join(work, "written.onnxtxt")
        lodstone.convert(model, path)
        run(lodstone.open(path), case)
        # ONNX Runtime has no implementations of old operators; its locales are those of the system.
        if with_runtime and not name.startswith("test_strnorm_"):
            if max(opset.version for opset in proto.opset_import) < OPSET:
                path = os.path.join(work, "upgraded.onnx")
                lodstone.convert(model, path, opset=OPSET)
                model = lodstone.open(path)
            names = model.session().inputs
            inputs = dict(zip(names, sets[0][0]))
            found = lodstone.compare(model, model, inputs, outputs_only=True, engine_b="onnxruntime")
            assert found["same"], f"ONNX Runtime returns other values: {found['values']}"
    except (AssertionError, lodstone.LodstoneError, TypeError, ValueError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return " ".join(lines[:4])[:300]
    return None


def main():
    # Some of the computations overflow on purpose.
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    passed, listed, wrong = 0, 0, []
    cases = [(case, True) for case in exported()]
    cases += [(case, False) for case in operators() if chance.randrange(arguments.share) == 0]
    with tempfile.TemporaryDirectory() as work:
        for case, with_runtime in cases:
            why = fails(case, work, with_runtime)
            is_listed = any(re.search(pattern, case[0]) for pattern, _ in UNRUN)
            if why is None and not is_listed:
                passed += 1
            elif why is not None and is_listed:
                listed += 1
            else:
                wrong.append(f"{case[0]}: {why or 'passes, but is listed in UNRUN'}")
    print(f"{passed} models run and return the recorded outputs, {listed} are listed as different")
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""Checks and runs ONNX models that were upgraded, rewritten, or lowered from Glow.

    python onnx_load.py DIR

DIR/expect.json lists the cases; paths in it are relative to DIR:

    {"cases": [{"load": KIND, "path": PATH, "inputs": ARRAYS, "outputs": ARRAYS}, ...]}

ARRAYS is {name: {"dtype", "shape", "data"}}; instead of both, "data" may be a directory with
`input_0.pb`, .. and `output_0.pb`, .. as in the onnx package. The checker must accept the model with `full_check`. KIND
is "onnxruntime", or "reference" for the evaluator of the onnx package; the outputs must equal those of the original
model. An array that is "quantized" may differ by one; a case may have a "tolerance". If KIND is "text", a file in
protobuf's text format must equal the file "of". Prints a line for each case and then `N passed, M failed`.
"""

import os

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import cases
from cases import Mismatch, require

# Report errors only, not warnings.
onnxruntime.set_default_logger_severity(3)


def arrays(described):
    return {
        name: np.array(array["data"], array["dtype"]).reshape(array["shape"])
        for name, array in described.items()
    }


def recorded(directory, what, names):
    """Returns the arrays of a directory with these names, in order."""
    found = {}
    for index, name in enumerate(names):
        path = os.path.join(directory, "{}_{}.pb".format(what, index))
        with open(path, "rb") as file:
            found[name] = numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
    return found


def of_case(case, path):
    """Returns the inputs and the expected outputs."""
    if "data" not in case:
        return arrays(case["inputs"]), arrays(case["outputs"])
    graph = onnx.load(path).graph
    initialised = {tensor.name for tensor in graph.initializer}
    inputs = [value.name for value in graph.input if value.name not in initialised]
    outputs = [value.name for value in graph.output]
    return recorded(case["data"], "input", inputs), recorded(case["data"], "output", outputs)


def close(found, want, quantized, tolerance):
    if quantized:
        return np.all(np.abs(found.astype("int64") - want.astype("int64")) <= 1)
    if want.dtype.kind not in "fc":
        return np.array_equal(found, want)
    tolerance = tolerance or (2e-3 if want.dtype == np.float16 else 1e-4)
    wide = [array.astype("float64") for array in (found, want)]
    return np.allclose(*wide, tolerance, tolerance, equal_nan=True)


def load(case, root):
    path = os.path.join(root, case["path"])
    if case["load"] == "text":
        if onnx.load(path, format="textproto") != onnx.load(case["of"]):
            raise Mismatch("the text differs from the original")
        return
    onnx.checker.check_model(path, full_check=True)
    inputs, expected = of_case(case, path)
    names = list(expected)
    if case["load"] == "onnxruntime":
        found = onnxruntime.InferenceSession(path).run(names, inputs)
    else:
        found = ReferenceEvaluator(path).run(names, inputs)
    for name, array in zip(names, found):
        want = expected[name]
        require("dtype of " + name, str(array.dtype), str(want.dtype))
        require("shape of " + name, array.shape, want.shape)
        quantized = case.get("outputs", {}).get(name, {}).get("quantized", False)
        if not close(array, want, quantized, case.get("tolerance")):
            raise Mismatch("{} is {}, expected {}".format(name, array.tolist(), want.tolist()))


if __name__ == "__main__":
    cases.run(__doc__, load)

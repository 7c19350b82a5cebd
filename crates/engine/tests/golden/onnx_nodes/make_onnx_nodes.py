"""Writes the models by which the onnx package tests operators, with what goes in and has to come out.

    python make_onnx_nodes.py          # a selection, here
    python make_onnx_nodes.py DIR      # all of them

Run with onnx 1.23.2. Each case is one model. What goes in are initializers by the names of inputs; what has
to come out, computed with NumPy by the package, are initializers named `expected.` and the name of the
output. `index.json` lists the names of the cases.

The selection has up to three cases of each operator, those of the smallest files, and of several modes of an
operator one for each set of attributes while there are less than three. Cases whose values are texts, sequences
or left out are not written, and of those that say an operator in others' words (`_expanded`) none is selected.
"""

import json
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

HERE = os.path.dirname(os.path.abspath(__file__))
EACH = 3
MOST_BYTES = 6000


def tensor(value, name):
    """The tensor of a value, or none if it is no tensor of numbers."""
    if isinstance(value, onnx.TensorProto):
        made = onnx.TensorProto()
        made.CopyFrom(value)
        made.name = name
        return None if made.data_type == onnx.TensorProto.STRING else made
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return None if array.dtype.kind in "OUS" else numpy_helper.from_array(array, name)
    return None


def with_values(case):
    """The model of a case with its values, or none if some are no tensors of numbers."""
    inputs, outputs = case.data_sets[0]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    names = [value.name for value in graph.input] + ["expected." + v.name for v in graph.output]
    values = list(inputs) + list(outputs)
    tensors = [tensor(value, name) for value, name in zip(values, names)]
    if len(names) != len(values) or None in tensors:
        return None
    graph.initializer.extend(tensors)
    return model


def selected(models):
    """A few small cases of each operator, as different as can be."""
    chosen, count, modes = [], {}, set()
    for name, model in sorted(models.items(), key=lambda item: (item[1].ByteSize(), item[0])):
        if "_expanded" in name or len(model.graph.node) != 1:
            continue
        node = model.graph.node[0]
        if node.domain or node.op_type in absent():
            continue
        if node.op_type in count and model.ByteSize() > MOST_BYTES:
            continue
        types = [value.type.tensor_type.elem_type for value in model.graph.input]
        attributes = sorted(attribute.name for attribute in node.attribute)
        mode = (node.op_type, tuple(attributes), len(node.input), len(node.output), tuple(types))
        if count.get(node.op_type, 0) < EACH and mode not in modes:
            modes.add(mode)
            count[node.op_type] = count.get(node.op_type, 0) + 1
            chosen.append(name)
    return sorted(chosen)


def main():
    assert onnx.__version__ == "1.23.2", onnx.__version__
    # Making them overflows here and there on purpose.
    warnings.simplefilter("ignore")
    np.random.seed(0)
    cases = [case for case in collect_testcases(None) if case.model is not None]
    models = {case.name: with_values(case) for case in cases}
    models = {name: model for name, model in models.items() if model is not None}
    directory = sys.argv[1] if len(sys.argv) > 1 else HERE
    names = sorted(models) if len(sys.argv) > 1 else selected(models)
    os.makedirs(directory, exist_ok=True)
    for name in names:
        with open(os.path.join(directory, name + ".onnx"), "wb") as file:
            file.write(models[name].SerializeToString(deterministic=True))
    with open(os.path.join(directory, "index.json"), "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(name) for name in names)
        file.write('{"framework": "onnx==1.23.2", "cases": [\n%s\n]}\n' % lines)
    print("{} of {} cases".format(len(names), len(cases)))


def absent():
    """Operators that there is no kernel for: no case of them is selected."""
    with open(os.path.join(HERE, "absent.tsv"), encoding="utf-8") as file:
        return {line.split("\t")[0] for line in file}


if __name__ == "__main__":
    main()

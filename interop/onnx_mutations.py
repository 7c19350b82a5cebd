"""Mutates models of single operators at random, and compares the findings of ONNX and Lodstone.

    python onnx_mutations.py JUDGE DIR [--seed SEED] [--count COUNT]

`JUDGE` is the example `judge_onnx`, `DIR` an empty directory. The models are those of the node tests of the onnx
package; attributes, types, ranks, dims, constants and numbers of operands are changed. The operator's outputs are not
outputs of the graph, so that their types are not declared. ONNX rejects a model if `check_model(full_check=True)`
fails.

A model passes if both reject it, or if both accept it and Lodstone infers everything that ONNX infers.
`onnx_differences.py` lists deliberate differences.
"""

import argparse
import os
import random
import re
import warnings
from collections import Counter

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from onnx_differences import MUTATIONS
from onnx_judge import findings, full_check, is_less, isolated, judged, types_of

# Number of models that ONNX checks in one process.
PIECE = 50

INTS = [-3, -2, -1, 0, 1, 2, 3, 5]
TEXTS = ["", "none", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "bidirectional", "linear", "constant", "bogus"]
DTYPES = [TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.STRING,
          TensorProto.UINT8, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8]


def seeds():
    """Returns models of one operator that ONNX accepts; small inputs are constants."""
    for case in collect_testcases(None):
        graph = case.model.graph
        inputs = case.data_sets[0][0] if case.data_sets else []
        if len(graph.node) != 1 or len(case.model.functions) > 0:
            continue
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        graph = model.graph
        for output in graph.output:
            output.name = "declared_" + output.name
        del graph.output[:]
        graph.input.append(helper.make_tensor_value_info("unrelated", TensorProto.FLOAT, [1]))
        graph.node.append(helper.make_node("Identity", ["unrelated"], ["done"]))
        if not any(set.domain in ("", "ai.onnx") for set in model.opset_import):
            model.opset_import.append(helper.make_opsetid("", onnx.defs.onnx_opset_version()))
        graph.output.append(helper.make_tensor_value_info("done", TensorProto.FLOAT, [1]))
        values = {}
        for info, value in zip(graph.input, inputs):
            is_small = isinstance(value, np.ndarray) and value.size <= 16 and value.dtype.kind in "iubf"
            if is_small and info.type.WhichOneof("value") == "tensor_type":
                tensor = numpy_helper.from_array(value, info.name)
                if tensor.data_type == info.type.tensor_type.elem_type:
                    values[info.name] = value
        if full_check(model.SerializeToString()) is None:
            yield case.name, model, values


def change_attribute(model, chance):
    node = model.graph.node[0]
    schema = onnx.defs.get_schema(node.op_type, version_of(model, node.domain), node.domain)
    name = chance.choice(sorted(schema.attributes)) if schema.attributes else None
    if name is None:
        return
    kind = schema.attributes[name].type
    known = next((attribute for attribute in node.attribute if attribute.name == name), None)
    if known is not None and chance.random() < 0.2:
        node.attribute.remove(known)
        return
    old = helper.get_attribute_value(known) if known is not None else None
    if kind == onnx.defs.OpSchema.AttrType.INT:
        value = chance.choice(INTS + [TensorProto.DOUBLE, TensorProto.BOOL])
    elif kind == onnx.defs.OpSchema.AttrType.INTS:
        value = changed_list(list(old or []), lambda: chance.choice(INTS), chance)
    elif kind == onnx.defs.OpSchema.AttrType.STRING:
        value = chance.choice(TEXTS)
    elif kind == onnx.defs.OpSchema.AttrType.STRINGS:
        value = changed_list(list(old or []), lambda: chance.choice("abc"), chance)
    elif kind == onnx.defs.OpSchema.AttrType.FLOATS:
        value = changed_list(list(old or []), chance.random, chance)
    elif kind == onnx.defs.OpSchema.AttrType.FLOAT:
        value = chance.random()
    elif kind == onnx.defs.OpSchema.AttrType.TENSOR:
        array = np.zeros([2] * chance.randrange(3), chance.choice(["float32", "int64", "float64", "uint8"]))
        value = numpy_helper.from_array(array)
    else:
        return
    if known is not None:
        node.attribute.remove(known)
    attribute = AttributeProto(name=name, type=kind.value)
    made = helper.make_attribute(name, value, attr_type=kind.value)
    attribute.CopyFrom(made)
    node.attribute.append(attribute)


def changed_list(values, new, chance):
    for _ in range(chance.randrange(1, 3)):
        change = chance.randrange(3)
        if change == 0 or not values:
            values.insert(chance.randrange(len(values) + 1), new())
        elif change == 1:
            del values[chance.randrange(len(values))]
        else:
            values[chance.randrange(len(values))] = new()
    return values


def version_of(model, domain):
    sets = {set.domain: set.version for set in model.opset_import}
    return sets.get(domain, sets.get("ai.onnx", 1))


def tensors_in(model):
    return [info.type.tensor_type for info in model.graph.input[:-1]
            if info.type.WhichOneof("value") == "tensor_type"]


def change_shape(model, chance):
    tensors = tensors_in(model)
    if not tensors:
        return
    shape = chance.choice(tensors).shape
    dims = list(shape.dim)
    way = chance.randrange(5)
    if way == 0 or not dims:
        place = chance.randrange(len(dims) + 1)
        dims.insert(place, onnx.TensorShapeProto.Dimension(dim_value=chance.choice([1, 2, 3])))
    elif way == 1:
        del dims[chance.randrange(len(dims))]
    elif way == 2:
        dims[chance.randrange(len(dims))] = onnx.TensorShapeProto.Dimension()
    elif way == 3:
        dims[chance.randrange(len(dims))] = onnx.TensorShapeProto.Dimension(dim_param="n")
    else:
        dims[chance.randrange(len(dims))] = onnx.TensorShapeProto.Dimension(dim_value=chance.choice([0, 1, 2, 3, 4, 7]))
    del shape.dim[:]
    shape.dim.extend(dims)


def change_dtype(model, chance):
    tensors = tensors_in(model)
    if tensors:
        chance.choice(tensors).elem_type = chance.choice(DTYPES)


def change_operands(model, chance):
    node = model.graph.node[0]
    operands = node.output if chance.random() < 0.3 else node.input
    if not operands:
        return
    way = chance.randrange(4)
    if way == 0:
        operands[chance.randrange(len(operands))] = ""
    elif way == 1:
        del operands[-1]
    elif way == 2 and operands is node.input:
        operands[chance.randrange(len(operands))] = chance.choice(list(node.input))
    elif operands is node.output:
        operands.append("more{}".format(len(operands)))


def fix_values(model, values, chance):
    """Replaces some inputs by initializers, occasionally with other numbers."""
    for name, value in values.items():
        info = next((info for info in model.graph.input if info.name == name), None)
        if info is None or chance.random() < 0.4:
            continue
        value = np.array(value)
        if value.size and chance.random() < 0.3:
            if value.dtype.kind in "if":
                value.flat[chance.randrange(value.size)] = chance.choice(INTS)
            elif value.dtype.kind == "u":
                value.flat[chance.randrange(value.size)] = chance.choice([0, 1, 2])
        model.graph.initializer.append(numpy_helper.from_array(value, name))
        # The constant determines the type.
        model.graph.input.remove(info)


CHANGES = [change_attribute, change_attribute, change_shape, change_shape, change_dtype, change_operands]


def mutated(model, values, chance):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = max(copy.ir_version, 4)
    for _ in range(chance.choice([1, 1, 1, 2])):
        chance.choice(CHANGES)(copy, chance)
    fix_values(copy, values, chance)
    return copy


def judged_by_onnx(models):
    """Returns, for each model, the reason why ONNX rejects it (or None) and the inferred types; None if ONNX aborts."""
    for first in range(0, len(models), PIECE):
        piece = models[first:first + PIECE]
        together = isolated(lambda: [judgement_of(model) for model in piece])
        if together is not None:
            yield from together
        else:
            yield from (isolated(lambda model=model: judgement_of(model)) for model in piece)


def judgement_of(model):
    refused = full_check(model.SerializeToString())
    if refused is not None:
        return [next(line for line in refused.splitlines() if line.strip()), {}]
    return [None, types_of(onnx.shape_inference.infer_shapes(model, data_prop=True))]


def difference(judgement, found):
    """Returns the kind of disagreement and its description, or None if Lodstone agrees with ONNX."""
    (refused, types), own = judgement, findings(found)
    if refused is not None:
        return None if own else ("misses", refused)
    if own:
        return "stricter", "; ".join(own)
    for name, theirs in types.items():
        less = is_less(theirs, found["types"].get(name))
        if less:
            return "less", "{} of `{}`: {}, but ONNX infers {}".format(
                less, name, found["types"].get(name), theirs)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("judge")
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    models = []
    for name, model, values in seeds():
        chance = random.Random("{}/{}".format(name, options.seed))
        for number in range(options.count):
            changed = mutated(model, values, chance)
            path = os.path.join(options.directory, "{}-{}.onnx".format(name, number))
            with open(path, "wb") as file:
                file.write(changed.SerializeToString())
            models.append((path, changed))
    known, failed, refused, aborted = Counter(), 0, 0, 0
    judgements = judged_by_onnx([model for _, model in models])
    own = judged(options.judge, [path for path, _ in models])
    for (path, model), found, judgement in zip(models, own, judgements):
        refused += bool(findings(found))
        if judgement is None:
            aborted += 1
            continue
        differs = difference(judgement, found)
        if differs is None:
            continue
        kind, message = differs
        node = model.graph.node[0]
        line = "{} {}: {}".format(kind, node.op_type, message)
        pattern = next((pattern for pattern, _ in MUTATIONS if re.search(pattern, line)), None)
        known[pattern] += 1
        if pattern is None:
            failed += 1
            print("FAILED {}: {}".format(os.path.basename(path), line))
    print("{} models, {} rejected, {} deliberately different; ONNX aborts on {}, which are not counted".format(
        len(models), refused, sum(known.values()) - failed, aborted))
    print("{} passed, {} failed".format(len(models) - failed - aborted, failed))
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()

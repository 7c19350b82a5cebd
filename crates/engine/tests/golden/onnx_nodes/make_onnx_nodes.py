"""Writes the models by which the onnx package tests operators, with what goes in and has to come out.

    python make_onnx_nodes.py          # a selection, here
    python make_onnx_nodes.py DIR      # all of them

Run with onnx 1.23.2. Each case is one model. What goes in are initializers by the names of inputs; what has
to come out, computed with NumPy by the package, are initializers named `expected.` and the name of the
output. A sequence or an optional value is several initializers, or none: the metadata entry `lodstone.values` has a
JSON object with what each of them is: `{"sequence": [...]}`, `{"optional": null}`, or the name of an initializer.
`index.json` lists the names of the cases.

The selection has up to three cases of each operator, those of the smallest files, and of several modes of an
operator one for each set of attributes while there are less than three. Of the cases that express an operator by others
(`_expanded`), none is selected.
"""

import json
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.model import collect_testcases as collect_models
from onnx.backend.test.case.node import collect_testcases

HERE = os.path.dirname(os.path.abspath(__file__))
EACH = 3
MAX_BYTES = 6000
# Models of several operators, some of which have no case of their own.
SEQUENCES = ["test_sequence_model%d" % number for number in range(1, 9)]
# Modes and element types that the smallest cases do not have.
ALSO = [
    "test_attention_4d_causal_nonpad_attn_mask_composition",
    "test_attention_4d_gqa_causal_nonpad_decode_fp16",
    "test_attention_local_window_gqa_rank4_mask",
    "test_cast_FLOAT16_to_FLOAT4E2M1",
    "test_cast_FLOAT16_to_FLOAT8E4M3FNUZ",
    "test_cast_FLOAT16_to_INT2",
    "test_cast_FLOAT8E4M3FN_to_FLOAT16",
    "test_cast_INT4_to_INT8",
    "test_cast_UINT4_to_UINT8",
    "test_cast_e8m0_FLOAT16_to_FLOAT8E8M0",
    "test_cast_e8m0_FLOAT8E8M0_to_FLOAT16",
    "test_cast_no_saturate_FLOAT16_to_FLOAT8E4M3FN",
    "test_dequantizelinear_e4m3fn",
    "test_dequantizelinear_int4",
    "test_dft_axis",
    "test_dft_inverse",
    "test_dft_irfft",
    "test_einsum_batch_diagonal",
    "test_einsum_batch_matmul",
    "test_equal_int16",
    "test_flexattention_causal_mask",
    "test_image_decoder_decode_png_rgb",
    "test_image_decoder_decode_webp_rgb",
    "test_quantizelinear_float4e2m1",
    "test_quantizelinear_int4",
]


def tensor(value, name):
    """The tensor of a value, or none if it is no tensor."""
    if isinstance(value, onnx.TensorProto):
        made = onnx.TensorProto()
        made.CopyFrom(value)
        made.name = name
        return made
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return numpy_helper.from_array(array.astype(object) if array.dtype.kind in "US" else array, name)
    return None


def structure(value, declared, name, tensors):
    """What a value is, made of the names of tensors, which are appended; `tensors` gets a none for what is none."""
    if declared.WhichOneof("value") == "optional_type":
        if value is None:
            return {"optional": None}
        return {"optional": structure(value, declared.optional_type.elem_type, name, tensors)}
    if declared.WhichOneof("value") == "sequence_type":
        if not isinstance(value, (list, tuple, np.ndarray)):
            tensors.append(None)
            return None
        of = declared.sequence_type.elem_type
        each = [structure(v, of, "%s.%d" % (name, at), tensors) for at, v in enumerate(value)]
        return {"sequence": each}
    tensors.append(tensor(value, name))
    return name


def with_values(case):
    """The model of a case with its values, or none if some are not tensors."""
    inputs, outputs = case.data_sets[0]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    constant = {initializer.name for initializer in graph.initializer}
    given = [value for value in graph.input if value.name not in constant]
    names = [value.name for value in given] + ["expected." + v.name for v in graph.output]
    types = [value.type for value in given + list(graph.output)]
    values = list(inputs) + list(outputs)
    tensors, structures = [], {}
    for value, name, declared in zip(values, names, types):
        made = structure(value, declared, name, tensors)
        if made != name:
            structures[name] = made
    if len(names) != len(values) or None in tensors:
        return None
    graph.initializer.extend(tensors)
    if structures:
        entry = model.metadata_props.add()
        entry.key, entry.value = "lodstone.values", json.dumps(structures, sort_keys=True)
    return model


def selected(models):
    """A few small cases of each operator, as different as can be."""
    chosen, count, modes = [], {}, set()
    for name, model in sorted(models.items(), key=lambda item: (item[1].ByteSize(), item[0])):
        if name in SEQUENCES + ALSO:
            chosen.append(name)
        if name in ALSO or "_expanded" in name or len(model.graph.node) != 1:
            continue
        node = model.graph.node[0]
        if node.op_type in absent():
            continue
        if node.op_type in count and model.ByteSize() > MAX_BYTES:
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
    models = [case for case in collect_models() if case.name in SEQUENCES]
    cases = [case for case in collect_testcases(None) + models if case.model is not None]
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

"""Writes a model with its inputs and the outputs that ONNX Runtime computes, as one file.

Inputs are initializers `input.NAME`, outputs `expected.NAME`. The metadata entry `lodstone.values` describes values other
than tensors, by name: {"map": [keys, values]}, with the names of two tensors, or {"sequence": [..]}.
"""

import json
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

assert onnxruntime.__version__ == "1.31.1"
onnxruntime.set_default_logger_severity(4)

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE,
         np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(np.int64): TensorProto.INT64,
         np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int16): TensorProto.INT16,
         np.dtype(np.uint16): TensorProto.UINT16, np.dtype(np.int8): TensorProto.INT8,
         np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.bool_): TensorProto.BOOL}


def element_type(array):
    return TYPES.get(array.dtype, TensorProto.STRING)


def tensor(name, value):
    if element_type(value) == TensorProto.STRING:
        return helper.make_tensor(name, TensorProto.STRING, value.shape, [str(x).encode() for x in value.ravel()])
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)


def typed(name, value):
    """The declaration of an input or output."""
    if isinstance(value, list):
        inside = typed(name, value[0]).type
        return onnx.ValueInfoProto(name=name, type=helper.make_sequence_type_proto(inside))
    if isinstance(value, dict):
        keys, values = (np.array(list(side)) for side in (value.keys(), value.values()))
        values = values.astype(np.float32) if values.dtype == np.float64 else values
        inside = helper.make_tensor_type_proto(element_type(values), [])
        return onnx.ValueInfoProto(name=name, type=helper.make_map_type_proto(element_type(keys), inside))
    return helper.make_tensor_value_info(name, element_type(value), [None] * np.ndim(value))


def model_of(kind, inputs, domain="", outputs=1, constants=(), version=1, opset=21, empty=(), **attributes):
    """A model of one operator. `None` is an omitted input; inputs listed in `constants` are initializers.
    `outputs` is a number, or a list of names that may be empty."""
    names = ["" if value is None else "x%d" % at for at, value in enumerate(inputs)]
    produced = ["y%d" % at for at in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(kind, names, produced, domain=domain, **attributes)
    values = {name: value for name, value in zip(names, inputs) if name}
    graph = helper.make_graph(
        [node], "case", [typed(name, value) for name, value in values.items() if int(name[1:]) not in constants],
        [onnx.ValueInfoProto(name=name) for name in produced if name],
        [tensor(name, value) for name, value in values.items() if int(name[1:]) in constants])
    sets = [helper.make_opsetid("", opset)]
    if domain:
        sets.append(helper.make_opsetid(domain, version))
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    return model, {name: value for name, value in values.items() if int(name[1:]) not in constants}


def run(model, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return [output.name for output in session.get_outputs()], session.run(None, feed)


def store(name, value, tensors):
    """Adds the tensors of a value; returns its description, `None` for a tensor."""
    if isinstance(value, dict):
        keys, values = (np.array(list(side)) for side in (value.keys(), value.values()))
        values = values.astype(np.float32) if values.dtype == np.float64 else values
        tensors += [tensor(name + ".keys", keys), tensor(name + ".values", values)]
        return {"map": [name + ".keys", name + ".values"]}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {"sequence": [store("%s.%d" % (name, at), one, tensors) for at, one in enumerate(value)]}
    tensors.append(tensor(name, np.asarray(value)))
    return None


def write(directory, name, model, feed, outputs=None):
    """Writes a case. `outputs` are computed by ONNX Runtime unless they are passed."""
    names, values = run(model, feed) if outputs is None else outputs
    tensors, described = [], {}
    for prefix, all_of in (("input.", feed.items()), ("expected.", zip(names, values))):
        for key, value in all_of:
            structure = store(prefix + key, value, tensors)
            if structure is not None:
                described[prefix + key] = structure
    case = onnx.ModelProto()
    case.CopyFrom(model)
    case.graph.initializer.extend(tensors)
    for output, value in zip(case.graph.output, values):
        if not output.HasField("type"):
            output.CopyFrom(typed(output.name, value))
    del case.graph.value_info[:]
    if described:
        helper.set_model_props(case, {"lodstone.values": json.dumps(described)})
    onnx.save(case, os.path.join(directory, name + ".onnx"))

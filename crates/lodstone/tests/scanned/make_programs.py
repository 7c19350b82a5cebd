"""Writes ONNX programs with operators of ONNX Runtime that run other code, for `lodstone scan`.

    pip install onnx==1.23.2
    python make_programs.py

Writes `programs/` beside this script.
"""

import os
import shutil

import onnx
from onnx import TensorProto, helper

HERE = os.path.dirname(os.path.abspath(__file__))
RUNTIME = "com.microsoft"
OPSETS = [("", 17), (RUNTIME, 1), ("org.pytorch.aten", 1), ("own", 1)]
X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
CONDITION = helper.make_tensor_value_info("c", TensorProto.BOOL, [])


def node(kind, domain=RUNTIME, **attributes):
    return helper.make_node(kind, ["x"], ["y"], domain=domain, **attributes)


def model(nodes, inputs=(X,), functions=()):
    graph = helper.make_graph(nodes, "g", list(inputs), [Y])
    opsets = [helper.make_opsetid(*opset) for opset in OPSETS]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)


def main():
    directory = os.path.join(HERE, "programs")
    shutil.rmtree(directory, ignore_errors=True)
    os.mkdir(directory)
    context = node("EPContext", embed_mode=0, ep_cache_context="cache.bin", source="QNN")
    then = helper.make_graph([context], "then", [], [Y])
    otherwise = helper.make_graph([node("Identity", "")], "else", [], [Y])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)
    function = helper.make_function("own", "F", ["x"], ["y"], [context], [helper.make_opsetid(RUNTIME, 1)])
    models = {
        "context": model([context]),
        "context-inside": model([node("EPContext", embed_mode=1, ep_cache_context=b"\x00\x01")]),
        "context-in-a-branch": model([branch], [X, CONDITION]),
        "context-in-a-function": model([node("F", "own")], functions=[function]),
        "aten": model([node("ATen", "org.pytorch.aten", operator="save")]),
        "python": model([node("PythonOp", func_name="posix.mkdir")]),
        "triton": model([node("TritonOp", func_name="f")]),
        "gelu": model([node("Gelu")]),
    }
    for name, value in models.items():
        onnx.save(value, os.path.join(directory, name + ".onnx"))


if __name__ == "__main__":
    main()

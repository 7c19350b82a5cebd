"""Writes quantized ONNX models, with onnx 1.23.2 and numpy:

    python make_onnx_quantized.py DIRECTORY
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node, value = helper.make_node, helper.make_tensor_value_info


def write(name, nodes, inputs, outputs, constants):
    tensors = [numpy_helper.from_array(np.array(array), key) for key, array in constants.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(sys.argv[1], name + ".onnx"))


random = np.random.RandomState(0)
filters = random.randint(-100, 100, (4, 2, 2, 1)).astype(np.int8)
scales = np.array([0.02, 0.03, 0.04, 0.05], np.float32)
around = {
    "xs": np.float32(0.1), "xz": np.int8(3), "ys": np.float32(0.3), "yz": np.int8(-2),
}
read = [
    node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
    node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
]
written = [
    node("QuantizeLinear", ["y", "ys", "yz"], ["yq"]),
    node("DequantizeLinear", ["yq", "ys", "yz"], ["out"]),
]
image = [value("x", TensorProto.FLOAT, [1, 2, 4, 3])]
result = [value("out", TensorProto.FLOAT, [1, 4, 3, 3])]
bias = np.array([1, 2, 3, 4], np.int32)

write("conv", read + [
    node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
    node("DequantizeLinear", ["b", "bs"], ["bd"]),
    node("Conv", ["xd", "wd", "bd"], ["y"], name="conv"),
] + written, image, result, around | {
    "w": filters, "ws": np.float32(0.02), "wz": np.int8(0),
    "b": bias, "bs": np.float32(0.1) * np.float32(0.02),
})
write("conv_channels", read + [
    node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
    node("DequantizeLinear", ["b", "bs", "bz"], ["bd"], axis=0),
    node("Conv", ["xd", "wd", "bd"], ["y"], name="conv"),
] + written, image, result, around | {
    "w": filters, "ws": scales, "wz": np.zeros(4, np.int8),
    "b": bias, "bs": np.float32(0.1) * scales, "bz": np.zeros(4, np.int32),
})
write("conv_groups", read + [
    node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
    node("Conv", ["xd", "wd"], ["y"], name="conv", group=2),
] + written, image, result, around | {
    "w": filters[:, :1].copy(), "ws": scales, "wz": np.zeros(4, np.int8),
})
# The weights are transposed before use, and the bias is a multiple of the scale of the products.
write("conv_moved", read + [
    node("Transpose", ["w"], ["wt"], perm=[0, 3, 1, 2]),
    node("DequantizeLinear", ["wt", "ws", "wz"], ["wd"], axis=0),
    node("Conv", ["xd", "wd", "b"], ["y"], name="conv"),
] + written, image, result, around | {
    "w": filters.transpose(0, 2, 3, 1).copy(), "ws": scales, "wz": np.zeros(4, np.int8),
    "b": bias.astype(np.float32) * (np.float32(0.1) * scales),
})
# The bias does not have the scale of the products: it remains floating-point.
write("conv_other_bias", read + [
    node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
    node("Conv", ["xd", "wd", "b"], ["y"], name="conv"),
] + written, image, result, around | {
    "w": filters, "ws": scales, "wz": np.zeros(4, np.int8),
    "b": np.array([0.1, 0.2, 0.3, 0.4], np.float32),
})
write("topk", [
    node("DequantizeLinear", ["q", "s", "z"], ["d"]),
    node("TopK", ["d", "k"], ["v", "at"], name="topk"),
    node("QuantizeLinear", ["v", "s", "z"], ["vq"]),
], [value("q", TensorProto.INT8, [3, 1, 5])], [
    value("vq", TensorProto.INT8, [3, 1, 3]), value("at", TensorProto.INT64, [3, 1, 3]),
], {"s": np.float32(1.2), "z": np.int8(5), "k": np.array([3], np.int64)})
write("qlinear_conv", [
    node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["out"], name="conv"),
], [value("x", TensorProto.INT8, [1, 2, 4, 3])], [value("out", TensorProto.INT8, [1, 4, 3, 3])],
    around | {"w": filters, "ws": scales, "wz": np.zeros(4, np.int8), "b": bias})
write("qlinear_matmul", [
    node("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["out"], name="matmul"),
], [value("x", TensorProto.INT8, [3, 4])], [value("out", TensorProto.INT8, [3, 2])],
    around | {"w": filters[:, 0, :, 0].copy(), "ws": np.float32(0.2), "wz": np.int8(0)})

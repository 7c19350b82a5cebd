"""Quantizes a small network with PaddlePaddle 2.6.2 in each of its ways, and records the results.

    python make_paddle_quantized.py

Writes `NAME.pdmodel` and `NAME.pdiparams` beside this script, and `cases.json` with the input and the output of each. Paths of
this machine (`op_callstack`) are removed from the programs.
"""
import json
import os
import tempfile

import numpy as np

os.environ["GLOG_minloglevel"] = "3"
import paddle
from paddle import nn
from paddle.base.proto import framework_pb2
from paddle.quantization import PTQ, QAT, QuantConfig
from paddle.quantization.observers import AbsmaxObserver
from paddle.quantization.quanters import FakeQuanterWithAbsMaxObserver
from paddle.static import InputSpec
from paddle.static.quantization import PostTrainingQuantization

HERE = os.path.dirname(os.path.abspath(__file__))
DIMS = [2, 4, 4]
RANDOM = np.random.default_rng(0)
SAMPLES = RANDOM.standard_normal((16, *DIMS)).astype("float32")
INPUT = RANDOM.standard_normal((3, *DIMS)).astype("float32")


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(2, 4, 3, padding=1)
        self.relu = nn.ReLU()
        self.pool = nn.AvgPool2D(2, 2)
        self.flatten = nn.Flatten()
        self.linear = nn.Linear(16, 3)

    def forward(self, x):
        return self.linear(self.flatten(self.pool(self.relu(self.conv(x)))))


def by_layers(directory, quantization, quanter):
    """`paddle.quantization`: observers or quantizers around layers."""
    net = Net()
    config = QuantConfig(activation=None, weight=None)
    config.add_type_config([nn.Conv2D, nn.Linear], activation=quanter, weight=quanter)
    quantizer = quantization(config)
    net.train() if quantization is QAT else net.eval()
    quantized = quantizer.quantize(net)
    for batch in SAMPLES.reshape(4, 4, *DIMS):
        quantized(paddle.to_tensor(batch))
    quantized.eval()
    if quantization is PTQ:
        quantized = quantizer.convert(quantized)
        quantized.eval()
    paddle.jit.save(quantized, os.path.join(directory, "net"), input_spec=[InputSpec([None, *DIMS], "float32", "x")])


class Samples(paddle.io.Dataset):
    def __len__(self):
        return len(SAMPLES)

    def __getitem__(self, number):
        return SAMPLES[number]


def by_program(directory, onnx_format, weights):
    """`PostTrainingQuantization`: operators in a program."""
    paddle.enable_static()
    executor, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.scope_guard(scope), paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, *DIMS], "float32")
        y = Net()(x)
        executor.run(startup)
        source = os.path.join(directory, "source")
        os.makedirs(source)
        paddle.static.save_inference_model(os.path.join(source, "net"), [x], [y], executor, program=main)
        loader = paddle.io.DataLoader(
            Samples(), feed_list=[x], places=[paddle.CPUPlace()], batch_size=4, return_list=False
        )
        quantization = PostTrainingQuantization(
            executor, source, model_filename="net.pdmodel", params_filename="net.pdiparams", data_loader=loader,
            scope=scope, algo="abs_max", batch_nums=4, onnx_format=onnx_format, weight_quantize_type=weights,
            quantizable_op_type=["conv2d", "mul", "matmul_v2"],
        )
        quantization.quantize()
        quantization.save_quantized_model(directory, model_filename="net.pdmodel", params_filename="net.pdiparams")
    paddle.disable_static()


def run(prefix):
    paddle.enable_static()
    executor, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        program, _, fetches = paddle.static.load_inference_model(prefix, executor)
        [y] = executor.run(program, feed={"x": INPUT}, fetch_list=fetches)
    paddle.disable_static()
    return y


def without_paths(model):
    program = framework_pb2.ProgramDesc.FromString(model)
    for block in program.blocks:
        for op in block.ops:
            kept = [attribute for attribute in op.attrs if attribute.name != "op_callstack"]
            del op.attrs[:]
            op.attrs.extend(kept)
    return program.SerializeToString()


def told(array):
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.reshape(-1).tolist(), "lod": []}


MODELS = {
    "observed": lambda directory: by_layers(directory, PTQ, AbsmaxObserver(quant_bits=8)),
    "trained": lambda directory: by_layers(directory, QAT, FakeQuanterWithAbsMaxObserver(moving_rate=0.9)),
    "pairs": lambda directory: by_program(directory, True, "abs_max"),
    "pairs_channels": lambda directory: by_program(directory, True, "channel_wise_abs_max"),
    "integers": lambda directory: by_program(directory, False, "abs_max"),
    "integers_channels": lambda directory: by_program(directory, False, "channel_wise_abs_max"),
}

outputs = {}
for name, make in MODELS.items():
    paddle.seed(7)
    with tempfile.TemporaryDirectory() as directory:
        make(directory)
        prefix = os.path.join(directory, "net")
        y = run(prefix)
        with open(prefix + ".pdmodel", "rb") as file:
            model = without_paths(file.read())
        with open(prefix + ".pdiparams", "rb") as file:
            parameters = file.read()
    for ending, data in [("pdmodel", model), ("pdiparams", parameters)]:
        with open(os.path.join(HERE, f"{name}.{ending}"), "wb") as file:
            file.write(data)
    outputs[name] = told(y)
with open(os.path.join(HERE, "cases.json"), "w") as file:
    json.dump({"input": told(INPUT), "outputs": outputs}, file)
    file.write("\n")

"""Saves models of PaddlePaddle 1.8.5 whose operators compute something else in 2.6.2, with inputs and results.

    python make_paddle_older.py OUT_DIR

Run with Python 3.8, `paddlepaddle==1.8.5`, `protobuf<4` and `numpy<1.24`. A folder for each model: the files of
`save_inference_model`, `in.npz` and `expected.npz`. The folder `faster_rcnn` is not of this script: it is a small network
with the detection head of a Faster R-CNN that 1.8.5 saved, with the results of 1.8.5.
"""
import os
import sys

os.environ["GLOG_minloglevel"] = "3"

import numpy as np
import paddle.fluid as fluid
from paddle.fluid.proto import framework_pb2

layers = fluid.layers


def save(folder, build, inputs):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        read = [fluid.data(name, [-1, *array.shape[1:]], array.dtype.name) for name, array in inputs.items()]
        result = build(*read)
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        values = executor.run(main, feed=inputs, fetch_list=[result])
        fluid.io.save_inference_model(folder, list(inputs), [result], executor, main)
    without_callstacks(os.path.join(folder, "__model__"))
    np.savez(os.path.join(folder, "expected.npz"), **{f"o{at:02d}": value for at, value in enumerate(values)})
    np.savez(os.path.join(folder, "in.npz"), **inputs)


def without_callstacks(path):
    """Removes where the operators were created: files of this machine."""
    with open(path, "rb") as file:
        program = framework_pb2.ProgramDesc.FromString(file.read())
    for op in (op for block in program.blocks for op in block.ops):
        kept = [attribute for attribute in op.attrs if attribute.name != "op_callstack"]
        del op.attrs[:]
        op.attrs.extend(kept)
    with open(path, "wb") as file:
        file.write(program.SerializeToString())


def main(out):
    # Windows that exceed the image, or begin behind it: height, window, stride, padding, `exclusive`.
    random = np.random.RandomState(0)
    for height, size, stride, padding, exclusive in [
        (5, 2, 3, 0, 0), (5, 3, 2, 1, 0), (6, 2, 3, 1, 0), (7, 3, 3, 0, 0), (7, 3, 3, 1, 1),
    ]:
        image = random.randn(1, 2, height, height + 1).astype("float32")
        pool = lambda x: layers.pool2d(x, size, "avg", stride, padding, ceil_mode=True, exclusive=bool(exclusive))
        save(os.path.join(out, f"avg_{height}_{size}_{stride}_{padding}_{exclusive}"), pool, {"x": image})
    left = np.array([[7.5, -7.5, 7.5, -7.5, 1e-30, -0.0, 5, -5]], "float32")
    right = np.array([[2, 2, -2, -2, -3, 3, 5, -5]], "float32")
    for name, dtype in {"mod": "float32", "mod64": "float64", "modi": "int64", "modi32": "int32"}.items():
        scale = 2 if dtype.startswith("int") else 1
        pair = {"x": (left * scale).astype(dtype), "y": right.astype(dtype)}
        save(os.path.join(out, name), layers.elementwise_mod, pair)
    pair = {"x": (left * 2).astype("int64"), "y": right.astype("int64")}
    save(os.path.join(out, "fdi"), layers.elementwise_floordiv, pair)


if __name__ == "__main__":
    main(sys.argv[1])

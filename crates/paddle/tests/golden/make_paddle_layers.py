"""Records the programs that the layers, initializers and control flow of PaddlePaddle 2.6.2 build.

    python make_paddle_layers.py

Writes `paddle_layers.json`, beside this script: for each case the main program and the startup program, and the
variables that its function returns. `layers.rs` builds the same with the layers of this crate.
"""
import json
import os

import numpy as np

os.environ["GLOG_minloglevel"] = "3"
import paddle
import paddle.nn.functional as F
from paddle.nn import initializer
from paddle.static import nn
from paddle.static.nn import control_flow

import paddle_facts

paddle.enable_static()

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def data(name, shape, dtype="float32", lod_level=0):
    return paddle.static.data(name, shape, dtype, lod_level)


def rows():
    return data("x", [-1, 6])


def images(channels=4):
    return data("x", [-1, channels, 8, 8])


@case
def data_of_sequences():
    return data("words", [-1, 1], "int64", 1)


@case
def fc():
    return nn.fc(rows(), 4)


@case
def fc_relu():
    return nn.fc(rows(), 4, activation="relu")


@case
def fc_flattened():
    return nn.fc(data("x", [-1, 3, 5, 2]), 4, num_flatten_dims=2, bias_attr=False)


@case
def fc_from_given():
    # The initial weight is given element by element.
    weight = paddle.ParamAttr(name="w", initializer=initializer.Assign(np.arange(12, dtype="float32").reshape(6, 2)))
    return nn.fc(rows(), 2, weight_attr=weight, bias_attr=paddle.ParamAttr(initializer=initializer.Constant(0.1)))


@case
def conv2d():
    return nn.conv2d(images(), 6, 3)


@case
def conv2d_in_groups():
    return nn.conv2d(images(), 6, [3, 2], stride=2, padding=[1, 2], dilation=[2, 1], groups=2, act="relu")


@case
def conv2d_by_channel():
    return nn.conv2d(images(), 8, 3, groups=4, bias_attr=False)


@case
def pool2d_max():
    return F.max_pool2d(images(), 2)


@case
def pool2d_avg():
    return F.avg_pool2d(images(), [3, 2], stride=[2, 1], padding=1)


@case
def pool2d_global():
    return F.adaptive_avg_pool2d(images(), 1)


@case
def batch_norm():
    return nn.batch_norm(images())


@case
def batch_norm_tests():
    return nn.batch_norm(images(), is_test=True)


@case
def layer_norm():
    return nn.layer_norm(data("x", [-1, 3, 4]))


@case
def layer_norm_of_the_last():
    return nn.layer_norm(data("x", [-1, 3, 4]), begin_norm_axis=2)


@case
def embedding():
    return nn.embedding(data("ids", [-1, 3], "int64"), [10, 4])


@case
def embedding_padded():
    return nn.embedding(data("ids", [-1, 3], "int64"), [10, 4], padding_idx=2)


@case
def dropout():
    return F.dropout(rows(), 0.25)


@case
def dropout_tests():
    return F.dropout(rows(), 0.25, training=False)


@case
def cross_entropy():
    """Like `fluid.layers.cross_entropy` of 1.8.5; 2.6.2 has the operator, but no function."""
    shares, label = data("shares", [-1, 10]), data("label", [-1, 1], "int64")
    block = paddle.static.default_main_program().current_block()
    out, matches, shape = (block.create_var(name=name, dtype="float32") for name in ("out", "matches", "shape"))
    block.append_op(
        type="cross_entropy2",
        inputs={"X": [shares], "Label": [label]},
        outputs={"Y": [out], "MatchX": [matches], "XShape": [shape]},
        attrs={"ignore_index": -100},
    )
    return out


@case
def cross_entropy_of_shares():
    shares, label = data("shares", [-1, 10]), data("label", [-1, 10])
    block = paddle.static.default_main_program().current_block()
    out = block.create_var(name="out", dtype="float32")
    block.append_op(
        type="cross_entropy",
        inputs={"X": [shares], "Label": [label]},
        outputs={"Y": [out]},
        attrs={"soft_label": True, "ignore_index": -100},
    )
    return out


@case
def softmax_with_cross_entropy():
    return F.softmax_with_cross_entropy(data("logits", [-1, 10]), data("label", [-1, 1], "int64"))


@case
def square_error_cost():
    return F.square_error_cost(rows(), data("y", [-1, 6]))


@case
def accuracy():
    return paddle.static.accuracy(data("shares", [-1, 10]), data("label", [-1, 1], "int64"), k=2)


for kind, function in {
    "softmax": F.softmax,
    "relu": F.relu,
    "gelu": F.gelu,
    "tanh": F.tanh,
    "sigmoid": F.sigmoid,
    "mean": paddle.mean,
    "square": paddle.square,
}.items():
    CASES[kind] = lambda function=function: function(rows())


@case
def reshape():
    return paddle.reshape(images(), [0, 4, -1])


@case
def concat():
    return paddle.concat([rows(), data("y", [-1, 3])], axis=1)


@case
def matmul():
    return paddle.matmul(data("x", [2, 3, 4]), data("y", [2, 5, 4]), transpose_y=True)


for kind, function in {
    "add": paddle.add,
    "sub": paddle.subtract,
    "mul": paddle.multiply,
    "div": paddle.divide,
    "max": paddle.maximum,
    "min": paddle.minimum,
    "pow": paddle.pow,
}.items():
    CASES["elementwise_" + kind] = lambda function=function: function(rows(), data("y", [-1, 6]))

for kind in ("sum", "mean", "max", "min", "prod"):
    function = getattr(paddle, kind)
    CASES["reduce_" + kind] = lambda function=function: function(images(), axis=[1, 2], keepdim=True)
    CASES["reduce_" + kind + "_all"] = lambda function=function: function(images())

for kind, made in {
    "constant": initializer.Constant(0.5),
    "uniform": initializer.Uniform(-0.5, 0.25),
    "normal": initializer.Normal(0.1, 0.2),
    "truncated_normal": initializer.TruncatedNormal(0.1, 0.2),
    "xavier_uniform": initializer.XavierUniform(),
    "xavier_normal": initializer.XavierNormal(),
    "kaiming_uniform": initializer.KaimingUniform(),
    "kaiming_normal": initializer.KaimingNormal(),
    "bilinear": initializer.Bilinear(),
}.items():
    for name, shape in {"": [3, 2, 4, 4], "_of_a_matrix": [5, 7], "_of_a_row": [5]}.items():
        if kind != "bilinear" or not name:
            CASES["begins_" + kind + name] = lambda made=made, shape=shape: paddle.create_parameter(
                shape, "float32", default_initializer=made
            )

for dtype in ("float32", "int32"):
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    CASES["begins_given_" + dtype] = lambda values=values: paddle.static.create_parameter(
        list(values.shape), str(values.dtype), attr=paddle.ParamAttr(initializer=initializer.Assign(values))
    )


def number(value, dtype="int64"):
    return paddle.full([1], value, dtype)


@case
def fill_constant():
    return paddle.full([2, 3], 1.5, "float32"), number(7)


@case
def compare():
    x, y = rows(), data("y", [-1, 6])
    kinds = ("less_than", "less_equal", "greater_than", "greater_equal", "equal", "not_equal")
    return [getattr(paddle, kind)(x, y) for kind in kinds]


@case
def logical():
    x, y = data("x", [-1, 6], "bool"), data("y", [-1, 6], "bool")
    return paddle.logical_and(x, y), paddle.logical_or(x, y), paddle.logical_not(x), paddle.logical_xor(x, y)


@case
def increments_and_assigns():
    count = number(1)
    paddle.increment(count, 2)
    return paddle.assign(count), paddle.assign(paddle.cast(count, "int64"), count)


@case
def while_block():
    """A loop whose block changes outer variables: a counter, a sum, and its own condition."""
    count, limit, total = number(0), number(5), paddle.full([1, 6], 0.0)
    x, condition = data("x", [1, 6]), None
    condition = paddle.less_than(count, limit)
    loop = control_flow.While(condition)
    with loop.block():
        twice = paddle.scale(x, 2.0)
        paddle.assign(paddle.add(total, twice), total)
        paddle.increment(count)
        paddle.assign(paddle.less_than(count, limit), condition)
    return total


@case
def while_loop():
    x = data("x", [1, 6])
    grows = lambda count, value: paddle.less_than(count, number(3))
    body = lambda count, value: [paddle.add(count, number(1)), nn.fc(value, 6)]
    return nn.while_loop(grows, body, [number(0), x], is_test=True)


@case
def arrays():
    x, first = rows(), number(0)
    array = paddle.tensor.create_array("float32")
    paddle.tensor.array_write(x, first, array)
    limit = number(4)

    def body(count):
        last = paddle.tensor.array_read(array, count)
        following = paddle.increment(count)
        paddle.tensor.array_write(F.relu(last), following, array)
        return [following]

    nn.while_loop(lambda count: paddle.less_than(count, limit), body, [first])
    return paddle.tensor.array_length(array), paddle.tensor.array_read(array, first)


@case
def cond():
    x, y = rows(), data("y", [1], "float32")
    positive = paddle.greater_than(y, paddle.full([1], 0.0))
    yes = lambda: (nn.fc(x, 3), paddle.scale(x, 2.0))
    no = lambda: (nn.fc(x, 3, activation="tanh"), x)
    return nn.cond(positive, yes, no)


@case
def cond_that_writes():
    x, total = rows(), paddle.full([1], 0.0)
    positive = paddle.greater_than(total, paddle.full([1], 0.0))
    nn.cond(positive, lambda: paddle.assign(paddle.scale(total, 3.0), total) and None, None)
    return total


@case
def cond_in_a_loop():
    count, limit, total = number(0), number(6), number(0)
    half = number(3)

    def body(count, total):
        small = paddle.less_than(count, half)
        step = nn.cond(small, lambda: paddle.add(total, count), lambda: paddle.subtract(total, half))
        return [paddle.increment(count), step]

    return nn.while_loop(lambda count, total: paddle.less_than(count, limit), body, [count, total])


def record(function):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        given = function()
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    programs = {"main": main, "startup": startup}
    facts = {name: paddle_facts.of_program(program) for name, program in programs.items()}
    return {**facts, "gives": [var.name for var in given]}


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_layers.json"), "w") as file:
        lines = (json.dumps(name) + ":" + json.dumps(record(CASES[name]), separators=(",", ":")) for name in CASES)
        file.write("{" + ",\n".join(lines) + "}\n")
    print(len(CASES), "recorded")


if __name__ == "__main__":
    main()

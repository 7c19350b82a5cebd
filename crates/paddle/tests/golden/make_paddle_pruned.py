"""Writes programs of PaddlePaddle 2.6.2, their pruned forms for some results, and these results.

    python make_paddle_pruned.py

Writes the folder `paddle_pruned` beside this script: a folder for each case with the main and the startup program,
and `cases.json`: the inputs, the fetched values, their results in the whole program, the operators that
`Program._prune_with_input` keeps, and whether the pruned program gives the same results.
"""
import json
import os
import shutil

import numpy as np

os.environ["GLOG_minloglevel"] = "3"
import paddle
import paddle.nn.functional as F
from paddle.nn.initializer import Constant
from paddle.static import nn

paddle.enable_static()

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_pruned")
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def data(name="x", shape=(2, 3), dtype="float32"):
    return paddle.static.data(name, list(shape), dtype)


def fc(x, size, start=0.25):
    attr = lambda value: paddle.ParamAttr(initializer=Constant(value))
    return nn.fc(x, size, weight_attr=attr(start), bias_attr=attr(0.5))


def number(value, dtype="int64"):
    return paddle.full([1], value, dtype)


@case
def trained():
    """A loss, its gradients and an optimizer; only the prediction is fetched."""
    x, label = data(), data("label", (2, 1), "int64")
    shares = F.softmax(fc(x, 4))
    loss = paddle.mean(F.softmax_with_cross_entropy(fc(shares, 4), label))
    paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return ["x"], [shares]


@case
def trained_loss():
    x, label = data(), data("label", (2, 1), "int64")
    loss = paddle.mean(F.softmax_with_cross_entropy(fc(x, 4), label))
    paddle.optimizer.Adam(0.1).minimize(loss)
    return ["x", "label"], [loss]


@case
def normalized():
    """The statistics of `batch_norm` are written by the operator that reads them."""
    x = data("x", (2, 3, 2, 2))
    y = nn.batch_norm(nn.conv2d(x, 2, 1, param_attr=paddle.ParamAttr(initializer=Constant(0.5))))
    z = F.relu(y)
    paddle.optimizer.SGD(0.1).minimize(paddle.mean(fc(z, 2)))
    return ["x"], [z]


@case
def counted_before():
    """A counter that is written in place, and then read."""
    x, count = data(), number(1.0, "float32")
    paddle.increment(count, 2.0)
    y = paddle.add(x, count)
    paddle.increment(count, 5.0)
    return ["x"], [y]


@case
def fed_and_changed():
    """An input that is written in place before it is read."""
    x = data("x", (1,))
    paddle.increment(x, 2.0)
    return ["x"], [paddle.scale(x, 3.0)]


@case
def assigned_to_itself():
    x = data()
    y = fc(x, 2)
    paddle.assign(paddle.scale(y, 2.0), y)
    paddle.assign(y, y)
    z = F.relu(y)
    paddle.assign(paddle.scale(y, 100.0), y)
    return ["x"], [z]


@case
def cut():
    """An intermediate value as input: it replaces the operators that compute it."""
    x = data()
    y = fc(x, 2)
    return [y.name], [F.relu(fc(y, 2))]


@case
def looped():
    """A loop with a layer in it, after an unused loop."""
    x, total = data(), paddle.full([2, 3], 0.0)
    idle, count, limit = number(0), number(0), number(3)
    below = lambda count, *_: paddle.less_than(count, limit)
    nn.while_loop(below, lambda idle: [paddle.increment(idle)], [idle])
    factor = paddle.scale(x, 0.5)
    body = lambda count, total: [paddle.increment(count), paddle.add(fc(total, 3), factor)]
    count, total = nn.while_loop(below, body, [count, total])
    return ["x"], [paddle.scale(total, 2.0)]


@case
def looped_and_trained():
    """The gradient of a loop has its own block."""
    x, count, limit = data(), number(0), number(2)
    state = paddle.scale(x, 1.0)
    state.stop_gradient = False
    body = lambda count, state: [paddle.increment(count), F.tanh(fc(state, 3))]
    count, state = nn.while_loop(lambda count, state: paddle.less_than(count, limit), body, [count, state])
    loss = paddle.mean(fc(state, 2))
    paddle.optimizer.SGD(0.1).minimize(loss)
    return ["x"], [state]


@case
def arrays():
    """An array is written member by member: the first members are also needed."""
    x, array = data(), paddle.tensor.create_array("float32")
    first, second = number(0), number(1)
    paddle.tensor.array_write(paddle.scale(x, 2.0), first, array)
    paddle.tensor.array_write(paddle.scale(x, 3.0), second, array)
    length = paddle.tensor.array_length(array)
    return ["x"], [paddle.tensor.array_read(array, first), length]


@case
def branched():
    x, factor = data(), data("factor", (1,))
    positive = paddle.greater_than(factor, number(0.0, "float32"))
    scaled = paddle.multiply(x, factor)
    y = nn.cond(positive, lambda: fc(scaled, 2), lambda: fc(x, 2, 1.0))
    paddle.mean(fc(y, 3))
    return ["x", "factor"], [y]


@case
def written_in_a_branch():
    """A variable that one block may write: its previous value is also needed."""
    x, factor = data(), data("factor", (1,))
    total = fc(x, 2)
    positive = paddle.greater_than(factor, number(0.0, "float32"))
    nn.cond(positive, lambda: paddle.assign(paddle.scale(total, 3.0), total) and None, None)
    return ["x", "factor"], [paddle.scale(total, 2.0)]


@case
def branched_and_trained():
    x, factor = data(), data("factor", (1,))
    positive = paddle.greater_than(factor, number(0.0, "float32"))
    y = nn.cond(positive, lambda: fc(x, 2), lambda: fc(x, 2, 1.0))
    paddle.optimizer.SGD(0.1).minimize(paddle.mean(fc(y, 3)))
    return ["x", "factor"], [y]


@case
def branched_in_a_loop():
    x, total = data(), paddle.full([2, 3], 0.0)
    count, limit, half = number(0), number(4), number(2)

    def body(count, total):
        small = paddle.less_than(count, half)
        step = nn.cond(small, lambda: paddle.add(total, x), lambda: paddle.scale(total, 2.0))
        return [paddle.increment(count), step]

    count, total = nn.while_loop(lambda count, total: paddle.less_than(count, limit), body, [count, total])
    return ["x"], [total]


def told(array):
    array = np.asarray(array)
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.reshape(-1).tolist()}


def given(program, executor, feed, targets):
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor.run(STARTUP[0])
        return executor.run(program, feed=feed, fetch_list=targets)


STARTUP = [None]


def write(program, *names):
    program = program.clone()
    for block in program.blocks:
        for op in block.ops:
            op._remove_attr("op_callstack")
    os.makedirs(os.path.join(OUT, *names))
    with open(os.path.join(OUT, *names, "__model__"), "wb") as file:
        file.write(program.desc.serialize_to_string())


def record(name, function):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        feeds, targets = function()
    targets = [target.name for target in targets]
    random, executor = np.random.RandomState(5), paddle.static.Executor(paddle.CPUPlace())
    values = {}
    for var in main.list_vars():
        if var.desc.need_check_feed() or var.name in feeds:
            size = [2 if dim < 0 else dim for dim in var.shape]
            whole = var.dtype == paddle.int64
            values[var.name] = random.randint(0, 3, size) if whole else random.standard_normal(size).astype("float32")
    STARTUP[0] = startup
    if name == "cut":
        # The whole program would overwrite the input: both are fetched.
        values[feeds[0]], *expected = given(main, executor, values, feeds + targets)
    else:
        expected = given(main, executor, values, targets)
    pruned = main._prune_with_input(list(feeds), list(targets))
    feed = {name: values[name] for name in feeds}
    try:
        found = given(pruned, executor, feed, targets)
        agrees = all(np.array_equal(a, b) for a, b in zip(found, expected))
    except Exception as error:
        agrees = False
    write(main, name, "main")
    write(startup, name, "startup")
    return {
        "feed": {name: told(value) for name, value in feed.items()},
        "gives": {name: told(value) for name, value in zip(targets, expected)},
        "operators": [[[op.type, sorted(op.output_arg_names)] for op in block.ops] for block in pruned.blocks],
        "agrees": agrees,
    }


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    cases = {name: record(name, function) for name, function in CASES.items()}
    with open(os.path.join(OUT, "cases.json"), "w") as file:
        file.write("{" + ",\n".join(json.dumps(name) + ":" + json.dumps(cases[name]) for name in cases) + "}\n")
    for name in cases:
        print(name, "agrees" if cases[name]["agrees"] else "DIFFERS", [len(block) for block in cases[name]["operators"]])


if __name__ == "__main__":
    main()

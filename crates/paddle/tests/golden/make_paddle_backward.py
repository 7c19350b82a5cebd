"""Programs to which PaddlePaddle 2.6.2 has appended gradients.

    python make_paddle_backward.py OUT_DIR

Writes `NAME.pdmodel`, a main program, for each function below; without the operators of the role "backward", it is the
program before gradients were appended.
"""
import os
import sys

os.environ.setdefault("GLOG_minloglevel", "3")

import paddle

static = paddle.static
F = paddle.nn.functional


def data(name, *shape, dtype="float32"):
    return static.data(name, shape, dtype)


def plain():
    x = static.nn.fc(data("x", -1, 3), 4, activation="tanh")
    return paddle.mean(static.nn.fc(x, 1))


def shared():
    """A parameter that is used three times, and a value with two readers."""
    x = data("x", -1, 3)
    w = static.create_parameter([3, 3], "float32", name="w")
    a = paddle.matmul(x, w)
    b = paddle.matmul(F.relu(a), w)
    c = paddle.matmul(b + a, w)
    return paddle.mean(c * b)


def used_twice():
    """A variable in both slots of an operator."""
    x = static.nn.fc(data("x", -1, 3), 3)
    return paddle.mean(paddle.multiply(x, x) + x)


def split():
    """An operator with an unused result."""
    x = static.nn.fc(data("x", -1, 3), 6)
    first, _, last = paddle.split(x, 3, axis=1)
    return paddle.mean(paddle.concat([first, last, first], axis=1))


def stopped():
    x = static.nn.fc(data("x", -1, 3), 3)
    y = static.nn.fc(x, 3)
    y.stop_gradient = True
    return paddle.mean(F.softmax(x) + y)


def digits():
    image, label = data("image", -1, 1, 8, 8), data("label", -1, 1, dtype="int64")
    x = static.nn.conv2d(image, 4, 3, padding=1, act="relu")
    x = static.nn.batch_norm(x)
    x = F.max_pool2d(x, 2, 2)
    x = F.dropout(paddle.flatten(x, 1), 0.25)
    x = static.nn.layer_norm(static.nn.fc(x, 8, activation="gelu"))
    return paddle.mean(F.softmax_with_cross_entropy(static.nn.fc(x, 10), label))


def words():
    ids = data("ids", -1, 5, dtype="int64")
    x = static.nn.embedding(ids, (20, 4))
    x = paddle.transpose(x, [0, 2, 1])
    x = paddle.reshape(x, [0, 20])
    x = paddle.concat([x, F.sigmoid(x)], axis=1)
    return paddle.sum(paddle.square(static.nn.fc(x, 2))) * 0.5


def summed():
    x = static.nn.fc(data("x", -1, 3), 3)
    return paddle.mean(paddle.add_n([x, F.relu(x), paddle.cast(paddle.cast(x, "float64"), "float32")]))


def sentences():
    """Sequences, and selected rows of a table."""
    words = static.data("words", [-1, 1], "int64", lod_level=1)
    x = paddle.reshape(static.nn.embedding(words, (20, 4), is_sparse=True), [-1, 4])
    x = static.nn.sequence_conv(x, 5, 3, act="tanh")
    weights = static.nn.sequence_softmax(static.nn.fc(x, 1))
    pooled = [static.nn.sequence_pool(x * weights, way) for way in ["max", "average"]]
    first = static.nn.sequence_expand(static.nn.sequence_first_step(x), x)
    return paddle.mean(static.nn.fc(pooled, 1)) + paddle.mean(first)


def number(value):
    return paddle.full([1], value, "int64")


def loop():
    """A loop with parameters that are also used after it, and an unused value."""
    x = static.nn.fc(data("x", -1, 3), 3)
    w = static.create_parameter([3, 3], "float32", name="w")
    count = number(4)
    goes_on = lambda n, x, sum, other: paddle.less_than(n, count)
    body = lambda n, x, sum, other: [n + 1, F.tanh(paddle.matmul(x, w)), sum + x * x, other + 1.0]
    _, x, sum, _ = static.nn.while_loop(goes_on, body, [number(0), x, paddle.zeros_like(x), paddle.zeros([1])])
    return paddle.mean(paddle.matmul(x, w) * sum)


def loop_in_loop():
    x = static.nn.fc(data("x", -1, 3), 3)
    w = static.create_parameter([3, 3], "float32", name="w")
    inner_count, count = number(2), number(3)

    def body(n, x):
        goes_on = lambda m, x: paddle.less_than(m, inner_count)
        _, x = static.nn.while_loop(goes_on, lambda m, x: [m + 1, F.tanh(paddle.matmul(x, w))], [number(0), x])
        return [n + 1, x + 1.0]

    _, x = static.nn.while_loop(lambda n, x: paddle.less_than(n, count), body, [number(0), x])
    return paddle.mean(x)


def arrays():
    """A loop that reads one array and writes another."""
    x = static.nn.fc(data("x", -1, 3), 3)
    given = paddle.tensor.array_write(x, number(0))
    paddle.tensor.array_write(F.relu(x), number(1), given)
    made = paddle.tensor.create_array("float32")
    n, count = number(0), number(2)
    goes_on = paddle.less_than(n, count)
    with static.nn.control_flow.While(goes_on).block():
        one = paddle.tensor.array_read(given, n)
        paddle.tensor.array_write(static.nn.fc(one, 2, activation="tanh"), n, made)
        paddle.increment(n)
        paddle.assign(paddle.less_than(n, count), goes_on)
    return paddle.mean(paddle.tensor.array_read(made, number(0)) + paddle.tensor.array_read(made, number(1)))


def branches():
    """A branch with its own parameter, and a branch that returns its input."""
    x = static.nn.fc(data("x", -1, 3), 3)
    y = static.nn.cond(paddle.mean(x) > 0.0, lambda: static.nn.fc(x, 3) * x, lambda: x)
    return paddle.mean(y * x)


def branches_of_two():
    x, z = static.nn.fc(data("x", -1, 3), 3), static.nn.fc(data("z", -1, 3), 3)
    y, _ = static.nn.cond(paddle.mean(x) > 0.0, lambda: (x + z, x), lambda: (F.relu(z), z * 2.0))
    return paddle.mean(y)


def branches_in_loop():
    x = static.nn.fc(data("x", -1, 3), 3)
    w = [static.create_parameter([3, 3], "float32", name=f"w_{n}") for n in range(2)]
    count = number(3)

    def body(n, x):
        is_even = paddle.equal(n % 2, number(0))
        x = static.nn.cond(is_even, lambda: F.tanh(paddle.matmul(x, w[0])), lambda: paddle.matmul(x, w[1]) * x)
        return [n + 1, x]

    _, x = static.nn.while_loop(lambda n, x: paddle.less_than(n, count), body, [number(0), x])
    return paddle.mean(x)


def main(directory):
    paddle.enable_static()
    simple = [plain, shared, used_twice, split, stopped, digits, words, summed, sentences]
    with_blocks = [loop, loop_in_loop, arrays, branches, branches_of_two, branches_in_loop]
    for build in simple + with_blocks:
        program = static.Program()
        with static.program_guard(program, static.Program()), paddle.utils.unique_name.guard():
            static.append_backward(build())
        for block in program.blocks:
            for op in block.ops:
                op._remove_attr("op_callstack")
        with open(os.path.join(directory, f"{build.__name__}.pdmodel"), "wb") as file:
            file.write(program.desc.serialize_to_string())
        print(build.__name__, [[op.type for op in block.ops] for block in program.blocks])


if __name__ == "__main__":
    main(sys.argv[1])

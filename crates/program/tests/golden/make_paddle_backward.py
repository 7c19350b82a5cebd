"""Programs to which PaddlePaddle 2.6.2 has appended gradients.

    python make_paddle_backward.py OUT_DIR

writes `NAME.pdmodel`, a main program, for each function below; the program before it is what is left without the
operators of the role "backward".
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
    """One parameter in three places, and a value that goes two ways."""
    x = data("x", -1, 3)
    w = static.create_parameter([3, 3], "float32", name="w")
    a = paddle.matmul(x, w)
    b = paddle.matmul(F.relu(a), w)
    c = paddle.matmul(b + a, w)
    return paddle.mean(c * b)


def used_twice():
    """One variable in both slots of an operator."""
    x = static.nn.fc(data("x", -1, 3), 3)
    return paddle.mean(paddle.multiply(x, x) + x)


def split():
    """An operator of which one result is not used."""
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


def main(directory):
    paddle.enable_static()
    for build in [plain, shared, used_twice, split, stopped, digits, words, summed]:
        program = static.Program()
        with static.program_guard(program, static.Program()), paddle.utils.unique_name.guard():
            static.append_backward(build())
        for block in program.blocks:
            for op in block.ops:
                op._remove_attr("op_callstack")
        with open(os.path.join(directory, f"{build.__name__}.pdmodel"), "wb") as file:
            file.write(program.desc.serialize_to_string())
        print(build.__name__, [op.type for op in program.global_block().ops])


if __name__ == "__main__":
    main(sys.argv[1])

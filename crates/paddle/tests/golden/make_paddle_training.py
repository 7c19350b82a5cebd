"""Records how training continues in the installed PaddlePaddle (1.8.5 or 2.6.2).

    python make_paddle_training.py OUT_DIR

Writes for each network a folder with the training program, its variables after two steps, in one file, and
`RELEASE.json`: the inputs of five further steps (element type, dims, LoD, elements), and their losses.

Programs have no `op_callstack`, which contains paths of scripts. A second run writes the same, except for the names of
variables that gradients of loops and branches read and write, which PaddlePaddle 2.6.2 chooses arbitrarily.
"""
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("GLOG_minloglevel", "3")
os.environ["FLAGS_cpu_deterministic"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle

IS_OLD = paddle.__version__.startswith("1.8")
if IS_OLD:
    import paddle.fluid as static
    from paddle.fluid.core import Scope
    from paddle.fluid.proto import framework_pb2

    layers, optimizers = static.layers, static.optimizer
    unique_names, program_guard = static.unique_name.guard, static.program_guard
    create_lod_tensor = static.create_lod_tensor
    PLACE = static.CPUPlace()
else:
    from paddle import static
    from paddle.static import Scope
    from paddle.base import create_lod_tensor
    from paddle.base.proto import framework_pb2

    optimizers = paddle.optimizer
    unique_names, program_guard = paddle.utils.unique_name.guard, static.program_guard
    PLACE = paddle.CPUPlace()

BEFORE, AFTER = 2, 5
WORDS = 40


def stripped(program):
    """Returns a program in binary, without paths of scripts."""
    message = framework_pb2.ProgramDesc.FromString(program.desc.serialize_to_string())
    for block in message.blocks:
        for op in block.ops:
            for number in reversed(range(len(op.attrs))):
                if op.attrs[number].name == "op_callstack":
                    del op.attrs[number]
    return message.SerializeToString(deterministic=True)


def eighths(random, *shape):
    """Returns numbers with few decimals."""
    return random.randint(-16, 17, shape).astype("float32") / 8


def images(random, step):
    """Returns eight images, and their digits."""
    return {"image": eighths(random, 8, 1, 12, 12), "label": random.randint(0, 10, (8, 1)).astype("int64")}


def sentences(random, step, lengths):
    """Returns sentences of words, and their classes."""
    lengths = lengths[step % len(lengths)]
    words = random.randint(0, WORDS, (sum(lengths), 1)).astype("int64")
    label = random.randint(0, 2, (len(lengths), 1)).astype("int64")
    return {"words": (words, [lengths]), "label": label}


def some(random, step):
    return sentences(random, step, [[3, 1, 4], [2, 5], [1, 1, 1, 6], [7], [4, 4, 2]])


def some_empty(random, step):
    return sentences(random, step, [[3, 1, 4], [2, 0, 5], [1, 1, 1, 6], [0, 7], [4, 4, 2]])


def numbers(random, step):
    return {"x": eighths(random, 4, 3), "y": eighths(random, 4, 1)}


def counted(random, step):
    return {**numbers(random, step), "count": np.array([3, 1, 4, 2, 2, 5, 3][step:step + 1], "int64")}


def rows(random, step):
    return {"x": eighths(random, 6, 3), "y": eighths(random, 1, 1)}


def old_inputs():
    words = static.data("words", [None, 1], "int64", lod_level=1)
    return words, static.data("label", [None, 1], "int64")


def old_loss(shares, label):
    return layers.mean(layers.cross_entropy(shares, label))


def old_lenet():
    image = static.data("image", [None, 1, 12, 12], "float32")
    label = static.data("label", [None, 1], "int64")
    x = layers.conv2d(image, 4, 3, padding=1)
    x = layers.batch_norm(x, act="relu")
    x = layers.pool2d(x, 2, "max", 2)
    x = static.nets.simple_img_conv_pool(x, 6, 3, 2, 2, act="relu")
    x = layers.fc(x, 12, act="tanh")
    return old_loss(layers.fc(x, 10, act="softmax"), label)


def old_text_lstm():
    words, label = old_inputs()
    x = layers.embedding(words, size=[WORDS, 8], is_sparse=True)
    hidden, _ = layers.dynamic_lstm(layers.fc(x, 4 * 6), 4 * 6, use_peepholes=False)
    back, _ = layers.dynamic_lstm(layers.fc(hidden, 4 * 6), 4 * 6, is_reverse=True)
    pooled = [layers.sequence_pool(hidden, "max"), layers.sequence_pool(back, "sum"), layers.sequence_last_step(hidden)]
    return old_loss(layers.fc(pooled, 2, act="softmax"), label)


def old_text_conv_gru():
    words, label = old_inputs()
    x = layers.embedding(words, size=[WORDS, 8])
    conv = static.nets.sequence_conv_pool(x, 6, 3, act="tanh", pool_type="sqrt")
    hidden = layers.sequence_pool(layers.dynamic_gru(layers.fc(x, 15), 5), "average")
    return old_loss(layers.fc([conv, hidden], 2, act="softmax"), label)


def old_attention():
    words, label = old_inputs()
    x = layers.embedding(words, size=[WORDS, 8], is_sparse=True, padding_idx=0)
    query = layers.sequence_expand(layers.sequence_first_step(x), x)
    weights = layers.sequence_softmax(layers.fc([x, query], 1))
    pooled = layers.sequence_pool(layers.elementwise_mul(x, weights, axis=0), "sum")
    return old_loss(layers.fc(pooled, 2, act="softmax"), label)


def old_dynamic_rnn():
    words, label = old_inputs()
    x = layers.embedding(words, size=[WORDS, 8])
    recurrent = layers.DynamicRNN()
    with recurrent.block():
        word = recurrent.step_input(x)
        before = recurrent.memory(shape=[6], value=0.0)
        state = layers.fc([word, before], 6, act="tanh")
        recurrent.update_memory(before, state)
        recurrent.output(state)
    last = layers.sequence_last_step(recurrent())
    return old_loss(layers.fc(last, 2, act="softmax"), label)


def old_dynamic_rnn_memory():
    """A memory whose initial value is trained, in the order of the ranks."""
    words, label = old_inputs()
    x = layers.embedding(words, size=[WORDS, 8], is_sparse=True)
    first = layers.fc(layers.sequence_pool(x, "average"), 5, act="tanh")
    recurrent = layers.DynamicRNN()
    with recurrent.block():
        word = recurrent.step_input(x)
        still = recurrent.static_input(first)
        before = recurrent.memory(init=first, need_reorder=True)
        state = layers.fc([word, before, still], 5, act="tanh")
        recurrent.update_memory(before, state)
        recurrent.output(state)
    pooled = layers.sequence_pool(recurrent(), "sqrt")
    return old_loss(layers.fc(pooled, 2, act="softmax"), label)


def lenet():
    image = static.data("image", [None, 1, 12, 12], "float32")
    label = static.data("label", [None, 1], "int64")
    x = static.nn.conv2d(image, 4, 3, padding=1, bias_attr=False)
    x = static.nn.batch_norm(x, act="relu")
    x = paddle.nn.functional.max_pool2d(x, 2, 2)
    x = static.nn.batch_norm(static.nn.conv2d(x, 6, 3, act="relu"))
    x = paddle.nn.functional.avg_pool2d(x, 2, 2)
    x = static.nn.fc(x, 12, activation="relu")
    x = paddle.nn.functional.dropout(x, 0.0)
    shares = static.nn.fc(static.nn.fc(x, 12, activation="tanh"), 10, activation="softmax")
    return paddle.mean(paddle.nn.functional.cross_entropy(shares, label, use_softmax=False))



def text_sequences():
    words = static.data("words", [None, 1], "int64", lod_level=1)
    label = static.data("label", [None, 1], "int64")
    x = static.nn.embedding(words, size=[WORDS, 8], is_sparse=True)
    x = paddle.reshape(x, [-1, 8])
    conv = static.nn.sequence_conv(x, 6, 3, act="tanh")
    weights = static.nn.sequence_softmax(static.nn.fc(conv, 1))
    first = static.nn.sequence_expand(static.nn.sequence_first_step(conv), conv)
    pooled = [static.nn.sequence_pool(conv * weights + first, way) for way in ["max", "sum", "average"]]
    shares = static.nn.fc(pooled, 2, activation="softmax")
    return paddle.mean(paddle.nn.functional.cross_entropy(shares, label, use_softmax=False))


def regression(x):
    y = static.data("y", [None, 1], "float32")
    return paddle.mean(paddle.nn.functional.square_error_cost(x, y))


def loop():
    """A number of layers with shared weights."""
    x, count = static.data("x", [None, 3], "float32"), static.data("count", [1], "int64")
    x = static.nn.fc(x, 5)
    weight, bias = paddle.create_parameter([5, 5], "float32"), paddle.create_parameter([5], "float32", is_bias=True)
    number = paddle.zeros([1], "int64")
    goes_on = lambda number, x, sum: paddle.less_than(number, count)
    body = lambda number, x, sum: [number + 1, paddle.tanh(paddle.matmul(x, weight) + bias), sum + x]
    _, x, sum = static.nn.while_loop(goes_on, body, [number, x, paddle.zeros_like(x)])
    return regression(static.nn.fc([x, sum], 1))


def branches():
    x = static.data("x", [None, 3], "float32")
    hidden = static.nn.fc(x, 4, activation="tanh")
    goes = paddle.mean(x) > 0.0
    hidden = static.nn.cond(goes, lambda: static.nn.fc(hidden, 4), lambda: hidden * static.nn.fc(x, 4))
    return regression(static.nn.fc(hidden, 1))


def branches_in_loop():
    """Rows one by one, each with one of two sets of weights."""
    x = static.data("x", [6, 3], "float32")
    number, count = paddle.zeros([1], "int64"), paddle.full([1], 6, "int64")
    state = static.nn.fc(paddle.full([1, 1], 1.0), 4)
    weights = [paddle.create_parameter([7, 4], "float32") for _ in range(2)]

    def body(number, state):
        both = paddle.concat([paddle.gather(x, number), state], 1)
        state = static.nn.cond(
            paddle.equal(number % 2, paddle.zeros([1], "int64")),
            lambda: paddle.tanh(paddle.matmul(both, weights[0])),
            lambda: paddle.nn.functional.sigmoid(paddle.matmul(both, weights[1])) * state,
        )
        return [number + 1, state]

    goes_on = lambda number, state: paddle.less_than(number, count)
    _, state = static.nn.while_loop(goes_on, body, [number, state])
    return regression(static.nn.fc(state, 1))


if IS_OLD:
    clip = static.clip
    NETWORKS = {
        "lenet": (old_lenet, lambda: optimizers.Momentum(0.01, 0.9), images),
        "text_lstm": (old_text_lstm, lambda: optimizers.Adam(0.01), some_empty),
        "text_conv_gru": (old_text_conv_gru, lambda: optimizers.Adagrad(0.1), some_empty),
        "attention": (
            old_attention,
            lambda: optimizers.SGD(0.5, grad_clip=clip.GradientClipByGlobalNorm(0.3)),
            some,
        ),
        "attention_by_value": (
            old_attention,
            lambda: optimizers.SGD(0.5, grad_clip=clip.GradientClipByValue(0.02)),
            some,
        ),
        "dynamic_rnn": (old_dynamic_rnn, lambda: optimizers.SGD(0.1), some),
        "dynamic_rnn_memory": (
            old_dynamic_rnn_memory,
            lambda: optimizers.SGD(0.5, regularization=static.regularizer.L2Decay(0.01)),
            some,
        ),
    }
else:
    nn = paddle.nn
    NETWORKS = {
        "lenet": (lenet, lambda: optimizers.Adam(0.001), images),
        "text_by_global_norm": (
            text_sequences,
            lambda: optimizers.Adam(0.01, grad_clip=nn.ClipGradByGlobalNorm(0.3)),
            some,
        ),
        "text_by_norm": (
            text_sequences,
            lambda: optimizers.SGD(0.5, grad_clip=nn.ClipGradByNorm(0.1), weight_decay=0.1),
            some,
        ),
        "loop": (loop, lambda: optimizers.SGD(0.1), counted),
        "branches": (branches, lambda: optimizers.SGD(0.1), numbers),
        "branches_in_loop": (branches_in_loop, lambda: optimizers.Momentum(0.05, 0.9), rows),
    }


def fed(values):
    """Converts inputs for the executor."""
    made = {}
    for name, value in values.items():
        made[name] = create_lod_tensor(value[0], value[1], PLACE) if isinstance(value, tuple) else value
    return made


def told(value):
    array, lengths = value if isinstance(value, tuple) else (value, [])
    lod = [[0] + np.cumsum(level).tolist() for level in lengths]
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.reshape(-1).tolist(), "lod": lod}


def save(executor, program, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "program.pb"), "wb") as file:
        file.write(stripped(program))
    if IS_OLD:
        static.io.save_persistables(executor, folder, program, filename="variables")
    else:
        wanted = static.io.is_persistable
        static.io.save_vars(executor, folder, program, predicate=wanted, filename="variables")


def record(directory, release, name):
    build, optimizer, feed = NETWORKS[name]
    executor, scope = static.Executor(PLACE), Scope()
    program, startup = static.Program(), static.Program()
    program.random_seed = startup.random_seed = 7
    random = np.random.RandomState(11)
    steps = []
    with static.scope_guard(scope), program_guard(program, startup), unique_names():
        loss = build()
        optimizer().minimize(loss)
        executor.run(startup)
        run = lambda values: executor.run(program, feed=fed(values), fetch_list=[loss])[0]
        for step in range(BEFORE):
            run(feed(random, step))
        save(executor, program, os.path.join(directory, release, name))
        for step in range(BEFORE, BEFORE + AFTER):
            values = feed(random, step)
            losses = np.asarray(run(values)).reshape(-1).tolist()
            steps.append({"feed": {key: told(value) for key, value in values.items()}, "loss": losses[0]})
    return {"name": name, "loss": loss.name, "steps": steps}


def main(directory):
    if not IS_OLD:
        paddle.enable_static()
    release = paddle.__version__
    recorded = [record(directory, release, name) for name in NETWORKS]
    with open(os.path.join(directory, release + ".json"), "w") as file:
        rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in recorded)
        file.write("[\n" + rows + "\n]\n")
    for case in recorded:
        print(case["name"], [round(step["loss"], 6) for step in case["steps"]])


if __name__ == "__main__":
    main(sys.argv[1])

"""Makes a program that trains on the digits with PaddlePaddle 2.6.2, and records how its losses go.

    python make_training.py OUT_DIR

writes OUT_DIR/training/main_program (forward, gradients, Adam), startup_program, and `__params__`, the variables that
the startup program gave; and OUT_DIR/training/losses.npz with the `loss` and `accuracy` of the first steps that
PaddlePaddle did from them, each on the next 32 images of OUT_DIR/train.npz.
"""

import os
import sys

os.environ["FLAGS_cpu_deterministic"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOG_minloglevel", "3")

import numpy as np
import paddle

static = paddle.static

SEED = 20
BATCH = 32
STEPS = 20
LEARNING_RATE = 0.004


def conv_block(image, filters):
    conv = static.nn.conv2d(image, filters, filter_size=3, padding=1, act="relu")
    return paddle.nn.functional.max_pool2d(conv, kernel_size=2, stride=2)


def build():
    image = static.data("image", [None, 1, 8, 8], "float32")
    label = static.data("label", [None, 1], "int64")
    hidden = conv_block(conv_block(image, 8), 16)
    logits = static.nn.fc(hidden, 10)
    loss = paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(logits, label))
    accuracy = static.accuracy(logits, label)
    paddle.optimizer.Adam(LEARNING_RATE).minimize(loss)
    return loss, accuracy


def without_source(program):
    """The bytes of a program without the paths and lines of this script."""
    program = program.clone()
    for block in program.blocks:
        for op in block.ops:
            op._remove_attr("op_callstack")
    return program.desc.serialize_to_string()


def main(out_dir):
    paddle.enable_static()
    network, startup = static.Program(), static.Program()
    network.random_seed = startup.random_seed = SEED
    with paddle.utils.unique_name.guard(), static.program_guard(network, startup):
        loss, accuracy = build()
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup)
    training = os.path.join(out_dir, "training")
    os.makedirs(training, exist_ok=True)
    for name, program in ("main_program", network), ("startup_program", startup):
        with open(os.path.join(training, name), "wb") as file:
            file.write(without_source(program))
    static.save_vars(
        executor, training, network, predicate=lambda var: var.persistable, filename="__params__"
    )
    data = np.load(os.path.join(out_dir, "train.npz"))
    found = []
    for step in range(STEPS):
        feed = {name: data[name][step * BATCH : (step + 1) * BATCH] for name in data}
        found.append(executor.run(network, feed=feed, fetch_list=[loss, accuracy]))
    losses, accuracies = (np.array([np.ravel(row[at])[0] for row in found]) for at in (0, 1))
    np.savez(os.path.join(training, "losses.npz"), loss=losses, accuracy=accuracies)
    print("losses", losses, "of", loss.name, "accuracies", accuracies, "of", accuracy.name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

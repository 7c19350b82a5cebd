"""Records how training continues from checkpoints of the installed PaddlePaddle (1.8.5, 2.6.2 or 3.3.1).

    python make_paddle_checkpoints.py OUT_DIR

Trains two layers for three steps, writes everything that the release can save to `RELEASE/`, and `RELEASE.json`: the
rows and classes of five more steps, and their losses.

| checkpoint | saved by | optimizer |
|---|---|---|
| `program` | `save`: the whole program, `.pdparams`, `.pdopt` | Adam; in 1.8.5 with a schedule in the program |
| `variables`, `combined` | `save_persistables`, a file for each variable, and one | the same |
| `adam`, `momentum` | `paddle.save` of two `state_dict()`s | Adam, Momentum; a schedule in Python |

With `FLAGS_enable_pir_api=0` in the environment, 3.3.1 writes programs in the old form, to `3.3.1-old-program`;
otherwise it writes programs in the new form, and saves no variables separately.
"""
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("GLOG_minloglevel", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle

RELEASE = paddle.__version__
if os.environ.get("FLAGS_enable_pir_api") == "0":
    RELEASE += "-old-program"
IS_NEW = paddle.__version__.startswith("3.") and not RELEASE.endswith("program")
IS_OLD = RELEASE.startswith("1.8")
BEFORE, AFTER = 3, 5
random = np.random.RandomState(3)
ROWS = random.randint(-16, 17, (BEFORE + AFTER, 6, 4)).astype("float32") / 8
CLASSES = random.randint(0, 3, (BEFORE + AFTER, 6, 1)).astype("int64")


def build_1():
    """The program of 1.8.5."""
    fluid = paddle.fluid
    x, y = fluid.data("x", [None, 4], "float32"), fluid.data("y", [None, 1], "int64")
    shares = fluid.layers.fc(fluid.layers.fc(x, 8, act="relu"), 3, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(shares, y))
    rate = fluid.layers.exponential_decay(0.1, 2, 0.5, staircase=True)
    fluid.optimizer.Adam(rate).minimize(loss)
    return loss


def layers():
    return paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 3))


def build():
    """The program of later releases."""
    x, y = paddle.static.data("x", [None, 4], "float32"), paddle.static.data("y", [None, 1], "int64")
    loss = paddle.nn.functional.cross_entropy(layers()(x), y)
    paddle.optimizer.Adam(0.05).minimize(loss)
    return loss


def trained_program(directory):
    """Trains a program, and saves it after the first steps."""
    static = paddle.fluid if IS_OLD else paddle.static
    executor = static.Executor(paddle.fluid.CPUPlace() if IS_OLD else paddle.CPUPlace())
    main, startup = static.Program(), static.Program()
    losses = []
    if IS_OLD:
        main.random_seed = startup.random_seed = 5
    with static.program_guard(main, startup):
        loss = build_1() if IS_OLD else build()
        executor.run(startup)
        for step in range(BEFORE + AFTER):
            if step == BEFORE:
                save(static, executor, main, directory)
            fed = {"x": ROWS[step], "y": CLASSES[step]}
            losses.append(float(np.asarray(executor.run(main, feed=fed, fetch_list=[loss])[0]).reshape(-1)[0]))
    parameters = main.all_parameters() if IS_OLD else main.global_block().all_parameters()
    return {"losses": losses[BEFORE:], "parameters": sorted(parameter.name for parameter in parameters)}


def save(static, executor, main, directory):
    for op in [] if IS_NEW else main.global_block().ops:
        op._remove_attr("op_callstack")
    static.save(main, os.path.join(directory, "program"))
    if IS_NEW:
        return
    save = static.io.save_persistables if IS_OLD else paddle.distributed.io.save_persistables
    save(executor, os.path.join(directory, "variables"), main)
    save(executor, directory, main, filename="combined")


def trained_layers(directory, name):
    """Trains layers, and saves their states and those of their optimizer."""
    model = layers()
    if name == "adam":
        rate = paddle.optimizer.lr.ExponentialDecay(0.1, 0.8)
        optimizer = paddle.optimizer.Adam(rate, parameters=model.parameters())
    else:
        rate = paddle.optimizer.lr.PiecewiseDecay([4, 6], [0.2, 0.1, 0.05])
        optimizer = paddle.optimizer.Momentum(rate, 0.9, parameters=model.parameters())
    losses = []
    for step in range(BEFORE + AFTER):
        if step == BEFORE:
            paddle.save(model.state_dict(), os.path.join(directory, name + ".pdparams"))
            paddle.save(optimizer.state_dict(), os.path.join(directory, name + ".pdopt"))
        loss = paddle.nn.functional.cross_entropy(model(paddle.to_tensor(ROWS[step])), paddle.to_tensor(CLASSES[step]))
        losses.append(float(loss))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        rate.step()
    return {"losses": losses[BEFORE:], "parameters": sorted(parameter.name for parameter in model.parameters())}


def main(out):
    directory = os.path.join(out, RELEASE)
    os.makedirs(directory, exist_ok=True)
    told = {"x": ROWS[BEFORE:].tolist(), "y": CLASSES[BEFORE:].tolist()}
    if not IS_OLD:
        paddle.seed(5)
        if not RELEASE.endswith("program"):
            told.update({name: trained_layers(directory, name) for name in ("adam", "momentum")})
        paddle.enable_static()
    told["program"] = trained_program(directory)
    with open(os.path.join(out, RELEASE + ".json"), "w") as file:
        json.dump(told, file)
        file.write("\n")


main(sys.argv[1])

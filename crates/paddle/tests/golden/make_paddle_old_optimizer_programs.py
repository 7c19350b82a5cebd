"""Records the operators that the optimizers of PaddlePaddle 1.8.5 append that 2.6.2 does not have.

    pip install paddlepaddle==1.8.5 "protobuf<4" "numpy<1.24"   # Python 3.8
    python make_paddle_old_optimizer_programs.py

Writes `paddle_old_optimizer_programs.json`, beside this script, like `make_paddle_optimizer_programs.py`. The
conventions of 2.6.2, which our programs follow, replace those of 1.8.5 in it: the learning rate has no dims, constants
are texts as well, and the startup program, through which no gradient flows, initializes parameters, the learning rate
and accumulators, in this order.
"""
import json
import os

os.environ["GLOG_minloglevel"] = "3"
from paddle import fluid
from paddle.fluid import optimizer

import paddle_facts

paddle_facts.LEFT_OUT = tuple(name for name in paddle_facts.LEFT_OUT if name != "op_role_var")

LEARNS = {
    "decayed_adagrad": lambda: optimizer.DecayedAdagrad(0.1),
    "decayed_adagrad_options": lambda: optimizer.DecayedAdagrad(0.1, 0.9, 1e-4),
    "ftrl": lambda: optimizer.Ftrl(0.1),
    # `l2` is equal to `l1`, which 1.8.5 writes for both.
    "ftrl_options": lambda: optimizer.Ftrl(0.1, 0.05, 0.05, -0.75),
    "dpsgd": lambda: optimizer.Dpsgd(0.1),
    "dpsgd_options": lambda: optimizer.Dpsgd(0.1, 10.0, 16.0, 1.0),
}


def without_old_conventions(blocks, stops=False):
    for block in blocks:
        for var in block["vars"]:
            if var["name"].startswith("learning_rate"):
                var["shape"] = []
            if stops and not {"parameter", "stop_gradient"} & set(var["flags"]):
                var["flags"].append("stop_gradient")
        for op in block["ops"]:
            if op["kind"] == "fill_constant":
                op["attributes"]["str_value"][1] = str(float(f"{op['attributes']['value'][1]:.6g}"))
                if of_rate(op):
                    op["attributes"]["shape"][1] = []
    return blocks


def of_rate(op):
    return any(name.startswith("learning_rate") for name in op["outputs"].get("Out", []))


def in_order(ops):
    """Returns the initializers of parameters, that of the learning rate, and those of accumulators."""
    made = {name for op in ops for name in op["outputs"]["Out"]}
    kept = lambda op: any(name.startswith(f"{other}_") for name in op["outputs"]["Out"] for other in made - {name})
    return sorted(reversed(ops), key=lambda op: 2 if kept(op) else int(of_rate(op)))


def learns(make):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 6]), 4))
        made = make()
        pairs = made.backward(loss)
        block = main.global_block()
        ops, names = len(block.ops), set(block.vars)
        made.apply_gradients(pairs)
        facts = paddle_facts.of_program(main)
        facts[0]["ops"] = facts[0]["ops"][ops:]
        facts[0]["vars"] = [var for var in facts[0]["vars"] if var["name"] not in names]
        startup = paddle_facts.of_program(startup)
        startup[0]["ops"] = in_order(startup[0]["ops"])
        return {"gives": [], "main": without_old_conventions(facts), "startup": without_old_conventions(startup, True)}


lines = [f"{json.dumps(name)}: {json.dumps(learns(make), separators=(',', ':'))}" for name, make in LEARNS.items()]
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_old_optimizer_programs.json")
with open(path, "w") as file:
    file.write('{"learns": {\n' + ",\n".join(lines) + "\n}}\n")
print(os.path.getsize(path))

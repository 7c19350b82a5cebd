"""Records the operators that PaddlePaddle 2.6.2's optimizers append, and the learning rates of schedules.

    python make_paddle_optimizer_programs.py

Writes `paddle_optimizer_programs.json`, beside this script: for each case the main program and the startup program. For
an optimizer, the main program has only the operators after the gradients. A schedule also has the learning rates of ten
steps. `optimizers.rs` builds the same with the optimizers of this crate. `make_paddle_old_optimizer_programs.py` records
the optimizers that 2.6.2 does not have.
"""
import json
import os

os.environ["GLOG_minloglevel"] = "3"
import paddle
from paddle import nn, optimizer, regularizer
from paddle.incubate.optimizer import LarsMomentumOptimizer
from paddle.optimizer import lr

import paddle_facts

paddle.enable_static()
paddle_facts.LEFT_OUT = tuple(name for name in paddle_facts.LEFT_OUT if name != "op_role_var")

STEPS = 10
LEARNS = {
    "sgd": lambda: optimizer.SGD(0.1),
    "sgd_scheduled": lambda: optimizer.SGD(lr.ExponentialDecay(0.1, 0.9)),
    "momentum": lambda: optimizer.Momentum(0.1),
    "momentum_nesterov": lambda: optimizer.Momentum(0.1, 0.8, use_nesterov=True),
    "momentum_l2": lambda: optimizer.Momentum(0.1, weight_decay=0.05),
    "momentum_l1": lambda: optimizer.Momentum(0.1, weight_decay=regularizer.L1Decay(0.05)),
    "adagrad": lambda: optimizer.Adagrad(0.1),
    "adagrad_begun": lambda: optimizer.Adagrad(0.1, 1e-3, initial_accumulator_value=0.5),
    "adam": lambda: optimizer.Adam(),
    "adam_options": lambda: optimizer.Adam(0.01, 0.8, 0.95, 1e-6, lazy_mode=True),
    "adamw": lambda: optimizer.AdamW(),
    "adamw_options": lambda: optimizer.AdamW(0.01, 0.8, 0.95, 1e-6, weight_decay=0.1),
    "rmsprop": lambda: optimizer.RMSProp(0.1),
    "rmsprop_options": lambda: optimizer.RMSProp(0.1, 0.9, 1e-4, momentum=0.5, centered=True),
    "lamb": lambda: optimizer.Lamb(),
    "lamb_options": lambda: optimizer.Lamb(0.01, 0.1, 0.8, 0.95, 1e-5, always_adapt=True),
    "adamax": lambda: optimizer.Adamax(),
    "adamax_options": lambda: optimizer.Adamax(0.01, 0.8, 0.95, 1e-6),
    "adadelta": lambda: optimizer.Adadelta(),
    "adadelta_options": lambda: optimizer.Adadelta(1.0, 1e-4, 0.9),
    "lars_momentum": lambda: LarsMomentumOptimizer(0.1, 0.9),
    "lars_momentum_options": lambda: LarsMomentumOptimizer(0.1, 0.8, 0.01, 0.1, epsilon=1e-6, rescale_grad=0.5),
    "clip_by_value": lambda: optimizer.SGD(0.1, grad_clip=nn.ClipGradByValue(0.5, -0.25)),
    "clip_by_norm": lambda: optimizer.SGD(0.1, grad_clip=nn.ClipGradByNorm(0.5)),
    "clip_by_global_norm": lambda: optimizer.SGD(0.1, grad_clip=nn.ClipGradByGlobalNorm(0.5)),
    "decay_l1": lambda: optimizer.SGD(0.1, weight_decay=regularizer.L1Decay(0.05)),
    "decay_l2": lambda: optimizer.Adam(weight_decay=0.05),
    "clip_and_decay": lambda: optimizer.SGD(0.1, grad_clip=nn.ClipGradByGlobalNorm(0.5), weight_decay=0.05),
}
# A table with gradients of selected rows.
LEARNS_ROWS = {
    "rows": lambda: optimizer.Adam(lazy_mode=True),
    "rows_clip_by_norm": lambda: optimizer.SGD(0.1, grad_clip=nn.ClipGradByNorm(0.5)),
    "rows_clip_by_global_norm": lambda: optimizer.SGD(0.1, grad_clip=nn.ClipGradByGlobalNorm(0.5)),
    "rows_decay": lambda: optimizer.Momentum(0.1, weight_decay=regularizer.L1Decay(0.05)),
    "rows_clip_and_decay": lambda: optimizer.SGD(0.1, grad_clip=nn.ClipGradByGlobalNorm(0.5), weight_decay=0.05),
}
SCHEDULES = {
    "noam": lambda: lr.noam_decay(64, 4, 0.5),
    "exponential": lambda: lr.exponential_decay(0.1, 3, 0.9),
    "exponential_staircase": lambda: lr.exponential_decay(0.1, 3, 0.9, True),
    "natural_exp": lambda: lr.natural_exp_decay(0.1, 3, 0.9),
    "natural_exp_staircase": lambda: lr.natural_exp_decay(0.1, 3, 0.9, True),
    "inverse_time": lambda: lr.inverse_time_decay(0.1, 3, 0.9),
    "inverse_time_staircase": lambda: lr.inverse_time_decay(0.1, 3, 0.9, True),
    "polynomial": lambda: lr.polynomial_decay(0.1, 6, 0.01, 2.0),
    "polynomial_cycle": lambda: lr.polynomial_decay(0.1, 4, 0.01, 1.0, True),
    "piecewise": lambda: lr.piecewise_decay([3, 6], [0.1, 0.05, 0.01]),
    "cosine": lambda: lr.cosine_decay(0.1, 2, 5),
    "warmup": lambda: lr.linear_lr_warmup(0.1, 4, 0.01, 0.1),
    "warmup_exponential": lambda: lr.linear_lr_warmup(lr.exponential_decay(0.1, 3, 0.9), 4, 0.01, 0.1),
}


def programs():
    return paddle.static.Program(), paddle.static.Program()


def net():
    return paddle.static.nn.fc(paddle.static.data("x", [-1, 6]), 4)


def table():
    return paddle.static.nn.embedding(paddle.static.data("x", [-1], "int64"), (6, 4), is_sparse=True)


def learns(build, make):
    main, startup = programs()
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        loss = paddle.mean(build())
        made = make()
        pairs = made.backward(loss)
        block = main.global_block()
        ops, names = len(block.ops), set(block.vars)
        made.apply_gradients(pairs)
        facts = paddle_facts.of_program(main)
        facts[0]["ops"] = facts[0]["ops"][ops:]
        facts[0]["vars"] = [var for var in facts[0]["vars"] if var["name"] not in names]
        return {"gives": [], "main": facts, "startup": paddle_facts.of_program(startup)}


def schedules(make):
    main, startup = programs()
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        rate = make()
    scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    run = lambda: executor.run(main, fetch_list=[rate], scope=scope)[0]
    return {
        "gives": [rate.name],
        "main": paddle_facts.of_program(main),
        "startup": paddle_facts.of_program(startup),
        "rates": [float(run().reshape(-1)[0]) for _ in range(STEPS)],
    }


recorded = {
    "learns": {name: learns(net, make) for name, make in LEARNS.items()},
    "learns_rows": {name: learns(table, make) for name, make in LEARNS_ROWS.items()},
    "schedules": {name: schedules(make) for name, make in SCHEDULES.items()},
}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_optimizer_programs.json")
lines = [
    json.dumps(part) + ": {\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(case, separators=(',', ':'))}" for name, case in cases.items()) + "\n}"
    for part, cases in recorded.items()
]
with open(path, "w") as file:
    file.write("{" + ",\n".join(lines) + "}\n")
print(os.path.getsize(path))

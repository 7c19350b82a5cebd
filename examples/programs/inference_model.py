"""Saves a model for inference: the program before the optimizer is added, and a checkpoint of its variables.

    python examples/programs/inference_model.py OUT

`OUT/program` has the program, `OUT/checkpoint` its variables with their loader. Both are read back, and run.
"""

import sys

import numpy as np
from digits import DIGITS, batches, network

import lodstone
from lodstone.checkpoint import get_checkpoint_loader, make_checkpoint
from lodstone.program import (
    CPUPlace,
    Executor,
    Scope,
    default_main_program,
    default_startup_program,
    load_program,
    optimizer,
    save_program,
)

out = sys.argv[1]

shares, loss = network()
startup_program, main_program = default_startup_program(), default_main_program()
inference_program = main_program.inference(["image"], [shares])
save_program(inference_program, f"{out}/program")

optimizer.Adam(learning_rate=0.004).minimize(loss)
# The variables of the inference program are saved after the optimizer has updated them.
own = {var.name for var in inference_program.list_vars()}
make_checkpoint(f"{out}/checkpoint", lambda var: var.name in own, startup_program, main_program, every=50)

exe = Executor(CPUPlace())
exe.run(startup_program)
for step, batch in enumerate(batches(0, 400), start=1):
    (value,) = exe.run(main_program, feed=batch, fetch_list=[loss])
print(f"step {step}: loss {value:.7f}")

# What follows needs neither the network nor the training: only the two directories.
scope = Scope()
exe.run(get_checkpoint_loader(f"{out}/checkpoint"), scope=scope)
program = load_program(f"{out}/program")
test = lodstone.open(DIGITS / "test.npz")
(found,) = exe.run(program, feed={"image": test["images"]}, scope=scope)
right = int((found.argmax(1) == np.asarray(test["labels"]).ravel()).sum())
print(f"{right} of {len(found)} held-out images are recognized")

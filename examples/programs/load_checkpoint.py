"""Loads a checkpoint and continues training, without the code that built the network.

    python examples/programs/load_checkpoint.py OUT

`OUT` is the output of `save_checkpoint.py`, or of PaddlePaddle, which may have continued from there.
"""

import sys

import numpy
from digits import batches

from lodstone.checkpoint import get_checkpoint_loader
from lodstone.program import CPUPlace, Executor, global_scope, load_program

out = sys.argv[1]

exe = Executor(CPUPlace())
exe.run(get_checkpoint_loader(f"{out}/checkpoint"))
done = int(numpy.asarray(global_scope()["checkpoint_counter_0"])[0])
print(f"{len(global_scope())} variables of step {done}")

main_program = load_program(f"{out}/main")
for step, batch in enumerate(batches(done, 200), start=done + 1):
    (value,) = exe.run(main_program, feed=batch, fetch_list=["reduce_mean_0.tmp_0"], directory=f"{out}/checkpoint")
    if step % 20 == 0:
        print(f"step {step}: loss {value:.7f}")

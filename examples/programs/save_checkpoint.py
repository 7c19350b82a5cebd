"""Trains, and saves checkpoints during training by operators of the program.

    python examples/programs/save_checkpoint.py OUT

`OUT/main` has the program, `OUT/checkpoint` the checkpoint and its loader. `load_checkpoint.py` continues from there.
"""

import sys

from digits import batches, network

from lodstone.checkpoint import is_persistable, make_checkpoint
from lodstone.program import (
    CPUPlace,
    Executor,
    default_main_program,
    default_startup_program,
    layers,
    optimizer,
    save_program,
)

out = sys.argv[1]

shares, loss = network()
rate = layers.exponential_decay(learning_rate=0.004, decay_steps=100, decay_rate=0.9)
optimizer.Adam(learning_rate=rate).minimize(loss)

startup_program, main_program = default_startup_program(), default_main_program()
# After the optimizer, so that the checkpoint has its state, too.
make_checkpoint(f"{out}/checkpoint", is_persistable, startup_program, main_program, every=20)
save_program(main_program, f"{out}/main")

exe = Executor(CPUPlace())
exe.run(startup_program)
# Steps 100 to 110 are lost: the checkpoint is of step 100.
for step, batch in enumerate(batches(0, 110), start=1):
    (value,) = exe.run(main_program, feed=batch, fetch_list=[loss])
    if step % 20 == 0:
        print(f"step {step}: loss {value:.7f}")

"""Records what the layers of PaddlePaddle 1.8.5 compute.

    pip install paddlepaddle==1.8.5 "protobuf<4" "numpy<1.24"   # Python 3.8
    python make_layers.py

Writes `layers.npz`: the results of each case of `layer_cases.py`, as `case.0`, `case.1`, ... Cases that 1.8.5 cannot
build or run are listed on stderr, and fail.
"""

import os
import sys

os.environ.setdefault("GLOG_minloglevel", "3")

import numpy as np
import paddle.fluid as fluid
from layer_cases import CASES

layers = fluid.layers
place = fluid.CPUPlace()


def recorded(case):
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        variables, feed = {}, {}
        for name, value in case.inputs.items():
            array, lod = value if isinstance(value, tuple) else (value, None)
            variables[name] = layers.data(
                name, list(array.shape), append_batch_size=False, dtype=str(array.dtype), lod_level=len(lod or [])
            )
            if lod is None:
                feed[name] = array
            else:
                lengths = [[b - a for a, b in zip(level, level[1:])] for level in lod]
                feed[name] = fluid.create_lod_tensor(array, lengths, place)
        results = case.build(layers, fluid, **variables)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        executor = fluid.Executor(place)
        executor.run(startup)
        return [np.array(one) for one in executor.run(main, feed=feed, fetch_list=results, return_numpy=False)]


arrays, failed = {}, []
for case in CASES:
    try:
        for number, array in enumerate(recorded(case)):
            arrays[f"{case.name}.{number}"] = array
    except Exception as error:
        failed.append(case.name)
        print(case.name, repr(error)[-200:], file=sys.stderr)
np.savez_compressed(os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.npz"), **arrays)
print(f"{len(CASES) - len(failed)} cases recorded, {len(failed)} failed")
sys.exit(bool(failed))

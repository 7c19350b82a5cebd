"""Runs networks of PaddlePaddle 3 that Lodstone converted for PaddlePaddle 2.6.2, and compares the recorded outputs.

    python paddle_older.py NETWORKS

NETWORKS has folders that `paddle_networks.py` wrote with 3.3.1, in which `exported.py` converted the models.
"""

import os
import sys

os.environ.setdefault("GLOG_minloglevel", "3")
os.environ["FLAGS_cpu_deterministic"] = "1"

import numpy as np
import paddle
from paddle import static

RTOL, ATOL = 1e-4, 2e-5


def differences(folder):
    """What differs, for each size of the inputs."""
    executor = static.Executor(paddle.CPUPlace())
    program, _, targets = static.load_inference_model(os.path.join(folder, "older/inference"), executor)
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".inputs.npz"):
            continue
        feed = dict(np.load(os.path.join(folder, file)))
        wanted = np.load(os.path.join(folder, file.replace("inputs", "outputs")))
        found = executor.run(program, feed=feed, fetch_list=targets)
        for name, value in zip([target.name for target in targets], found):
            value, is_same = np.asarray(value), False
            if name in wanted and (value.shape, value.dtype) == (wanted[name].shape, wanted[name].dtype):
                is_same = np.allclose(value, wanted[name], rtol=RTOL, atol=ATOL)
            yield None if is_same else f"{file}, output {name}"


def main(networks):
    paddle.enable_static()
    passed, failed = 0, []
    for name in sorted(os.listdir(networks)):
        try:
            found = list(differences(os.path.join(networks, name)))
        except Exception as error:
            found = [str(error)[-300:]]
        passed += found.count(None)
        failed += [f"{name}: {what}" for what in found if what]
    print(*failed, sep="\n")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

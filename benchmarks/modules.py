"""Runs MXNet networks with Lodstone and with the modules of MXNet 1.9.1.

    python modules.py NETWORKS MXNET TABLE [--turns N] [--only TEXT]
    python modules.py build NETWORKS
    python modules.py serve LIBRARY FOLDER THREADS

MXNET is a Python with MXNet, which builds the networks with random weights. The turns alternate; the table has the medians,
and the median and the quartiles of the ratios within a turn.
"""

import os
import subprocess

from engine import median, options_of, ratio, values, write
from predictors import answer, measure, of_lodstone, start

LIBRARIES = ("lodstone", "mxnet")

# Networks of Gluon's model zoo.
NETWORKS = ("mobilenetv2_1.0", "resnet50_v1")

# The dims of their input.
DIMS = (1, 3, 224, 224)


def build(folder):
    import mxnet

    mxnet.random.seed(7)
    for name in NETWORKS:
        network = mxnet.gluon.model_zoo.vision.get_model(name, pretrained=False)
        network.initialize(mxnet.init.MSRAPrelu())
        network.hybridize()
        network(mxnet.nd.zeros(DIMS))
        (folder / name).mkdir(parents=True, exist_ok=True)
        network.export(str(folder / name / "net"))


def of_mxnet(folder, threads):
    # The module runs operators of oneDNN that Gluon's blocks do not join; MXNet reads the number once.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import mxnet

    symbol, weights, statistics = mxnet.model.load_checkpoint(str(folder / "net"), 0)
    module = mxnet.mod.Module(symbol, label_names=None)
    module.bind(for_training=False, data_shapes=[("data", DIMS)])
    module.set_params(weights, statistics)

    def run(x):
        module.forward(mxnet.io.DataBatch([mxnet.nd.array(x)]), is_train=False)
        return [one.asnumpy() for one in module.get_outputs()]

    return run


def serve(library, folder, threads):
    run = of_lodstone(folder, threads, "data") if library == "lodstone" else of_mxnet(folder, threads)
    answer(run, values(DIMS, False))


def rows_of(options):
    for name in NETWORKS:
        for threads in (1, 2) if options.only in name else ():
            times = measure(LIBRARIES, options.mxnet, __file__, options.networks / name, threads, options.turns)
            yield [name, str(threads), *(median(times[library]) for library in LIBRARIES), ratio(*times.values())]


def main():
    options = options_of("mxnet")
    subprocess.run([options.mxnet, "-B", __file__, "build", options.networks], check=True)
    write(options.table, ["network", "threads", "lodstone", "MXNet", "lodstone to MXNet"], rows_of(options))


if __name__ == "__main__":
    start(build, serve, main)

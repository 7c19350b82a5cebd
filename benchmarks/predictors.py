"""Runs PaddlePaddle networks with Lodstone and with PaddlePaddle's own predictors, plain and with oneDNN.

    python predictors.py NETWORKS PADDLE TABLE [--turns N] [--only TEXT]
    python predictors.py build NETWORKS
    python predictors.py serve LIBRARY FOLDER THREADS

PADDLE is a Python with PaddlePaddle, which builds the networks with random weights. The turns alternate; the table has the
medians, and the median and the quartiles of the ratios within a turn.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from engine import TURN, Worker, alternating, median, options_of, ratio, values, write

LIBRARIES = ("lodstone", "paddle", "paddle-onednn")

# Dims of the input of each network.
NETWORKS = {
    "detection": (1, 3, 640, 640),
    "mobilenet_v3": (1, 3, 224, 224),
    "recognition": (1, 3, 32, 320),
    "resnet18": (1, 3, 224, 224),
}


def build(folder):
    sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
    import paddle
    import paddle_networks

    makes = {
        "detection": paddle_networks.TextDetection,
        "mobilenet_v3": paddle.vision.models.mobilenet_v3_large,
        "recognition": paddle_networks.TextRecognition,
        "resnet18": paddle.vision.models.resnet18,
    }
    for name, make in makes.items():
        layer = make()
        layer.eval()
        inputs = paddle_networks.spec(("x", [None, *NETWORKS[name][1:]], "float32"))
        paddle.jit.save(paddle.jit.to_static(layer, input_spec=inputs, full_graph=True), str(folder / name / "inference"))


def of_lodstone(folder, threads, name):
    import lodstone

    session = lodstone.open(folder).session(threads=threads)
    return lambda x: [np.asarray(one) for one in session.run({name: x}).values()]


def of_paddle(folder, threads, with_onednn):
    from paddle import inference

    config = inference.Config(str(folder / "inference.pdmodel"), str(folder / "inference.pdiparams"))
    config.disable_gpu()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(threads)
    config.enable_mkldnn() if with_onednn else config.disable_mkldnn()
    predictor = inference.create_predictor(config)
    given = [predictor.get_input_handle(name) for name in predictor.get_input_names()]
    made = [predictor.get_output_handle(name) for name in predictor.get_output_names()]

    def run(x):
        given[0].copy_from_cpu(x)
        predictor.run()
        return [one.copy_to_cpu() for one in made]

    return run


def answer(run, x):
    """Runs a network as often as each line of the standard input says; prints the time and the sum of the outputs."""
    for line in sys.stdin:
        begun = time.perf_counter()
        for _ in range(int(line)):
            found = run(x)
        print(time.perf_counter() - begun, sum(float(np.abs(one).sum()) for one in found), flush=True)


def serve(library, folder, threads):
    run = of_lodstone(folder, threads, "x") if library == "lodstone" else of_paddle(folder, threads, "onednn" in library)
    answer(run, values(NETWORKS[folder.name], False))


def measure(libraries, python, script, folder, threads, turns):
    """Returns the seconds of the runs of each library, by the `serve` of a script; other libraries than ours run in `python`.
    The results of all must be those of the second one, the framework's."""
    command = lambda library: [sys.executable if library == "lodstone" else python, "-B", script, "serve", library]
    workers = {library: Worker(command(library), folder, threads) for library in libraries}
    counts, sums = {}, {}
    for library, worker in workers.items():
        worker.request(1)
        seconds, sums[library] = worker.request(1)
        counts[library] = max(1, int(TURN / seconds))
    expected = sums[libraries[1]]
    if not all(abs(found - expected) <= 1e-3 * abs(expected) for found in sums.values()):
        raise SystemExit(f"the results of {folder.name} differ: {sums}")
    return alternating(workers, counts, turns)


def rows_of(options):
    for name in sorted(NETWORKS):
        for threads in (1, 2) if options.only in name else ():
            times = measure(LIBRARIES, options.paddle, __file__, options.networks / name, threads, options.turns)
            cells = [name, str(threads), *(median(times[library]) for library in LIBRARIES)]
            yield cells + [ratio(times["lodstone"], times[library]) for library in LIBRARIES[1:]]


def main():
    options = options_of("paddle")
    subprocess.run([options.paddle, "-B", __file__, "build", options.networks], check=True)
    columns = ["network", "threads", "lodstone", "PaddlePaddle", "with oneDNN", "lodstone to PaddlePaddle", "to oneDNN"]
    write(options.table, columns, rows_of(options))


def start(build, serve, main):
    """Calls the function that the command line of a script names."""
    match sys.argv[1:]:
        case ["build", folder]:
            build(Path(folder))
        case ["serve", library, folder, threads]:
            serve(library, Path(folder), int(threads))
        case _:
            main()


if __name__ == "__main__":
    start(build, serve, main)

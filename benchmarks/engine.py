"""Runs networks with Lodstone and with other engines, each in a process of its own.

    python engine.py NETWORKS ENGINES TABLE [--turns N] [--only TEXT]
    python engine.py serve LIBRARY MODEL THREADS

NETWORKS has the models of `engine_networks.py`, ENGINES is the program in `engines/`. The turns alternate; a reply is the
time of a run, and the table has the medians, and the median and the quartiles of the ratios within a turn. `cold` is
the median time from a file to the first output in new processes, without their start.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

LIBRARIES = ("lodstone", "onnxruntime", "lodstone-onnxruntime", "tract", "rten")

# The time of a turn in seconds, which several short runs fill, and that before the next one: threads that wait for work
# spin for a while, and would take time from others.
TURN, PAUSE = 0.2, 0.2

# The number of new processes of an engine whose first output is timed.
STARTS = 7


def values(dims, is_integer):
    """Returns an input, as the program in `engines/` does."""
    places = np.arange(int(np.prod(dims)), dtype=np.int64)
    if is_integer:
        return (places % 100).reshape(dims)
    return (places * 7919 % 1000 / np.float32(500) - 1).astype(np.float32).reshape(dims)


def of_lodstone(path, threads, engine, given):
    import lodstone

    model = lodstone.open(path)
    session = model.session(threads=threads, engine=engine)
    return lambda: [np.asarray(one) for one in session.run(given).values()]


def inputs_of(path):
    import onnx

    inputs = onnx.load(path, load_external_data=False).graph.input
    kinds = {one.name: one.type.tensor_type for one in inputs}
    dims = {name: [dim.dim_value for dim in kind.shape.dim] for name, kind in kinds.items()}
    return {name: values(dims[name], kind.elem_type == onnx.TensorProto.INT64) for name, kind in kinds.items()}


def of_onnxruntime(path, threads, given):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, given)


def load(library, path, threads, given):
    if library == "onnxruntime":
        return of_onnxruntime(path, threads, given)
    engine = "onnxruntime" if library == "lodstone-onnxruntime" else "builtin"
    return of_lodstone(path, threads, engine, given)


def serve(library, path, threads):
    import onnxruntime  # noqa: F401

    import lodstone  # noqa: F401

    run, given = None, inputs_of(path)
    for line in sys.stdin:
        begun = time.perf_counter()
        if line.strip() == "cold":
            run, count = load(library, path, int(threads), given), 1
        else:
            count = int(line)
        for _ in range(count):
            found = run()
        seconds = time.perf_counter() - begun
        print(seconds, sum(float(np.abs(one.astype("f8")).sum()) for one in found), flush=True)


class Worker:
    def __init__(self, command, path, threads):
        self.process = subprocess.Popen(
            [*command, str(path), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # tract's own pool is not all: some operators run on that of rayon.
            env={**os.environ, "RAYON_NUM_THREADS": str(threads), "RTEN_NUM_THREADS": str(threads)},
        )

    def request(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            raise SystemExit(f"{self.process.args} failed")
        return float(answer[0]), float(answer[1])

    def processor_time(self):
        """Returns the time in seconds that the process has had on all processors; Linux only."""
        _, _, fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")
        return sum(int(ticks) for ticks in fields.split()[11:13]) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(path, threads, engines, turns):
    """Returns the seconds of the runs of each library, and those from a file to the first output of two of them."""

    def worker_of(library):
        own = [sys.executable, "-B", __file__, "serve", library]
        return Worker([engines, library] if library in ("tract", "rten") else own, path, threads)

    cold = {library: [] for library in ("lodstone", "onnxruntime")}
    for _ in range(STARTS):
        for library, times in cold.items():
            worker = worker_of(library)
            times.append(worker.request("cold")[0])
            worker.close()
    # The results of the others with 8 bits differ by some percent.
    libraries = LIBRARIES[:3] if path.stem.endswith("_int8") else LIBRARIES
    workers = {library: worker_of(library) for library in libraries}
    sums = {library: worker.request("cold")[1] for library, worker in workers.items()}
    for library, found in sums.items():
        if not abs(found - sums["onnxruntime"]) <= tolerance(path) * abs(sums["onnxruntime"]):
            raise SystemExit(f"{path.stem}: {library} returns {found}, ONNX Runtime {sums['onnxruntime']}")
    counts = {}
    for library, worker in workers.items():
        counts[library] = max(1, int(TURN / worker.request(1)[0]))
        before, seconds = worker.processor_time(), worker.request(counts[library])[0]
        used = (worker.processor_time() - before) / seconds
        if used > threads + 0.3:
            raise SystemExit(f"{path.stem}: {library} uses {used:.1f} processors with {threads} threads")
    return alternating(workers, counts, turns), cold


def tolerance(path):
    """Returns the greatest relative difference of results: a number that is rounded to 8 bits may be near the middle of two."""
    return 5e-3 if path.stem.endswith("_int8") else 1e-3


def alternating(workers, counts, turns):
    """Returns the seconds of a run of each library in each turn, of `counts` runs."""
    times = {library: [] for library in workers}
    for _ in range(turns):
        for library, worker in workers.items():
            time.sleep(PAUSE)
            times[library].append(worker.request(counts[library])[0] / counts[library])
    for worker in workers.values():
        worker.close()
    return times


def median(times):
    return f"{statistics.median(times) * 1e3:.2f} ms"


def ratio(ours, theirs):
    low, middle, high = statistics.quantiles([a / b for a, b in zip(ours, theirs)], n=4)
    return f"**{middle:.2f}** ({low:.2f} to {high:.2f})"


def options_of(other):
    """Returns the arguments of a script that measures networks with another library, which is at `other`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", type=Path)
    parser.add_argument(other)
    parser.add_argument("table", type=Path)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--only", default="")
    return parser.parse_args()


def write(table, columns, rows):
    """Writes a table; prints each row as soon as it is measured."""
    lines = [f"| {' | '.join(columns)} |", f"|---|{'--:|' * (len(columns) - 1)}"]
    print(*lines, sep="\n", flush=True)
    for cells in rows:
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    table.write_text("\n".join(lines) + "\n")


def rows_of(options):
    for path in sorted(options.networks.glob("*.onnx")):
        for threads in (1, 2) if options.only in path.stem else ():
            times, cold = measure(path, threads, options.engines, options.turns)
            shown = ("lodstone", "onnxruntime", "tract", "rten")
            cells = [path.stem, str(threads), *(median(times[library]) if library in times else "" for library in shown)]
            cells += [ratio(times[library], times["onnxruntime"]) for library in ("lodstone", "lodstone-onnxruntime")]
            yield cells + [f"{statistics.median(times) * 1e3:.0f} ms" for times in cold.values()]


def main():
    options = options_of("engines")
    columns = ["network", "threads", "lodstone", "ONNX Runtime", "tract", "rten", "lodstone to ONNX Runtime"]
    columns += ["`--engine onnxruntime` to ONNX Runtime", "cold: lodstone", "cold: ONNX Runtime"]
    write(options.table, columns, rows_of(options))


if __name__ == "__main__":
    serve(*sys.argv[2:]) if sys.argv[1] == "serve" else main()

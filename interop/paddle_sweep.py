"""Calls every operator that has a rule with random attributes: Lodstone's results must equal PaddlePaddle's.

    python paddle_sweep.py RUN_CALLS OUT [--seed SEED] [--count COUNT] [--only CALL...] [--all]

`RUN_CALLS` is the built example `run_calls`: it lists the rules, and runs all calls in one process. A rule fails if it
has no call, if PaddlePaddle computes none of its calls, or if a result differs. `sweep/differences.py` lists deliberate
differences, with reasons. `COUNT` is the number of calls of each operator; its gradient is also compared. `--only relu
cast:17` makes only these calls, and prints them in full. `--all` requires that every deliberate difference occurs.
"""
import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import time

from sweep import compare
from sweep.differences import DIFFERENCES, GONE
from sweep.record import CALLS, record

# The timeout of a call of PaddlePaddle, in seconds.
LONGEST = 30

# The maximum number of differing calls that are printed for each kind.
MAX_PRINTED = 5


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("run_calls")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


class Recording:
    """Calls of one operator, computed in a separate process, because PaddlePaddle may crash."""

    def __init__(self, options, kind, numbers):
        self.options, self.kind, self.numbers = options, kind, list(numbers)
        self.directory = os.path.join(options.out, kind)
        self.progress, self.crashed, self.process = os.path.join(self.directory, "progress"), [], None
        os.makedirs(self.directory, exist_ok=True)

    def start(self):
        # The modification time is the start of the call.
        with open(self.progress, "w"):
            pass
        self.process = os.fork()
        if self.process == 0:
            status = 1
            # PaddlePaddle prints a long report when it crashes.
            log = os.open(os.path.join(self.directory, "said.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            try:
                numbers = [number for number in self.numbers if number not in self.crashed]
                with open(self.progress, "w") as progress:
                    record(self.options.seed, self.kind, numbers, self.directory, lambda at: note(progress, at))
                status = 0
            finally:
                os._exit(status)

    def stands_still(self):
        """Returns whether the current call timed out: a process with corrupted memory may hang."""
        return time.time() - os.path.getmtime(self.progress) > LONGEST

    def ended(self, status):
        """Returns whether all calls are done; a call that crashed is skipped, and the rest is computed again."""
        if status == 0:
            return True
        with open(self.progress) as progress:
            begun = progress.read().split()
        if not begun or int(begun[-1]) in self.crashed:
            sys.exit(f"cannot compute the calls of {self.kind}")
        self.crashed.append(int(begun[-1]))
        self.start()
        return False


def note(progress, number):
    progress.write(f"{number}\n")
    progress.flush()


def record_all(options, wanted):
    """Computes all calls with PaddlePaddle, several operators at a time."""
    waiting = [Recording(options, kind, numbers) for kind, numbers in sorted(wanted.items())]
    recordings, running = list(waiting), {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            recording = waiting.pop(0)
            recording.start()
            running[recording.process] = recording
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            for recording in running.values():
                if recording.stands_still():
                    os.kill(recording.process, signal.SIGKILL)
            time.sleep(0.02)
            continue
        recording = running.pop(process)
        if not recording.ended(status):
            running[recording.process] = recording
    return recordings


def wanted_calls(options, kinds):
    """Returns the selected calls of each operator."""
    if not options.only:
        return {kind: range(options.count) for kind in kinds}
    wanted = {}
    for call in options.only:
        kind, _, number = call.partition(":")
        wanted[kind] = [*wanted.get(kind, []), int(number)] if number else range(options.count)
    return wanted


class Tally:
    """The number of calls of each kind that were equal, deliberately different, or wrong."""

    def __init__(self):
        self.same, self.listed, self.wrong = (collections.Counter() for _ in range(3))
        self.met = set()

    def add(self, result, is_printed):
        covering = [number for number, one in enumerate(DIFFERENCES) if one.covers(result)]
        if not result.problem:
            self.same[result.kind] += 1
        elif covering:
            self.listed[result.kind] += 1
            self.met.update(covering)
        else:
            self.wrong[result.kind] += 1
            if is_printed or self.wrong[result.kind] <= MAX_PRINTED:
                print("DIFFERENT", result.describe())
                if is_printed:
                    print_values(result)

    def count(self, kind):
        return self.same[kind] + self.listed[kind] + self.wrong[kind]


def print_values(result):
    for part in ["feed", "wanted", "found"]:
        for variable, values in getattr(result, part).items():
            print(f"  {part} {variable}", values.tolist())


def main():
    options = arguments()
    begun = time.time()
    print(f"seed {options.seed}, {options.count} calls of each operator", flush=True)
    listed = subprocess.run([options.run_calls, "rules"], check=True, capture_output=True, text=True)
    rules = set(listed.stdout.split())
    forward = {kind for kind in rules if kind not in GONE and "_grad" not in kind}
    problems = [f"there is no generator for calls of `{kind}`" for kind in sorted(forward - set(CALLS))]
    recordings = record_all(options, wanted_calls(options, sorted(forward & set(CALLS))))
    print(f"{time.time() - begun:.0f} s: PaddlePaddle has computed all", flush=True)
    directories = [recording.directory for recording in recordings]
    subprocess.run([options.run_calls, *directories], check=True)
    tally, refused, crashed = Tally(), [], []
    for recording in recordings:
        for result in compare.results(recording.directory):
            tally.add(result, bool(options.only))
        with open(os.path.join(recording.directory, "refused.json"), encoding="utf-8") as file:
            refused += json.load(file)
        crashed += [f"{recording.kind}:{number}" for number in recording.crashed]
    if options.only:
        for name, what in refused:
            print(f"rejected {name}: {what}")
    else:
        without = sorted(kind for kind in rules - set(GONE) if not tally.count(kind))
        problems += [f"no call of `{kind}` was compared" for kind in without]
    if options.all:
        missed = [one.reason for number, one in enumerate(DIFFERENCES) if number not in tally.met]
        problems += [f"listed as a difference, but did not occur: {reason}" for reason in missed]
    for problem in problems:
        print(problem)
    with open(os.path.join(options.out, "refused.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}: {what}\n" for name, what in refused)
    same, other, wrong = (counter.total() for counter in [tally.same, tally.listed, tally.wrong])
    print(f"{len(rules)} rules, {len(GONE)} of them of older releases; PaddlePaddle rejected {len(refused)} calls and "
          f"crashed on {len(crashed)}: {' '.join(crashed)}")
    print(f"{time.time() - begun:.0f} s: {same} calls equal, {other} deliberately different, {wrong} wrong")
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(tally.wrong.items()))
    print(f"{same + other} passed, {wrong + len(problems)} failed{': ' + kinds if kinds else ''}")
    sys.exit(bool(wrong or problems))


if __name__ == "__main__":
    main()

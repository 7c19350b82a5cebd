"""Tries each value that `paddle_values.tsv` allows for an attribute, and another one, in PaddlePaddle 2.6.2.

    python paddle_values.py TABLE CASES

`TABLE` is `crates/schema/data/paddle_values.tsv`, `CASES` is `crates/paddle/tests/golden`, whose recorded calls are made with one
attribute changed. A row passes if PaddlePaddle computes each allowed value in some call, or `ABSENT` has the reason, and rejects
another value in all calls, or `LENIENT` has what it computes instead. An entry of the lists that does not occur is an error. That
Lodstone rejects the other value is a test of its own.
"""

import hashlib
import os
import select
import signal
import sys
from collections import defaultdict

import numpy as np

os.environ.setdefault("GLOG_minloglevel", "3")

# The timeout of a call, in seconds.
LONGEST = 10

# The calls in which a value is tried, at most.
CALLS = 4

# Values that PaddlePaddle 2.6.2 computes in no call: an operator, or with an attribute and a value: the reason.
ABSENT = {
    "pad2d": "no call is recorded",
    "momentum": "no call is recorded here; the optimizers are",
    ("depthwise_conv2d_transpose", "data_format", "NHWC"): "its call has the channels first",
}

# Other values that it does not reject: the attribute: the value whose results it returns; `None` if they are undefined.
LENIENT = {
    "data_format": "NCHW",
    ("pad3d", "data_format"): None,
    "fuse_activation": "",
    "fuse_brelu": "false",
    "fuse_relu": "false",
    "fuse_residual_connection": "false",
    "fuse_with_relu": "false",
    ("grid_sampler", "mode"): None,
    "padding_algorithm": "EXPLICIT",
    "padding_mode": "zeros",
    "pooling_type": None,
    ("nll_loss", "reduction"): "sum",
}


def rows(path):
    for line in open(path):
        attribute, kinds, values = line.rstrip("\n").split("\t")
        for kind in kinds.split(" "):
            yield kind, attribute, ["" if value == '""' else value for value in values.split(" ")]


class Probe:
    """Makes the recorded calls with other values."""

    def __init__(self, operators, table):
        self.recorder, self.core = operators.Recorder(), operators.core
        self.sets = defaultdict(list)
        for kind, attribute, values in table:
            self.sets[kind].append((attribute, values))
        # Operator, attribute and value: how often it was computed and rejected, and which values have equal results.
        self.tried, self.computed, self.equal = defaultdict(int), defaultdict(int), defaultdict(set)

    def case(self, kind, inputs, attributes=None, outputs=("Out",), silent=()):
        for attribute, values in self.sets[kind]:
            results = {}
            for value in [*values, None]:
                key = (kind, attribute, value)
                if self.tried[key] >= CALLS and (value is None or self.computed[key] or self.tried[key] >= 40):
                    continue
                self.tried[key] += 1
                found = self.run(kind, inputs, attributes or {}, outputs, silent, attribute, value)
                if found is not None:
                    self.computed[key] += 1
                    results[value] = found
            if None in results:
                self.equal[kind, attribute] |= {value for value, found in results.items() if found == results[None]} - {None}

    def run(self, kind, inputs, attributes, outputs, silent, attribute, value):
        """The results of a call, in a process of its own; `None` if PaddlePaddle rejects it or dies."""
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            status = 1
            try:
                program, op, feed = self.recorder.build(kind, inputs, attributes, outputs)
                op.desc._set_attr(attribute, self.typed(kind, attribute, value))
                slots = [slot for slot in outputs if slot not in silent]
                fetched = [name for slot in slots for name in op.output(slot)]
                found = self.recorder.executor.run(program, feed=feed, fetch_list=fetched, return_numpy=False)
                text = b"".join(repr(np.asarray(it).shape).encode() + np.asarray(it).tobytes() for it in found)
                os.write(theirs, hashlib.sha256(text).digest())
                status = 0
            finally:
                os._exit(status)
        os.close(theirs)
        # Some calls stand still.
        if not select.select([ours], [], [], LONGEST)[0]:
            os.kill(child, signal.SIGKILL)
        with os.fdopen(ours, "rb") as answer:
            found = answer.read()
        _, status = os.waitpid(child, 0)
        return found if status == 0 else None

    def typed(self, kind, attribute, value):
        """A value with the type of the attribute; `None` stands for one that is not allowed."""
        first = next(values for name, values in self.sets[kind] if name == attribute)[0]
        if first in ("true", "false"):
            return value != "false"
        if first.lstrip("-").isdigit():
            return 77 if value is None else int(value)
        return "no_such_value" if value is None else value


def main(table, cases):
    sys.path.insert(0, cases)
    import make_paddle_operators as operators
    import make_paddle_sequences as sequences

    operators.paddle.enable_static()
    probe = Probe(operators, list(rows(table)))
    operators.case = probe.case
    sequences.forward.case = probe.case
    sequences.backward.case = lambda *call: None
    for family in operators.FAMILIES + sequences.FAMILIES:
        family()
    wrong, absent, lenient = [], set(), set()
    for kind, attribute, values in rows(table):
        for value in values:
            if not probe.computed[kind, attribute, value]:
                key = next((key for key in [(kind, attribute, value), kind] if key in ABSENT), None)
                absent.add(key)
                if key is None:
                    wrong.append(f"{kind}: no call computes `{attribute}` {value!r} of {probe.tried[kind, attribute, value]}")
        if probe.computed[kind, attribute, None]:
            key = next((key for key in [(kind, attribute), attribute] if key in LENIENT), None)
            lenient.add(key)
            if key is None or not probe.equal[kind, attribute] & {LENIENT[key]} and LENIENT[key] is not None:
                wrong.append(f"{kind}: another `{attribute}` computes {probe.equal[kind, attribute]}")
    wrong += [f"{key!r} of ABSENT does not occur" for key in ABSENT.keys() - absent]
    wrong += [f"{key!r} of LENIENT does not occur" for key in LENIENT.keys() - lenient]
    for line in wrong:
        print(line)
    print(f"{sum(probe.tried.values())} calls of {len(probe.sets)} operators")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])

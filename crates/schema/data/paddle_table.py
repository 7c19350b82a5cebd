"""Reads and writes `paddle_operators.tsv`, beside this file: a row for each operator of PaddlePaddle.

`crates/schema/src/paddle/operators.rs` describes the columns. The columns `releases` to `outputs`, and those of the
gradient, come from PaddlePaddle, by the two scripts that use this file; the others between are decided by hand.
"""
import os

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_operators.tsv")

# The decisions for an operator that has just been added: its columns from `computation` on. A risk of `?` fails the tests
# until someone decides it.
UNDECIDED = ["-", "?", "?", "-", "-", "-", "-"]


class Row:
    """An operator: `releases` is a set of versions, the slots are `{name: marks}`."""

    def __init__(self, columns=()):
        releases, inputs, outputs, *rest = columns or ("-", "", "", *UNDECIDED, "-")
        self.releases = set(releases.split()) - {"-"}
        self.inputs, self.outputs = parse_slots(inputs), parse_slots(outputs)
        self.decisions, self.gradient = rest[:len(UNDECIDED)], rest[len(UNDECIDED):]

    def columns(self):
        releases = " ".join(sorted(self.releases)) or "-"
        slots = [print_slots(self.inputs), print_slots(self.outputs)]
        return [releases, *slots, *self.decisions, *self.gradient]


def parse_slots(text):
    names = {}
    for word in text.split():
        name = word.rstrip("?*")
        names[name] = word[len(name):]
    return names


def print_slots(slots):
    return " ".join(name + marks for name, marks in slots.items())


def read():
    """The rows by operator."""
    with open(TABLE) as table:
        lines = [line.split("\t") for line in table.read().splitlines()]
    return {name: Row(columns) for name, *columns in lines}


def write(rows):
    with open(TABLE, "w") as table:
        for name, row in sorted(rows.items()):
            table.write("\t".join([name, *row.columns()]) + "\n")
    print(len(rows), "operators")

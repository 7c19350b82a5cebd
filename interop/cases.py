"""Loads and compares a list of cases, and counts the results; shared by the other scripts."""

import json
import os
import sys


class Mismatch(Exception):
    """The loaded values differ from the expected ones."""


def require(what, found, expected):
    if found != expected:
        raise Mismatch("{} is {}, expected {}".format(what, found, expected))


def describe(error):
    """Returns the message of a library's error, on one line."""
    return "{}: {}".format(type(error).__name__, error)


def run(usage, load, describe=describe):
    """Loads every case of DIR/expect.json with `load(case, DIR)`, prints the outcome of each, and exits.

    `describe` returns the message of an error other than a mismatch, on one line.
    """
    if len(sys.argv) != 2:
        sys.exit(usage)
    root = sys.argv[1]
    with open(os.path.join(root, "expect.json"), encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    failed = 0
    for case in cases:
        label = "{} {}".format(case["load"], case["path"])
        try:
            load(case, root)
            print("ok {} ({} tensors)".format(label, len(case.get("tensors", []))))
        except Exception as error:
            failed += 1
            problem = str(error) if isinstance(error, Mismatch) else describe(error)
            print("FAILED {}: {}".format(label, problem))
    print("{} passed, {} failed".format(len(cases) - failed, failed))
    sys.exit(1 if failed else 0)

"""Compares the results of Lodstone's runtime with PaddlePaddle's."""
import json
import os

import numpy as np

# The tolerances: relative to PaddlePaddle's number, and to the largest of its tensor.
NEAR = {"float32": (2e-5, 4e-6), "float64": (2e-6, 1e-7)}

# Operators for which PaddlePaddle computes positions or sums in single precision for every element type.
SINGLE = ("_interp", "_interp_v2", "_interp_grad", "_interp_v2_grad")


# Operators that subtract nearly equal numbers, which loses precision in both implementations.
CANCELLING = {"batch_norm_grad", "gelu_grad", "norm_grad"}


class Result:
    """A call with its difference, which is empty if the results are equal."""

    def __init__(self, call, feed, wanted, found, problem):
        self.name, self.kind, self.attributes = call["name"], call["kind"], call["attributes"]
        self.feed, self.wanted, self.found, self.problem = feed, wanted, found, problem

    def describe(self):
        feed = {variable: f"{array.dtype}{list(array.shape)}" for variable, array in self.feed.items()}
        return f"{self.name}: {self.problem}\n    {feed} {self.attributes}"


def results(directory):
    """Compares all calls of a directory."""
    calls, found = (load(directory, name) for name in ["calls.json", "found.json"])
    elements, own = (read(directory, name) for name in ["elements.bin", "found.bin"])
    for call, ran in zip(calls, found):
        feed = {variable: array(fact, elements) for variable, fact in call["feed"].items()}
        wanted = {variable: array(fact, elements) for variable, fact in call["wanted"].items()}
        if "outside" in call:
            attribute = f"`{call['outside']}`"
            is_named = attribute in ran.get("error", "")
            problem = "" if is_named else f"expected an error that names {attribute}, found {ran.get('error', 'results')}"
            yield Result(call, feed, {}, {}, problem)
            continue
        if "error" in ran:
            yield Result(call, feed, wanted, {}, ran["error"])
            continue
        ours = {variable: array(fact, own) for variable, fact in ran["found"].items()}
        problems = []
        for variable, values in wanted.items():
            names = call["wanted"][variable][0], ran["found"][variable][0]
            room = NEAR["float32"] if call["kind"].endswith(SINGLE) else NEAR.get(names[0])
            if room and call["kind"] in CANCELLING:
                room = tuple(10 * part for part in room)
            problem = difference(values, ours[variable], names, room)
            if problem:
                problems.append(f"`{variable}` {problem}")
        yield Result(call, feed, wanted, ours, "; ".join(problems))


def load(directory, name):
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        return json.load(file)


def read(directory, name):
    with open(os.path.join(directory, name), "rb") as file:
        return file.read()


def array(fact, elements):
    name, shape, begin = fact
    count = int(np.prod(shape))
    # NumPy has no `bfloat16`: its bits are compared.
    return np.frombuffer(elements, "uint16" if name == "bfloat16" else name, count, begin).reshape(shape)


def difference(wanted, found, names, room):
    """Describes the difference; empty if there is none."""
    name, own_name = names
    if (name, wanted.shape) != (own_name, found.shape):
        return f"is {own_name}{list(found.shape)}, expected {name}{list(wanted.shape)}"
    if name in ("float16", "bfloat16"):
        same = wanted.view("uint16") == found.view("uint16")
    elif room:
        same = near(wanted.astype("float64"), found.astype("float64"), *room)
    else:
        same = wanted == found
    if np.all(same):
        return ""
    places = np.flatnonzero(~np.reshape(same, -1))
    some = [(int(place), wanted.reshape(-1)[place].item(), found.reshape(-1)[place].item()) for place in places[:4]]
    listed = ", ".join(f"[{place}] is {ours!r}, expected {theirs!r}" for place, theirs, ours in some)
    return f"{len(places)} of {wanted.size} elements differ: {listed}"


def near(wanted, found, relative, absolute):
    with np.errstate(all="ignore"):
        finite = np.abs(wanted[np.isfinite(wanted)])
        # The lowest number stands for a missing value.
        finite = finite[finite < 1e30]
        room = absolute * max(1.0, finite.max() if finite.size else 0.0)
        close = np.abs(wanted - found) <= room + relative * np.abs(wanted)
        return (wanted == found) | (np.isnan(wanted) & np.isnan(found)) | (close & np.isfinite(wanted))

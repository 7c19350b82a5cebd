"""Runs of models."""

from __future__ import annotations

import array
import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from . import _lodstone
from ._files import of_buffer
from ._lodstone import Tensor
from ._model import Model, Path
from ._options import RUNNING, RunOptions, listed, with_defaults
from ._work import plain

Inputs = Mapping[str, Any] | Sequence[Any]


class Session:
    """A model that is ready to run, any number of times and with inputs of any shapes that it accepts.

    >>> import numpy as np
    >>> session = lodstone.open("examples/digits/paddle").session(threads=1)
    >>> session.inputs, session.outputs
    (['image'], ['save_infer_model/scale_0.tmp_0'])
    >>> session([np.zeros([1, 1, 8, 8], "float32")])["save_infer_model/scale_0.tmp_0"].shape
    (1, 10)
    """

    def __init__(self, session: _lodstone.Session) -> None:
        self._session = session

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that have no default, in the order of the program."""
        return self._session.inputs

    @property
    def outputs(self) -> list[str]:
        """The names of what a run returns, in order."""
        return self._session.outputs

    def run(self, inputs: Inputs) -> dict[str, Any]:
        """Runs the model once, as `Model.run` does."""
        return self._session.run(values(inputs))

    __call__ = run

    def profile(self) -> list[dict[str, Any]]:
        """Returns the `type`, `name`, `calls` and `seconds` of each operator in all runs, the slowest first.

        The session must have been created with `profile=True`.
        """
        return self._session.profile()

    def __repr__(self) -> str:
        return f"<lodstone.Session {', '.join(self.inputs)}>"


def compare(
    a: Model | Path,
    b: Model | Path,
    inputs: Inputs = (),
    *,
    seed: int = 0,
    shapes: Mapping[str, Iterable[int]] | None = None,
    types: Mapping[str, str] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    outputs_only: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    engine: str = "builtin",
    engine_b: str | None = None,
    engine_path: Path | None = None,
) -> dict[str, Any]:
    """Runs two models, or the models at two paths, on the same inputs, and compares their values.

    Inputs that are not given are random, as those of `Model.random_inputs` with `seed`, `shapes` and `types`. `engine_b` is
    the engine of the second model, if it is another one. The result is the
    JSON of `lodstone compare --json`: `same`, and for each value that both models compute whether it agrees
    (|a - b| <= atol + rtol * |b|).

    >>> found = lodstone.compare("examples/digits/paddle", "examples/digits/paddle")
    >>> found["same"], [value["a"] for value in found["values"] if value["is_output"]]
    (True, ['save_infer_model/scale_0.tmp_0'])
    """
    if engine_path is None and engine_b == "onnxruntime":
        engine_path = installed()
    running = options(threads=threads, memory_limit=memory_limit, engine=engine, engine_path=engine_path)
    given, dims, dtypes = values(inputs), plain_shapes(shapes), dict(types or {})
    return _lodstone.compare(
        plain(a), plain(b), given, seed, dims, dtypes, rtol, atol, outputs_only, engine_b, running
    )


def options(**options: Unpack[RunOptions]) -> dict[str, Any]:
    """Returns the options of runs, in the form that the extension takes."""
    given = with_defaults(options, RUNNING)
    given["fetch"] = listed(given["fetch"])
    if given["engine"] == "onnxruntime" and given["engine_path"] is None:
        given["engine_path"] = installed()
    return given


def installed() -> str | None:
    """Returns the directory with the library of the package `onnxruntime`, if it is installed; it is not imported."""
    found = importlib.util.find_spec("onnxruntime")
    directories = found.submodule_search_locations if found else None
    return os.path.join(directories[0], "capi") if directories else None


def plain_shapes(shapes: Mapping[str, Iterable[int]] | None) -> dict[str, list[int]]:
    """Returns shapes as lists."""
    return {name: list(shape) for name, shape in (shapes or {}).items()}


def values(inputs: Inputs) -> list[tuple[str, Any]]:
    """Returns inputs as pairs of a name and a value. Inputs in a sequence have no names."""
    if isinstance(inputs, Mapping):
        for name in inputs:
            if not isinstance(name, str):
                raise TypeError(f"argument 'inputs': expected names, found {name!r}")
        return [(name, value_of(name, value)) for name, value in inputs.items()]
    if isinstance(inputs, (str, bytes)) or not isinstance(inputs, Sequence):
        found = type(inputs).__name__
        raise TypeError(f"argument 'inputs': expected a mapping of names to arrays, or a list of arrays, found {found}")
    return [("", value_of("", value)) for value in inputs]


def value_of(name: str, value: Any) -> Any:
    """Returns a value in the form that the extension takes."""
    if value is None:
        return None
    if isinstance(value, list):
        return [value_of(name, one) for one in value]
    if isinstance(value, Mapping):
        return keys_of(name, list(value)), [value_of(name, one) for one in value.values()]
    return tensor(name, value)


def keys_of(name: str, keys: list[Any]) -> Tensor:
    """Returns the keys of a map as a tensor."""
    if all(isinstance(key, str) for key in keys):
        return Tensor._strings(name, (len(keys),), [key.encode() for key in keys])
    return of_buffer(name, array.array("q", keys))


def tensor(name: str, value: Any) -> Tensor:
    """Makes a tensor from a tensor or array of any framework."""
    if isinstance(value, Tensor):
        return value.renamed(name)
    module = type(value).__module__.partition(".")[0]
    if module == "torch":
        from . import torch

        return torch.tensor(name, value)
    if module == "paddle":
        from . import paddle

        return paddle.tensor(name, value)
    if module == "numpy" or hasattr(value, "__array__"):
        from . import numpy

        return numpy.tensor(name, value)
    try:
        return of_buffer(name, value)
    except TypeError:
        what = f"input `{name}`: expected an array or a tensor, found {type(value).__name__}"
        raise TypeError(what) from None


__all__ = ["Session", "compare"]

"""Checkpoints of arrays and of programs.

A `Manager` writes numbered directories with checksums, each complete, and restores them exactly.

    >>> import array
    >>> with lodstone.checkpoint.Manager(tmp / "run", keep=3) as manager:
    ...     saved = manager.save(120, {"w": array.array("f", [1, 2])}, metadata={"epoch": 7})
    >>> lodstone.checkpoint.steps(tmp / "run")
    [120]
    >>> lodstone.checkpoint.load(tmp / "run")["w"]
    <lodstone.Tensor "w" float32[2]>
    >>> lodstone.checkpoint.manifest(tmp / "run")["metadata"]
    {'epoch': 7}

The module of a framework converts tensors to its arrays: `lodstone.numpy.array(tensor)`.

A program can also save its own checkpoint: `make_checkpoint` appends operators to it, and writes the *loader*, a program
that restores the checkpoint when it is run.

    >>> import numpy as np
    >>> from lodstone.checkpoint import get_checkpoint_loader, make_checkpoint
    >>> from lodstone.program import Executor, Network, Scope, layers, optimizer
    >>> with Network() as net:
    ...     loss = layers.mean(layers.fc(layers.data("x", [4]), 1))
    ...     pairs = optimizer.SGD(0.1).minimize(loss)
    >>> make_checkpoint(tmp / "checkpoint", None, net.startup, net.main)
    >>> executor, scope = Executor(), Scope()
    >>> executor.run(net.startup, scope=scope)
    []
    >>> losses = executor.run(net.main, {"x": np.ones((2, 4), np.float32)}, [loss], scope=scope)
    >>> again = Scope()
    >>> executor.run(get_checkpoint_loader(tmp / "checkpoint"), scope=again)
    []
    >>> all(np.array_equal(scope[name], again[name]) for name in again)
    True
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _lodstone
from ._checks import checked, wrong
from ._files import of_buffer
from ._lodstone import Tensor
from ._model import Model, Path
from ._options import Progress

if TYPE_CHECKING:
    from .program import Program, Scope, Variable

__all__ = [
    "Manager",
    "build_checkpoint_loader",
    "get_checkpoint_loader",
    "is_parameter",
    "is_persistable",
    "latest",
    "load",
    "make_checkpoint",
    "manifest",
    "restore",
    "steps",
    "verify",
]


class Manager:
    """Writes checkpoints to a directory, with an exclusive lock until it is closed.

    `keep` is the number of checkpoints to keep, the newest and at least one intact one [default: all]. `container`
    selects the files of the arrays: `"combined"`, `"each"`, `"sized"` or `"safetensors"`. `tensor` is a function that
    makes a tensor from a name and an array, for arrays without a buffer: `lodstone.torch.tensor`.
    """

    @checked
    def __init__(
        self,
        directory: Path,
        *,
        keep: int | None = None,
        container: str = "combined",
        tensor: Callable[[str, Any], Tensor] = of_buffer,
    ) -> None:
        if keep is not None and keep < 1:
            raise ValueError(f"argument 'keep': expected at least 1, found {keep}")
        self._manager = _lodstone.Manager(directory, keep, container)
        self._tensor = tensor

    @checked
    def save(
        self,
        step: int,
        tensors: Mapping[str, Any],
        *,
        metadata: Mapping[str, Any] | None = None,
        background: bool = False,
    ) -> dict[str, Any] | None:
        """Saves arrays as the checkpoint of a step; it is durable when this returns.

        `metadata` is any JSON object. With `background`, arrays are copied and saved after this returns: it returns the
        outcome of the previous background save, if there was one, or raises its error.
        """
        _check_step(step)
        values = [
            value.renamed(name) if isinstance(value, Tensor) else self._tensor(name, value)
            for name, value in tensors.items()
        ]
        return self._manager.save(step, values, _json(metadata), background)

    @checked
    def save_program(
        self,
        step: int,
        main_program: Program,
        startup_program: Program,
        scope: Scope | None = None,
        *,
        predicate: Callable[[Variable], bool] | None = None,
        metadata: Mapping[str, Any] | None = None,
        background: bool = False,
    ) -> dict[str, Any] | None:
        """Saves the persistable variables of a program, with a loader that restores them, as the checkpoint of a step.

        The values are those of `scope` [default: `global_scope()`]; `predicate` selects variables, and the loader
        initializes the others as the startup program does. `restore` continues exactly from there: the state of random
        numbers is saved, too. Nothing is copied: training goes on during a save in the background.
        """
        from .program import global_scope
        from .program._core import check_program, scope_of

        _check_step(step)
        check_program("main_program", main_program)
        check_program("startup_program", startup_program)
        names = None if predicate is None else [var.name for var in main_program.list_vars() if predicate(var)]
        if names == []:
            raise ValueError("argument 'predicate': it accepts none of the variables")
        contents = _lodstone.Contents(main_program._program, startup_program._program, names)
        target = scope_of("scope", global_scope() if scope is None else scope)
        return self._manager.save_program(step, contents, target, _json(metadata), background)

    def _save_training(self, training: _lodstone.Training, background: bool) -> None:
        self._manager.save_training(training, background)

    def wait(self) -> dict[str, Any] | None:
        """Waits for the background save, and returns its outcome."""
        return self._manager.wait()

    @checked
    def prune(self, keep: int) -> list[int]:
        """Removes all but the newest `keep` checkpoints, and returns the removed steps."""
        return self._manager.prune(keep)

    @checked
    def rewind(self, step: int) -> list[int]:
        """Removes the checkpoints after a step, and returns their steps."""
        return self._manager.rewind(step)

    def close(self) -> None:
        """Waits for the background save, and releases the lock of the directory."""
        self._manager.close()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_step(step: int) -> None:
    if not 0 <= step < 2**63:
        raise ValueError(f"argument 'step': expected a number from 0 to {2**63 - 1}, found {step}")


def _json(metadata: Mapping[str, Any] | None) -> str:
    try:
        return json.dumps(dict(metadata or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"argument 'metadata': {error}") from None


@checked
def steps(directory: Path) -> list[int]:
    """Returns the steps of the checkpoints in a directory, oldest first."""
    return _lodstone.checkpoint_steps(directory)


@checked
def latest(directory: Path) -> int | None:
    """Returns the newest step in a directory; None if it has none, or does not exist yet.

    >>> from lodstone.checkpoint import latest
    >>> latest(tmp / "nothing") is None
    True
    """
    if not os.path.isdir(directory):
        return None
    return max(steps(directory), default=None)


@checked
def load(directory: Path, step: int | None = None) -> Model:
    """Returns the tensors of a checkpoint, the newest by default; they are read and verified on first access."""
    return Model(_lodstone.checkpoint_load(directory, step))


@checked
def manifest(directory: Path, step: int | None = None) -> dict[str, Any]:
    """Returns the manifest of a checkpoint: variables, checksums, and the saved `metadata`."""
    return _lodstone.checkpoint_manifest(directory, step)


@checked
def verify(directory: Path, step: int | None = None, *, progress: Progress | None = None) -> list[str]:
    """Verifies a checkpoint and returns its defects, an empty list if it is intact. Reads the whole checkpoint."""
    return _lodstone.checkpoint_verify(directory, step, progress)


@checked
def restore(
    directory: Path,
    step: int | None = None,
    scope: Scope | None = None,
    *,
    program: Program | None = None,
    partial: bool = False,
    rename: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Restores a checkpoint, the newest by default, into a scope [default: `global_scope()`], after it was verified.

    Returns its `step` and `metadata`, the names of the variables that were `loaded` and `initialized`, and `warnings`.
    With `program`, its variables are restored, and must all match those of the checkpoint unless `partial`; `rename` maps
    names in the checkpoint to names in the program.
    """
    from .program import global_scope
    from .program._core import check_program, scope_of

    if program is not None:
        check_program("program", program)
    target = scope_of("scope", global_scope() if scope is None else scope)
    if step is not None:
        _check_step(step)
    if not all(isinstance(name, str) for name in (rename or {}).values()):
        raise TypeError(wrong("rename", "a mapping of names to names", rename))
    if program is None and (partial or rename):
        raise ValueError("argument 'program': required with `partial` and `rename`")
    inner = None if program is None else program._program
    return _lodstone.restore_checkpoint(directory, step, target, inner, partial, dict(rename or {}))


def is_persistable(var: Variable) -> bool:
    """Returns whether a variable outlives a run, and has a value to save: a predicate for `make_checkpoint`."""
    found: bool = var._facts["is_saved"]
    return found


def is_parameter(var: Variable) -> bool:
    """Returns whether a variable is a parameter, which optimizers update: a predicate for inference models."""
    found: bool = var._facts["is_parameter"]
    return found


@checked
def build_checkpoint_loader(
    load_var_list: Iterable[Variable],
    startup_program: Program | None = None,
    *,
    filename: str | None = None,
    merged: bool = False,
    records: Iterable[str] | None = None,
) -> Program:
    """Returns the program that loads variables, and initializes all others as the startup program does.

    File names are relative to the directory in which the loader is run. Each variable has a file, or all are in
    `filename`; `records` names all variables in a `merged` file, in their order.
    """
    from .program import Program, Variable
    from .program._core import check_program
    from .program._files import placement

    if not isinstance(load_var_list, Iterable):
        raise TypeError(wrong("load_var_list", "Variables", load_var_list))
    variables = list(load_var_list)
    if not variables:
        raise ValueError("argument 'load_var_list': expected at least one variable")
    for var in variables:
        if not isinstance(var, Variable):
            raise TypeError(wrong("load_var_list", "Variables", var))
    if startup_program is not None:
        check_program("startup_program", startup_program)
    names, order = [var.name for var in variables], None if records is None else list(records)
    startup = None if startup_program is None else startup_program._program
    source = variables[0].program._program
    place = placement(filename, merged)
    return Program(_lodstone.build_checkpoint_loader(names, source, startup, place, order))


@checked
def make_checkpoint(
    dir: Path,
    predicate: Callable[[Variable], bool] | None = None,
    startup_program: Program | None = None,
    main_program: Program | None = None,
    every: int = 1,
    filename: str | None = "params",
) -> None:
    """Appends operators to the main program that save its variables to a directory, and writes their loader there.

    Each run of the main program saves; with `every`, one of so many runs does, which both programs count. The operators
    save the persistable variables that the predicate accepts [default: all], and the loader initializes the others.
    Called after an optimizer, this saves all that training resumes from; called before it, the model for inference, as
    it was before the step of each run. Operators of an earlier call that save variables before an optimizer updates them
    are a warning. Variables have a file each if `filename` is None.

    Running the main program saves to `dir`, unless the executor is given another directory. The programs are by default
    those that layers are appended to.
    """
    from .program import Program, default_main_program, default_startup_program
    from .program._core import check_program
    from .program._files import placement

    startup = default_startup_program() if startup_program is None else startup_program
    main = default_main_program() if main_program is None else main_program
    check_program("startup_program", startup)
    check_program("main_program", main)
    if startup is main:
        raise ValueError("argument 'startup_program': expected another program than 'main_program'")
    if every < 1:
        raise ValueError(f"argument 'every': expected at least 1, found {every}")
    names = None
    if predicate is not None:
        completed = Program(_lodstone.checkpointed_program(startup._program, main._program))
        names = [var.name for var in completed.list_vars() if predicate(var)]
        if not names:
            raise ValueError("argument 'predicate': it accepts none of the variables")
    main._check_directory(dir)
    place = placement(filename)
    for warning in _lodstone.make_checkpoint(dir, names, startup._program, main._program, every, place):
        warnings.warn(warning, stacklevel=2)
    main._save_under(dir)


@checked
def get_checkpoint_loader(dir: Path) -> Program:
    """Returns the loader of the checkpoint in a directory, which `make_checkpoint` or a `Manager` wrote.

    Running it loads from that directory.
    """
    from .program import Program

    loader = Program(_lodstone.get_checkpoint_loader(dir))
    loader._save_under(dir)
    return loader

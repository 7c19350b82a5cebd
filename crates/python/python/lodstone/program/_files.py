"""Programs in files, and operators that save and load."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from errno import ENOENT
from typing import Any

from .. import _lodstone
from .._model import Path
from ..checkpoint import is_parameter, is_persistable
from .._checks import checked
from ._core import Operator, Program, Variable, check_program, default_main_program, names_of
from ._run import Executor, Scope, global_scope

Placement = tuple[str, str]


def placement(filename: str | None, merged: bool = False) -> Placement:
    """Returns the files of variables: one for each variable, or one for all."""
    if filename is None:
        return "each", ""
    return ("merged" if merged else "combined"), os.fspath(filename)


@checked
def save_program(program: Program, dir: Path, *, text: bool = False) -> None:
    """Writes a program to `__model__` in a directory, which need not exist; with `text`, to `__model__.txt`.

    >>> from lodstone.program import Program, load_program, save_program
    >>> save_program(Program(), tmp / "program")
    >>> load_program(tmp / "program")
    <lodstone.Program 1 block, 0 operators, 0 variables>
    """
    _lodstone.save_program(program._program, dir, text)


def load_program(dir: Path) -> Program:
    """Reads the program of a directory, which `save_program` or PaddlePaddle wrote."""
    return Program(_lodstone.load_program(dir))


@checked
def save(
    var_list: Iterable[Variable | str],
    dir: Path = "",
    program: Program | None = None,
    *,
    filename: str | None = None,
    merged: bool = False,
    overwrite: bool = True,
) -> None:
    """Appends operators to a program that save variables when it is run; nothing is saved now.

    `dir` is relative to the directory of the run, by default the working directory. Each variable has a file, or
    all are in `filename`, sorted by name. With `merged`, the size of each record precedes it, so that single variables
    are loaded without reading the others; only this package has such operators. Without `overwrite`, a run fails if a
    file exists.
    """
    program = _program(var_list, program)
    names = names_of("var_list", var_list)
    base, relative = _relative(dir)
    place = placement(filename, merged)
    program._check_directory(base)
    _lodstone.append_save(program._program, names, relative, place, overwrite)
    program._save_under(base)


@checked
def load(
    var_name_list: Iterable[Variable | str],
    dir: Path = "",
    program: Program | None = None,
    *,
    source: Program | None = None,
    filename: str | None = None,
    merged: bool = False,
    records: Iterable[str] | None = None,
) -> None:
    """Appends operators to a program that load variables when it is run.

    Variables that the program lacks are declared as in their own program, or in `source` [default: the program that
    layers are appended to]. `records` names all variables in a file, in their order [default: that of the operators that save it, or the order of the names].
    """
    is_one = isinstance(var_name_list, (str, Variable))
    variables = [var_name_list] if is_one else list(var_name_list)
    program = _program([], program)
    if source is None:
        others = [one.program for one in variables if isinstance(one, Variable)]
        source = others[0] if others else _with_all(variables, program)
    base, relative = _relative(dir)
    names, order = names_of("var_name_list", variables), None if records is None else list(records)
    place = placement(filename, merged)
    program._check_directory(base)
    _lodstone.append_load(program._program, names, source._program, relative, place, order)
    program._save_under(base)


@checked
def save_vars(
    executor: Executor,
    dirname: Path,
    main_program: Program | None = None,
    vars: Iterable[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Saves variables of the current scope now, by a program that only saves."""
    main = main_program or default_main_program()
    names = _selected(main, vars, predicate)
    _transfer(executor, main, names, dirname, filename, is_saved=True)


@checked
def load_vars(
    executor: Executor,
    dirname: Path,
    main_program: Program | None = None,
    vars: Iterable[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Loads variables into the current scope now, by a program that only loads."""
    main = main_program or default_main_program()
    names = _selected(main, vars, predicate)
    _transfer(executor, main, names, dirname, filename, is_saved=False)


@checked
def save_params(executor: Executor, dirname: Path, main_program: Program | None = None, filename: str | None = None) -> None:
    """Saves the parameters now. Statistics and counters are not parameters: `save_persistables` saves them too."""
    save_vars(executor, dirname, main_program, None, is_parameter, filename)


@checked
def load_params(executor: Executor, dirname: Path, main_program: Program | None = None, filename: str | None = None) -> None:
    """Loads the parameters now."""
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


@checked
def save_persistables(
    executor: Executor, dirname: Path, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Saves all persistable variables now."""
    save_vars(executor, dirname, main_program, None, None, filename)


@checked
def load_persistables(
    executor: Executor, dirname: Path, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Loads all persistable variables now."""
    load_vars(executor, dirname, main_program, None, None, filename)


@checked
def save_inference_model(
    dirname: Path,
    feeded_var_names: Iterable[Variable | str],
    target_vars: Variable | str | Iterable[Variable | str],
    executor: Executor | None = None,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    *,
    scope: Scope | None = None,
) -> list[str]:
    """Writes the inference program that computes targets from inputs, and its parameters, for PaddlePaddle and
    `lodstone.open`; returns the names of the targets.

    Parameters are those of `scope` [default: `global_scope()`], and have a file each, or are all in `params_filename`.
    `executor` has no effect.
    """
    targets = names_of("target_vars", target_vars)
    feeds = names_of("feeded_var_names", feeded_var_names)
    main = main_program or _owner(target_vars) or default_main_program()
    program = main.inference(feeds, targets)
    model = program.model(global_scope() if scope is None else scope)
    missing = [var.name for var in program.list_vars() if is_persistable(var) and var.name not in model]
    if missing:
        raise ValueError(f"argument 'scope': variables have no value: {', '.join(sorted(missing))}")
    _lodstone.save_model(model._model, dirname, model_filename or "__model__", params_filename)
    return targets


@checked
def load_inference_model(
    dirname: Path,
    executor: Executor | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    *,
    scope: Scope | None = None,
) -> tuple[Program, list[str], list[Variable]]:
    """Loads a model that `save_inference_model` or PaddlePaddle wrote: the program, the names of its inputs, and its
    outputs. Parameters are put into the scope. `executor` has no effect.
    """
    from .._model import open

    path = os.path.join(dirname, model_filename) if model_filename else dirname
    params = os.path.join(dirname, params_filename) if params_filename else None
    model = open(path, params=params)
    program = Program(_lodstone.program_of(model._model))
    target = global_scope() if scope is None else scope
    for name, value in model.items():
        target[name] = value
    block = program.global_block()
    # PaddlePaddle writes the last input first: the column counts.
    feeds = sorted((op for op in block.ops if op.type == "feed"), key=_column)
    fetches = sorted((op for op in block.ops if op.type == "fetch"), key=_column)
    return program, [op.output("Out")[0] for op in feeds], [block.var(op.input("X")[0]) for op in fetches]


def _column(op: Operator) -> int:
    found: int = op.attr("col")
    return found


def _program(vars: Any, program: Program | None) -> Program:
    found = program or _owner(vars) or default_main_program()
    check_program("program", found)
    return found


def _with_all(names: list[Any], program: Program) -> Program:
    """Returns the program, or the one that layers are appended to if the first lacks one of the variables."""
    known = {var.name for var in program.list_vars()}
    return program if known.issuperset(names) else default_main_program()


def _owner(variables: Any) -> Program | None:
    for one in [variables] if isinstance(variables, Variable) else [] if isinstance(variables, str) else variables:
        if isinstance(one, Variable):
            return one.program
    return None


def _relative(dirname: Path) -> tuple[str, str]:
    """Returns the directory that operators are run in, and the path below it that they contain."""
    path = os.fspath(dirname)
    if os.path.isabs(path):
        return path, ""
    plain = os.path.normpath(path) if path else ""
    return ".", "" if plain == "." else plain.replace(os.sep, "/")


def _selected(
    main: Program, vars: Iterable[Variable | str] | None, predicate: Callable[[Variable], bool] | None
) -> list[str]:
    if vars is not None:
        return names_of("vars", vars)
    return [var.name for var in main.list_vars() if is_persistable(var) and (predicate is None or predicate(var))]


def _transfer(
    executor: Executor, main: Program, names: list[str], dirname: Path, filename: str | None, is_saved: bool
) -> None:
    """Runs a program that only saves or loads."""
    if is_saved:
        # Variables that no operator writes keep their declarations, and are saved.
        program = Program(main._program.clone(False))
        for block in program.blocks:
            block.remove_op(0, len(block.ops))
        _lodstone.append_save(program._program, names, "", placement(filename), True)
    else:
        program = Program()
        _lodstone.append_load(program._program, names, main._program, "", placement(filename), None)
    if is_saved:
        os.makedirs(dirname, exist_ok=True)
    elif not os.path.isdir(dirname):
        raise FileNotFoundError(ENOENT, "argument 'dirname': there is no directory", os.fspath(dirname))
    executor.run(program, directory=dirname)


__all__ = [
    "load",
    "load_inference_model",
    "load_params",
    "load_persistables",
    "load_program",
    "load_vars",
    "save",
    "save_inference_model",
    "save_params",
    "save_persistables",
    "save_program",
    "save_vars",
]

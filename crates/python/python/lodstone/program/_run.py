"""Scopes and executors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from .. import _lodstone
from .._imports import not_installed
from .._lodstone import Tensor
from .._model import Path
from .._run import tensor
from .._checks import checked, integers, wrong
from ._core import Program, Variable, check_program, default_main_program, name_of, names_of


class CPUPlace:
    """The processor, on which everything runs; for scripts of PaddlePaddle."""

    def __repr__(self) -> str:
        return "CPUPlace"


def is_compiled_with_cuda() -> bool:
    """Returns False: programs run on the processor. For scripts of PaddlePaddle."""
    return False


class Scope:
    """Variables that outlive a run: parameters, statistics, counters. It maps their names to tensors.

    >>> import numpy as np
    >>> from lodstone.program import Scope
    >>> scope = Scope()
    >>> scope["w"] = np.zeros((2, 3), np.float32)
    >>> scope["w"], list(scope.keys())
    (<lodstone.Tensor "w" float32[2, 3]>, ['w'])

    `memory_limit` is a number of bytes for the tensors that programs create in it [default: what the system permits].
    """

    @checked
    def __init__(self, memory_limit: int | None = None) -> None:
        if memory_limit is not None and memory_limit < 0:
            raise ValueError(f"argument 'memory_limit': expected a number of bytes, found {memory_limit}")
        self._scope = _lodstone.Scope(memory_limit)

    def keys(self) -> list[str]:
        """Returns the names of all variables, sorted."""
        return self._scope.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._scope

    def __getitem__(self, name: str) -> Tensor:
        found = self._scope.tensor(name)
        if found is None:
            raise KeyError(f"the scope has no tensor {name!r}")
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        self._scope.set(name, tensor(name, value))

    def __delitem__(self, name: str) -> None:
        if not self._scope.remove(name):
            raise KeyError(f"the scope has no variable {name!r}")

    def find_var(self, name: str) -> _ScopeVariable | None:
        """Returns a variable, or None; its `get_tensor()` reads and sets the value, as in PaddlePaddle."""
        return _ScopeVariable(self, name) if name in self else None

    def var(self, name: str) -> _ScopeVariable:
        """Returns a variable, which need not have a value yet."""
        return _ScopeVariable(self, name)

    def __repr__(self) -> str:
        return f"<lodstone.Scope {len(self)} variables>"


class _ScopeVariable:
    """A variable of a scope."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope, self._name = scope, name

    def get_tensor(self) -> _ScopeVariable:
        """Returns the variable, which stands for its tensor."""
        return self

    def set(self, value: Any, place: CPUPlace | None = None) -> None:
        """Sets the value."""
        self._scope[self._name] = value

    def shape(self) -> list[int]:
        """Returns the dims."""
        return list(self._scope[self._name].shape)

    def lod(self) -> list[list[int]]:
        """Returns the LoD."""
        return self._scope[self._name].lod

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Any:
        return self._scope[self._name].__array__(dtype, copy=copy)


_process = Scope()
_scope: ContextVar[Scope] = ContextVar("scope")


def global_scope() -> Scope:
    """Returns the scope that executors use: that of `scope_guard`, or one of the process."""
    return _scope.get(_process)


@contextlib.contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Uses a scope in a `with` block."""
    if not isinstance(scope, Scope):
        raise TypeError(wrong("scope", "a Scope", scope))
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


@checked
def create_lod_tensor(data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: CPUPlace | None = None) -> Tensor:
    """Makes a tensor of sequences, from an array and the lengths of the sequences of each level.

    `data` may also be a list of lists of integers, which are the sequences: the rows of the tensor have one integer each.

    >>> import numpy as np
    >>> from lodstone.program import create_lod_tensor
    >>> create_lod_tensor(np.zeros((5, 1), np.int64), [[2, 3]]).lod
    [[0, 2, 5]]
    """
    lod = []
    for lengths in recursive_seq_lens:
        offsets = [0]
        for length in integers("recursive_seq_lens", lengths):
            if length < 0:
                raise ValueError(f"argument 'recursive_seq_lens': expected lengths, found {length}")
            offsets.append(offsets[-1] + length)
        lod.append(offsets)
    return tensor("data", _rows(data, recursive_seq_lens) if isinstance(data, list) else data).with_lod(lod)


def _rows(sequences: list[Any], recursive_seq_lens: Sequence[Sequence[int]]) -> Any:
    """Returns the integers of sequences in a list as the rows of an array."""
    lengths = [len(one) if isinstance(one, (list, tuple)) else -1 for one in sequences]
    if [lengths] != [list(one) for one in recursive_seq_lens]:
        raise ValueError(f"argument 'recursive_seq_lens': expected {[lengths]}, the lengths of the lists in 'data'")
    try:
        import numpy as np
    except ModuleNotFoundError as error:
        raise not_installed(error, "numpy", "numpy") from None
    rows = [value for one in sequences for value in integers("data", one)]
    return np.array(rows, "int64").reshape(-1, 1)




LoDTensor = Tensor


class Executor:
    """Runs programs. Any number of threads may use one executor; runs in one scope take turns.

    >>> from lodstone.program import Executor, Network, Scope, layers
    >>> with Network() as net:
    ...     y = layers.fc(layers.data("x", [2]), 1)
    >>> executor, scope = Executor(), Scope()
    >>> executor.run(net.startup, scope=scope)
    []
    >>> import numpy as np
    >>> executor.run(net.main, {"x": np.ones((3, 2), np.float32)}, [y], scope=scope)[0].shape
    (3, 1)

    `threads` is the number of threads [default: one per processor]. With `check_finite`, a run fails at the first
    operator that returns an infinity or NaN; with `max_steps`, after this number of operators, counting each iteration
    of a loop.
    """

    @checked
    def __init__(
        self,
        place: Any = None,
        *,
        threads: int | None = None,
        check_finite: bool = False,
        max_steps: int | None = None,
    ) -> None:
        if threads is not None and not 1 <= threads <= 1024:
            raise ValueError(f"argument 'threads': expected a number from 1 to 1024, found {threads}")
        if max_steps is not None and max_steps < 0:
            raise ValueError(f"argument 'max_steps': expected at least 0, found {max_steps}")
        self._executor = _lodstone.Executor(threads, check_finite, max_steps)

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Iterable[Variable | str] | Variable | str | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
        *,
        directory: Path | None = None,
    ) -> list[Any]:
        """Runs a program once, and returns the values of the variables in `fetch_list`.

        `feed` maps names of inputs to arrays or tensors of any framework. Without `fetch_list`, the program's own fetch
        operators determine the results. They are NumPy arrays, or, without `return_numpy`, `Tensor`s, which have a LoD.
        Programs are prepared once, until they change: `use_program_cache`, `return_merged`, `use_prune` and the names of
        the variables that hold inputs and results have no effect.

        Persistable variables are read from and written to `scope` [default: `global_scope()`]. If the run fails, the
        scope is unchanged. Operators that save and load do so below `directory` [default: `program.directory`, where
        functions of this module have appended them]; a program from a file has none, so that running it accesses no
        files.
        """
        program = default_main_program() if program is None else program
        check_program("program", program)
        for argument, holder in (("feed_var_name", feed_var_name), ("fetch_var_name", fetch_var_name)):
            if not isinstance(holder, str):
                raise TypeError(f"argument '{argument}': expected a str, found {type(holder).__name__}")
        if scope is not None and not isinstance(scope, Scope):
            raise TypeError(wrong("scope", "a Scope", scope))
        if feed is not None and not isinstance(feed, Mapping):
            raise TypeError(wrong("feed", "a mapping of names to arrays", feed))
        given = [(name_of("feed", name), tensor(str(name), value)) for name, value in (feed or {}).items()]
        wanted = names_of("fetch_list", fetch_list)
        directory = program.directory if directory is None else os.fspath(directory)
        scope = global_scope() if scope is None else scope
        found = self._executor.run(program._program, scope._scope, given, wanted, directory, directory)
        if not return_numpy or not found:
            return list(found)
        from ..numpy import array

        return [array(one) for one in found]

    def close(self) -> None:
        """Does nothing; for scripts of PaddlePaddle."""

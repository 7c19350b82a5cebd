"""Options that several functions take by name, as types: editors complete them, and type checkers check them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

Path = str | os.PathLike[str]

Progress = Callable[[int], object]
"""A function that is called with the number of bytes that have been processed."""


class ReadOptions(TypedDict, total=False):
    """How files are found and checked."""

    params: Path | None
    """The path of the parameters, if they are not in the format's default location."""
    verify: bool
    """Whether sealed files are compared with their seal when they are read. [default: True]"""


class OpenOptions(ReadOptions, total=False):
    """How a model is opened."""

    mmap: bool
    """Whether files may be mapped into memory. [default: True]"""
    raise_limits: int
    """By which factor the limits of tensors, fields and bytes of structure are raised. [default: 1]"""


class LoadOptions(ReadOptions, total=False):
    """How the tensors of a model are loaded."""

    progress: Progress | None
    """A function that is called with the number of bytes read."""
    allow: str | Iterable[str]
    """Names of losses that are accepted."""


class WriteOptions(TypedDict, total=False):
    """How a model is changed and written, as by the command `lodstone convert`."""

    include: str | Iterable[str]
    """Patterns of the names of tensors to keep. [default: all]"""
    exclude: str | Iterable[str]
    """Patterns of the names of tensors to leave out."""
    rename: Mapping[str, str] | None
    """New names of tensors, by their old names or patterns."""
    transpose: str | Iterable[str]
    """Patterns of the names of matrices to transpose."""
    cast: str | None
    """The element type of all floats: `"float16"`, `"bfloat16"`, `"float32"` or `"float64"`."""
    keep_io: bool
    """Whether the inputs and outputs of a program keep their types in a cast."""
    opset: int | None
    """The version of ONNX's operators."""
    custom_ops: str | None
    """The domain in which operators without an equivalent are kept."""
    lod: Mapping[str, Sequence[Sequence[int]]] | None
    """The LoD offsets of inputs, for each level."""
    input_shapes: Mapping[str, Sequence[int | str | None]] | None
    """The dims of inputs."""
    input_types: Mapping[str, str] | None
    """The element types of inputs, where the program does not declare them."""
    input_values: Mapping[str, bool | int | float] | None
    """The values of inputs that are declared as numbers, which become constants."""
    names: str
    """The names of parameters: `"program"` or `"structured"`. [default: "program"]"""
    outputs: str | Iterable[str]
    """Names or patterns of the values that become the outputs of the program. [default: its own]"""
    infer_shapes: bool
    """Whether inferred types are declared in the program."""
    allow: str | Iterable[str]
    """Names of losses that are accepted."""
    weights_only: bool
    """Whether the tensors are written without the program."""
    strip_source: bool
    """Whether paths and source lines of the training script are removed."""
    align: int
    """The alignment of elements in bytes. [default: 0, none]"""
    max_shard_size: int | None
    """The maximum size of a file in bytes."""
    external_data: str | None
    """Where elements of ONNX tensors are written: `"none"`, `"one"` (file) or `"each"`."""
    seal: bool
    """Whether checksums are written beside the model."""
    no_clobber: bool
    """Whether existing files are an error."""


class ConvertOptions(WriteOptions, total=False):
    """How a model is converted."""

    to: str | None
    """The format. [default: that of the extension of the output]"""


class SaveOptions(ConvertOptions, total=False):
    """How tensors are saved."""

    notes: Mapping[str, str] | None
    """Metadata that is dropped if the format has none."""
    progress: Progress | None
    """A function that is called with the number of bytes written."""


class RunOptions(TypedDict, total=False):
    """How a program is run."""

    fetch: str | Iterable[str]
    """The names of the values to return. [default: the outputs]"""
    threads: int | None
    """The number of threads. [default: one per processor]"""
    memory_limit: int | None
    """The maximum memory of a run in bytes."""
    max_steps: int | None
    """The maximum number of operators of a run."""
    engine: str
    """`"builtin"`, `"reference"` or `"onnxruntime"`. [default: "builtin"]"""
    engine_path: Path | None
    """The library of ONNX Runtime. [default: that of the installed package]"""
    profile: bool
    """Whether the operators are measured."""


CONVERTING: ConvertOptions = {
    "to": None,
    "include": (),
    "exclude": (),
    "rename": None,
    "transpose": (),
    "cast": None,
    "keep_io": False,
    "opset": None,
    "custom_ops": None,
    "lod": None,
    "input_shapes": None,
    "input_types": None,
    "input_values": None,
    "names": "program",
    "outputs": (),
    "infer_shapes": False,
    "allow": (),
    "weights_only": False,
    "strip_source": False,
    "align": 0,
    "max_shard_size": None,
    "external_data": None,
    "seal": False,
    "no_clobber": False,
}
"""The defaults of conversions."""

RUNNING: RunOptions = {
    "fetch": (),
    "threads": None,
    "memory_limit": None,
    "max_steps": None,
    "engine": "builtin",
    "engine_path": None,
    "profile": False,
}
"""The defaults of runs."""


def with_defaults(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options with the defaults of those that are not given. Raises a `TypeError` for an unknown one."""
    for name in sorted(options.keys() - defaults.keys()):
        similar = difflib.get_close_matches(name, defaults)
        hint = f"did you mean {' or '.join(similar)}?" if similar else f"the options are {', '.join(defaults)}"
        raise TypeError(f"unknown option {name!r}; {hint}")
    return {**defaults, **options}


def listed(values: str | Iterable[str]) -> list[str]:
    """Returns values as a list; a string is a single value."""
    return [values] if isinstance(values, str) else list(values)

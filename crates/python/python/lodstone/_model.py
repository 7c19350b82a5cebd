"""Models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack

from . import _lodstone
from ._lodstone import Tensor
from ._options import Path as Path
from ._options import RunOptions

if TYPE_CHECKING:
    from ._run import Inputs, Session


class Model(Mapping[str, Tensor]):
    """A model: a mapping of names to tensors, in the order of the file, with a program and metadata.

    Tensors without a name in the file are named by their index: `"0"`, `"1"`. MXNet tensors are found with and without
    `arg:` and `aux:`, unless both exist. A missing name raises a `NoTensorError`, which is a `KeyError`.
    """

    def __init__(self, model: _lodstone.Model, path: Path | None = None) -> None:
        self._model, self._path = model, path

    @property
    def format(self) -> str:
        """The format of the files: `"paddle"`, `"safetensors"`."""
        return self._model.format

    @property
    def metadata(self) -> dict[str, str]:
        """The free-form metadata of the file."""
        return self._model.metadata

    @property
    def warnings(self) -> list[str]:
        """The warnings of opening the model."""
        return self._model.warnings

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in the order of the file; names may repeat there."""
        return self._model.tensors

    @property
    def program(self) -> dict[str, Any] | None:
        """The program of the model, if its files contain one: versions, inputs, outputs, operators.

        >>> program = lodstone.open("examples/digits/paddle").program
        >>> program["version"], [operator["type"] for operator in program["operators"]][:3]
        ('2.6.2', ['feed', 'conv2d', 'batch_norm'])
        """
        found = self._model._inspect(False, True, False)
        if "program" not in found:
            return None
        parts = {part: found.get(part, []) for part in ("inputs", "outputs", "operators")}
        return {**found["program"], **parts}

    def inspect(
        self, *, hash: bool = False, operators: bool = False, inferred: bool = False
    ) -> dict[str, Any]:
        """Describes the model: the JSON of `lodstone inspect --json`.

        `hash` adds the SHA-256 of each tensor, which reads all of them; `inferred` adds the types of all values
        of an ONNX program.

        >>> lodstone.open("examples/digits/paddle").inspect()["tensors"][0]
        {'name': 'batch_norm_0.b_0', 'kind': 'dense', 'dtype': 'float32', 'shape': [16], 'nbytes': 64}
        """
        return self._model._inspect(hash, operators, inferred)

    def run(self, inputs: Inputs = (), **options: Unpack[RunOptions]) -> dict[str, Any]:
        """Runs the program of the model once, and returns its outputs by name.

        `inputs` maps names to arrays or tensors of any framework; a list has the inputs in the order of the program.
        A list, dictionary or None as an input is a sequence, a map or an optional value that is absent.
        An output is a `Tensor`, which `numpy.asarray` and `torch.from_dlpack` take without a copy; a list or a
        dictionary of them, if it is a sequence or a map; or `None`. `options` are those of `session`.

        >>> images = lodstone.open("examples/digits/test.npz")["images"]
        >>> outputs = lodstone.open("examples/digits/paddle").run({"image": images})
        >>> list(outputs.values())
        [<lodstone.Tensor "save_infer_model/scale_0.tmp_0" float32[360, 10]>]
        """
        return self.session(**options).run(inputs)

    def session(self, **options: Unpack[RunOptions]) -> Session:
        """Prepares the program to run any number of times.

        Options: `fetch`, the names of the values to return instead of the outputs; `threads`, one per processor by
        default; `memory_limit` in bytes and `max_steps` in operators; `engine`, `"builtin"`, `"reference"` or
        `"onnxruntime"`, whose library is at `engine_path` or that of the installed package; `profile`, whether to
        measure the operators.
        """
        from ._run import Session, options as running

        return Session(self._model._session(running(**options), self._path))

    def random_inputs(
        self,
        seed: int = 0,
        shapes: Mapping[str, Iterable[int]] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> dict[str, Tensor]:
        """Returns random tensors for the inputs of the program: floats are uniform in [0, 1), others 0 or 1.

        `shapes` gives shapes of inputs; other dims that the program does not declare are 1. `types` gives element types
        that the program does not declare; others are `"float32"`.
        """
        from ._run import plain_shapes

        return _lodstone.random_inputs(self._model, seed, plain_shapes(shapes), dict(types or {}))

    def __getitem__(self, name: str) -> Tensor:
        return self._model[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the tensor with a name, or `default`."""
        # Not by catching the error: its message compares the name with all others.
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._model._names())

    def __len__(self) -> int:
        return len(self._model)

    def __contains__(self, name: object) -> bool:
        return name in self._model

    def close(self) -> None:
        """Releases the files: tensors that are in use keep theirs until they are released. The model cannot be used then.

        >>> with lodstone.open("examples/digits/paddle") as model:
        ...     weight = model["fc_0.b_0"]
        >>> weight.shape
        (10,)
        """
        self._model = _Closed()  # type: ignore[assignment]

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        if isinstance(self._model, _Closed):
            return "<lodstone.Model, closed>"
        count = len(self)
        return f"<lodstone.Model {self.format}, {count} tensor{'s' if count != 1 else ''}>"

    def _repr_html_(self) -> str:
        """Describes the model as a table, for notebooks."""
        shown = self.tensors[:MAX_ROWS]
        rows = "".join(
            f"<tr><td>{escape(one.name)}</td><td>{escape(one.dtype)}</td><td>{list(one.shape)}</td></tr>" for one in shown
        )
        more = len(self) - len(shown)
        rest = f"<p>and {more} more</p>" if more else ""
        head = "<tr><th>tensor</th><th>dtype</th><th>shape</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table>{rest}"


MAX_ROWS = 30
"""The number of tensors that a notebook shows."""


class _Closed:
    """What remains of a closed model."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError("the model is closed")

    def __len__(self) -> int:
        raise ValueError("the model is closed")

    def __contains__(self, name: object) -> bool:
        raise ValueError("the model is closed")

    def __getitem__(self, name: str) -> Any:
        raise ValueError("the model is closed")


def open(
    file: Path | bytes | BinaryIO,
    *,
    params: Path | None = None,
    mmap: bool = True,
    verify: bool = True,
    program: str | None = None,
    raise_limits: int = 1,
) -> Model:
    """Opens a model: a file, a directory, or the prefix that its files share; bytes, or an open file.

    An address such as `hf://organization/repository/file` works like a path. The format is detected by content. Tensors are read on first access; those of a model in bytes share the bytes, and
    an open file is read completely. `params` is the path of the parameters, if they are not in the format's default
    location. Files may be mapped into memory unless `mmap` is false. Sealed files are compared with their seal when
    they are read, unless `verify` is false. `program` is the name of the program to open, without the others, of a model
    that has several. A file with more tensors, fields or bytes of structure than the limits permit is rejected;
    `raise_limits` multiplies them, for a file that is trusted.
    """
    opening = {"params": params, "mmap": mmap, "verify": verify, "program": program}
    return _open(file, {**opening, "raise_limits": raise_limits})


def open_stored(
    file: Path | bytes | BinaryIO, *, params: Path | None = None, mmap: bool = True, verify: bool = True
) -> Model:
    """Opens a model with the tensors that are stored, as safetensors does: other names of these stay in the metadata."""
    return _open(file, {"params": params, "mmap": mmap, "verify": verify, "as_stored": True})


def open_stored_bytes(data: bytes) -> Model:
    """Opens a model in memory as `open_stored` does."""
    return Model(_lodstone.open_bytes(data, {"params": None, "mmap": True, "verify": True, "as_stored": True}))


def _open(file: Path | bytes | BinaryIO, opening: dict[str, Any]) -> Model:
    if isinstance(file, (str, os.PathLike)):
        return Model(_lodstone.open(file, opening), file)
    contents = file.read() if hasattr(file, "read") else file
    return Model(_lodstone.open_bytes(contents, opening))

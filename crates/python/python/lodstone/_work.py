"""Operations on whole models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _lodstone
from ._model import Model, Path, open

Progress = Callable[[int], object]


def converting(
    *,
    to: str | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
    transpose: Iterable[str] = (),
    cast: str | None = None,
    opset: int | None = None,
    names: str = "program",
    infer_shapes: bool = False,
    allow: Iterable[str] = (),
    weights_only: bool = False,
    strip_source: bool = False,
    align: int = 0,
    max_shard_size: int | None = None,
    external_data: str | None = None,
    seal: bool = False,
    no_clobber: bool = False,
) -> dict[str, Any]:
    """Returns the options of writing, in the form that the extension takes."""
    options = dict(locals())
    for name in ("include", "exclude", "transpose", "allow"):
        given = options[name]
        options[name] = [given] if isinstance(given, str) else list(given)
    options["rename"] = dict(rename or {})
    return options


def convert(
    source: Model | Path,
    out: Path,
    *,
    params: Path | None = None,
    mmap: bool = True,
    verify: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Converts a model, or the model at a path, to another format.

    The name of `out` determines the format, unless `to` does; `to="same"` copies the model byte for byte. A loss raises
    a `LossyError`, unless its name is in `allow`. The output is visible completely or not at all; missing directories
    are created. `progress` is called with the number of bytes processed.

    Options are those of the command: `to`, `include`, `exclude`, `rename`, `names`, `transpose`, `cast`, `opset`,
    `infer_shapes`, `allow`, `weights_only`, `strip_source`, `align`, `max_shard_size` (in bytes), `external_data`,
    `seal`, `no_clobber`.

    >>> done = lodstone.convert("examples/digits/paddle", tmp / "digits.safetensors", weights_only=True)
    >>> done["format"], done["tensors"]
    ('safetensors', 12)
    """
    opening = {"params": params, "mmap": mmap, "verify": verify}
    return _lodstone.convert(plain(source), out, opening, converting(**options), progress)


def verify(
    path: Path, *, params: Path | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Verifies the model at a path: its structure, its framework's rules, its seal. The whole model is read.

    >>> lodstone.verify("examples/digits/paddle")["whole"]
    True
    """
    return _lodstone.verify(path, params, progress)


def seal(
    path: Path,
    *,
    params: Path | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes checksums of a model beside it, which `verify` and every read compare with its files.

    A model that differs from its seal is sealed again only with `replace`.
    """
    return _lodstone.seal(path, params, replace, progress)


def diff(
    a: Model | Path,
    b: Model | Path,
    *,
    rename: Mapping[str, str] | None = None,
    transpose: Iterable[str] = (),
    rtol: float = 0.0,
    atol: float = 0.0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Compares two models, or the models at two paths: tensors, and operators.

    `rename` maps names of the first model to those of the second; `transpose` lists tensors that are transposed there.

    >>> lodstone.diff("examples/digits/paddle", "examples/digits/paddle")["same"]
    True
    """
    names, patterns = dict(rename or {}), list(transpose)
    return _lodstone.diff(plain(a), plain(b), names, patterns, rtol, atol, progress)


def scan(
    path: Path, *, ignore: Iterable[str] = (), progress: Progress | None = None
) -> dict[str, Any]:
    """Lists code-execution and information-leak risks of files, without executing anything.

    A file is clean if every byte of it is understood and no risk was found. Other files without findings are
    listed as unknown, unless a pattern of `ignore` matches their path or name: those are listed as ignored.

    >>> lodstone.scan("examples/digits/mxnet")["verdict"]
    'clean'

    >>> [finding["kind"] for finding in lodstone.scan("examples/digits/paddle")["findings"]]
    ['source']
    """
    patterns = [ignore] if isinstance(ignore, str) else list(ignore)
    return _lodstone.scan(path, patterns, progress)


def infer_shapes(source: Model | Path | bytes) -> dict[str, dict[str, Any]]:
    """Returns the declared or inferred types of the values in the main graph of an ONNX program, by value name.

    Each has a `dtype` and a `shape`, as far as they are known. A dim is an integer, the name of a symbol (equal dims
    have equal symbols), or None. To write them into the model, use `convert(..., infer_shapes=True)`.

    >>> types = lodstone.infer_shapes("crates/formats/tests/golden/onnx_infer/undeclared.onnx")
    >>> types["y"]
    {'dtype': 'float32', 'shape': ['batch', 12]}
    """
    model = source if isinstance(source, Model) else open(source)
    types: dict[str, dict[str, Any]] = {}
    for value in model.inspect(inferred=True).get("values", []):
        if value["block"] != 0:
            continue
        found = {key: value[key] for key in ("kind", "dtype") if key in value}
        if "shape" in value:
            symbols = value.get("symbols") or [None] * len(value["shape"])
            dims = zip(value["shape"], symbols)
            found["shape"] = [symbol if dim < 0 else dim for dim, symbol in dims]
        types[value["name"]] = found
    return types


def plain(source: Model | Path) -> _lodstone.Model | Path:
    """Returns a model in the form that the extension takes."""
    return source._model if isinstance(source, Model) else source

"""Operations on whole models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from . import _lodstone
from ._model import Model, Path, open
from ._options import CONVERTING, ConvertOptions, Progress, listed, with_defaults


def converting(**options: Unpack[ConvertOptions]) -> dict[str, Any]:
    """Returns the options of a conversion in the form that the extension expects."""
    given = with_defaults(options, CONVERTING)
    for name in ("include", "exclude", "transpose", "outputs", "allow"):
        given[name] = listed(given[name])
    given["rename"] = dict(given["rename"] or {})
    levels = (given["lod"] or {}).items()
    given["lod"] = [(name, list(level)) for name, all in levels for level in all]
    given["input_shapes"] = [(name, list(dims)) for name, dims in (given["input_shapes"] or {}).items()]
    given["input_types"] = list((given["input_types"] or {}).items())
    given["input_values"] = list((given["input_values"] or {}).items())
    return given


def convert(
    source: Model | Path,
    out: Path,
    *,
    params: Path | None = None,
    mmap: bool = True,
    verify: bool = True,
    program: str | None = None,
    raise_limits: int = 1,
    progress: Progress | None = None,
    **options: Unpack[ConvertOptions],
) -> dict[str, Any]:
    """Converts a model, or the model at a path, to another format.

    `to` is the format, by default that of the extension of `out`; `to="same"` copies the model byte for byte. A loss
    raises a `LossyError`, unless its name is in `allow`. The output is visible completely or not at all; missing
    directories are created. `program` is the name of the program to convert, without the others. `raise_limits` is that of
    `lodstone.open`. `progress` is called with the number of bytes processed.

    Options are those of the command: `to`, `include`, `exclude`, `rename`, `names`, `transpose`, `cast`, `keep_io`,
    `opset`, `custom_ops`, `lod` (offsets of each level, by input), `input_shapes` (by input; None is an unknown dim, a str a
    symbol), `input_types` (where the program declares none, by input), `input_values` (of inputs that are numbers, by input: they become constants), `outputs` (names or patterns of the values that become the
    outputs), `infer_shapes`, `allow`,
    `weights_only`, `strip_source`, `align`, `max_shard_size` (in bytes), `external_data`, `seal`, `no_clobber`.

    >>> done = lodstone.convert("examples/digits/paddle", tmp / "digits.safetensors", weights_only=True)
    >>> done["format"], done["tensors"]
    ('safetensors', 12)

    A PaddlePaddle program is exported to ONNX:

    >>> lodstone.convert("examples/digits/paddle", tmp / "digits.onnx")["opset"]
    17
    """
    opening: dict[str, Any] = {"params": params, "mmap": mmap, "verify": verify, "program": program}
    opening["raise_limits"] = raise_limits
    return _lodstone.convert(plain(source), out, opening, converting(**options), progress)


def verify(
    path: Path, *, params: Path | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Verifies the model at a path: its structure, the rules of its framework, its seal. Reads the whole model.

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

    If the model is already sealed and differs from its seal, this fails unless `replace` is true.
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
    """Compares the tensors and operators of two models, or of the models at two paths.

    `rename` maps names of the first model to those of the second; `transpose` lists tensors of the first model that are
    transposed in the second.

    >>> lodstone.diff("examples/digits/paddle", "examples/digits/paddle")["same"]
    True
    """
    names, patterns = dict(rename or {}), list(transpose)
    return _lodstone.diff(plain(a), plain(b), names, patterns, rtol, atol, progress)


def scan(
    path: Path,
    *,
    ignore: Iterable[str] = (),
    allow_import: Iterable[str] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Lists code-execution and information-leak risks of files, without executing anything.

    A file is clean if every byte of it is understood and there are no findings. Other files without findings are listed
    as unknown, or as ignored if a pattern of `ignore` matches their path or name. Pickles may import and call the callables
    `MODULE.NAME` in `allow_import`, with any arguments; those that do are listed as accepted.

    >>> lodstone.scan("examples/digits/mxnet")["verdict"]
    'clean'

    >>> [finding["kind"] for finding in lodstone.scan("examples/digits/paddle")["findings"]]
    ['source']
    """
    return _lodstone.scan(path, listed(ignore), listed(allow_import), progress)


def operators(source: Model | Path, *, target: str = "onnx") -> dict[str, Any]:
    """Lists the operators of a model by kind: which can be exported to ONNX (`target="onnx"`) or run (`"run"`), the lowest
    opset that can express them, and why others cannot.

    >>> lodstone.operators("examples/digits/paddle")["supported"]
    True
    """
    return _lodstone.operators(plain(source), target)


def origins(source: Model | Path, **options: Unpack[ConvertOptions]) -> dict[str, Any]:
    """Returns where the operators and constants of the export of a model to ONNX come from; the options are those of `convert`.

    `operators` have the `sources` that they compute, with their `scope` and what they record for training; `constants` the
    `parameters` of the source that they depend on, and the `recipe` that leads from these to them.

    >>> found = lodstone.origins("examples/digits/paddle")
    >>> found["operators"][0]["kind"], found["operators"][0]["sources"][0]["kind"]
    ('Conv', 'conv2d')
    """
    return _lodstone.origins(plain(source), converting(**options))


def infer_shapes(source: Model | Path | bytes) -> dict[str, dict[str, Any]]:
    """Returns the declared or inferred types of the values in the main graph of an ONNX program, by value name.

    Each has a `dtype` and a `shape`, if known. A dim is an integer, the name of a symbol (equal dims have equal
    symbols), or None. To write the types into the model, use `convert(..., infer_shapes=True)`.

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


def byte_map(
    path: Path, *, tensor: str | None = None, params: Path | None = None, verify: bool = True
) -> dict[str, Any]:
    """Lists the fields of the files at a path with their offsets: the JSON of `lodstone inspect --bytes --json`.

    `tensor` selects the fields of one tensor. A damaged file is mapped up to the damage, which is its `"error"`.

    >>> fields = lodstone.byte_map("examples/digits/paddle/inference.pdiparams")["files"][0]["fields"]
    >>> fields[0]
    {'offset': 0, 'len': 4, 'tensor': 0, 'name': 'version of the LoD part', 'value': '0'}
    """
    return _lodstone.byte_map(path, tensor, {"params": params, "mmap": True, "verify": verify})


def plain(source: Model | Path) -> _lodstone.Model | Path:
    """Returns a model in the form that the extension takes."""
    return source._model if isinstance(source, Model) else source

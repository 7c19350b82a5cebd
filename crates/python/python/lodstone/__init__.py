"""Opens deep-learning models without the framework that wrote them.

    >>> import lodstone
    >>> model = lodstone.open("examples/digits/paddle")
    >>> model
    <lodstone.Model paddle, 12 tensors>
    >>> model["conv2d_0.w_0"]
    <lodstone.Tensor "conv2d_0.w_0" float32[16, 1, 3, 3]>

Tensors are read on first access. `lodstone.numpy`, `lodstone.torch` and `lodstone.paddle` have functions of the same
names that return arrays of the framework; a framework is imported only with its module.

Functions that describe a whole model (`inspect`, `verify`, `diff`, `compare`, `scan`, ...) return the JSON that the
command prints, as a dictionary.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import checkpoint
from ._errors import (
    DamagedError,
    InputError,
    InternalError,
    LodstoneError,
    LossyError,
    NoModelError,
    NoTensorError,
    OptionError,
    OutputError,
    ProgramError,
    RunError,
    SafetensorError,
    SharedTensorsError,
    SliceError,
    UnknownFormatError,
    UnsupportedError,
)
from ._files import load, load_bytes, load_file, save, save_bytes, save_file
from ._lodstone import Buffer, Tensor, __version__
from ._model import Model, open
from ._raw import TensorSpec, deserialize, serialize, serialize_file
from ._run import Session, compare
from ._safe_open import safe_open
from ._train import Step, Training, train
from ._work import byte_map, convert, diff, infer_shapes, operators, origins, scan, seal, verify

if TYPE_CHECKING:
    from . import program

__all__ = [
    "Buffer",
    "DamagedError",
    "InputError",
    "InternalError",
    "LodstoneError",
    "LossyError",
    "Model",
    "NoModelError",
    "NoTensorError",
    "OptionError",
    "OutputError",
    "ProgramError",
    "RunError",
    "SafetensorError",
    "Session",
    "SharedTensorsError",
    "SliceError",
    "Step",
    "Tensor",
    "TensorSpec",
    "Training",
    "UnknownFormatError",
    "UnsupportedError",
    "__version__",
    "byte_map",
    "checkpoint",
    "compare",
    "convert",
    "deserialize",
    "diff",
    "infer_shapes",
    "load",
    "load_bytes",
    "load_file",
    "open",
    "operators",
    "origins",
    "program",
    "safe_open",
    "save",
    "save_bytes",
    "save_file",
    "scan",
    "seal",
    "serialize",
    "serialize_file",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    # Its layers take longer to import than everything else, and few scripts build programs.
    if name == "program":
        return importlib.import_module(".program", __name__)
    raise AttributeError(f"module 'lodstone' has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), "program"})

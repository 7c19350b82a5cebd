"""The extension module of the package."""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any, final

__all__ = [
    "Buffer",
    "Manager",
    "Model",
    "Session",
    "Tensor",
    "__version__",
    "checkpoint_load",
    "checkpoint_manifest",
    "checkpoint_steps",
    "checkpoint_verify",
    "compare",
    "convert",
    "diff",
    "main",
    "open",
    "open_bytes",
    "operators",
    "random_inputs",
    "save",
    "save_bytes",
    "scan",
    "seal",
    "verify",
]

__version__: str

_Path = str | PathLike[str]

@final
class Buffer:
    """The bytes of a tensor, row-major and little-endian, by the buffer protocol."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Tensor:
    """A tensor, which is read on first access."""

    def __new__(cls, name: str, dtype: str, shape: Iterable[int], data: Any) -> Tensor:
        """Makes a dense tensor from row-major, little-endian bytes, which are not copied."""

    @property
    def name(self) -> str:
        """The name of the tensor."""

    @property
    def dtype(self) -> str:
        """The element type, with its name in NumPy or `ml_dtypes`: `"float32"`, `"bfloat16"`."""

    @property
    def _safetensors_dtype(self) -> str | None: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """The dims, outermost first."""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The dims of `data`; for a sparse tensor, those of the stored elements."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""

    @property
    def kind(self) -> str:
        """`"dense"`, `"selected_rows"`, `"row_sparse"`, `"csr"`, `"coo"`, `"strings"`, `"vocab"` or `"absent"`."""

    @property
    def lod(self) -> list[list[int]]:
        """The LoD: for each level, the start offsets of the sequences, and the end."""

    @property
    def parts(self) -> list[Tensor]:
        """The index tensors of a sparse tensor, named by their role: `"rows"`, `"indices"`, `"indptr"`."""

    @property
    def values(self) -> list[bytes] | list[tuple[str, int]] | None:
        """The strings of a string tensor, in row-major order; the tokens and ids of a vocabulary."""

    def data(self, *, private: bool = False) -> Buffer:
        """Returns the bytes of the tensor: the read-only pages of the file, or with `private` copy-on-write pages."""

    def renamed(self, name: str) -> Tensor:
        """Returns the same tensor under another name."""

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Any:
        """Converts the tensor for `numpy.asarray`, like `lodstone.numpy.array`."""

    @staticmethod
    def _strings(name: str, shape: Iterable[int], values: list[bytes]) -> Tensor: ...
    def _losses(self) -> list[str]: ...
    def _dlpack(self, data: Buffer) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

@final
class Model:
    """A model in the extension; `lodstone.Model` is the public class."""

    @property
    def format(self) -> str: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def tensors(self) -> list[Tensor]: ...
    def _inspect(self, hash: bool, operators: bool, inferred: bool) -> dict[str, Any]: ...
    def _names(self) -> list[str]: ...
    def _repeated(self) -> str | None: ...
    def _arrays(self, allow: list[str]) -> Model: ...
    def _loaded(self, progress: _Progress) -> Model: ...
    def _session(self, running: dict[str, Any], path: _Path | None) -> Session: ...
    def _load(self, progress: _Progress) -> tuple[list[Tensor], list[Buffer]]: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: str, /) -> Tensor: ...

@final
class Session:
    """A session in the extension; `lodstone.Session` is the public class."""

    @property
    def inputs(self) -> list[str]: ...
    def run(self, inputs: list[tuple[str, Any]]) -> dict[str, Any]: ...
    def profile(self) -> list[dict[str, Any]]: ...

@final
class Manager:
    """A writer of checkpoints; `lodstone.checkpoint.Manager` is the public class."""

    def __new__(cls, directory: _Path, keep: int | None, container: str) -> Manager: ...
    def save(
        self, step: int, tensors: list[Tensor], metadata: str, background: bool
    ) -> dict[str, Any] | None: ...
    def wait(self) -> dict[str, Any] | None: ...
    def prune(self, keep: int) -> list[int]: ...
    def rewind(self, step: int) -> list[int]: ...
    def close(self) -> None: ...

_Progress = Callable[[int], object] | None

def open(path: _Path, opening: dict[str, Any]) -> Model: ...
def open_bytes(bytes: bytes, opening: dict[str, Any]) -> Model: ...
def convert(
    source: Model | _Path,
    out: _Path,
    opening: dict[str, Any],
    converting: dict[str, Any],
    progress: _Progress,
) -> dict[str, Any]: ...
def save(
    tensors: list[Tensor],
    metadata: dict[str, str],
    notes: dict[str, str],
    out: _Path,
    converting: dict[str, Any],
    progress: _Progress,
) -> dict[str, Any]: ...
def save_bytes(
    tensors: list[Tensor], metadata: dict[str, str], converting: dict[str, Any]
) -> bytes: ...
def verify(path: _Path, params: _Path | None, progress: _Progress) -> dict[str, Any]: ...
def seal(
    path: _Path, params: _Path | None, replace: bool, progress: _Progress
) -> dict[str, Any]: ...
def diff(
    a: Model | _Path,
    b: Model | _Path,
    rename: dict[str, str],
    transpose: list[str],
    rtol: float,
    atol: float,
    progress: _Progress,
) -> dict[str, Any]: ...
def operators(model: Model | _Path, target: str) -> dict[str, Any]: ...
def random_inputs(model: Model, seed: int, shapes: dict[str, list[int]]) -> dict[str, Tensor]: ...
def compare(
    a: Model | _Path,
    b: Model | _Path,
    inputs: list[tuple[str, Any]],
    seed: int,
    shapes: dict[str, list[int]],
    rtol: float,
    atol: float,
    outputs_only: bool,
    engine_b: str | None,
    running: dict[str, Any],
) -> dict[str, Any]: ...
def checkpoint_steps(directory: _Path) -> list[int]: ...
def checkpoint_load(directory: _Path, step: int | None) -> Model: ...
def checkpoint_manifest(directory: _Path, step: int | None) -> dict[str, Any]: ...
def checkpoint_verify(directory: _Path, step: int | None, progress: _Progress) -> list[str]: ...
def scan(path: _Path, ignore: list[str], progress: _Progress) -> dict[str, Any]: ...
def main(arguments: list[str]) -> int: ...

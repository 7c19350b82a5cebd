"""The extension module of the package."""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any, final

__all__ = [
    "Buffer",
    "Contents",
    "Executor",
    "Manager",
    "Model",
    "Names",
    "Operator",
    "Program",
    "Scope",
    "Session",
    "ShardFiles",
    "ShardPublication",
    "Tensor",
    "Training",
    "__version__",
    "append_backward",
    "append_block",
    "append_load",
    "append_save",
    "apply_optimizer",
    "begin_block",
    "build_checkpoint_loader",
    "byte_map",
    "call_layer",
    "checkpoint_load",
    "checkpoint_manifest",
    "checkpoint_steps",
    "checkpoint_verify",
    "checkpointed_program",
    "compare",
    "cond",
    "convert",
    "declare_data",
    "declare_parameter",
    "diff",
    "discard_block",
    "get_checkpoint_loader",
    "gradients",
    "load_program",
    "main",
    "make_checkpoint",
    "open",
    "open_bytes",
    "open_training",
    "operators",
    "origins",
    "program_of",
    "random_inputs",
    "restore_checkpoint",
    "save",
    "save_bytes",
    "save_model",
    "save_program",
    "scan",
    "schedule",
    "seal",
    "verify",
    "while_loop",
    "write_items",
    "write_shard",
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
    def ndim(self) -> int:
        """The number of dims."""

    @property
    def size(self) -> int:
        """The number of elements."""

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
    def layout(self) -> str | None:
        """The order of the dims, such as `"NHWC"`, if the model records one."""

    @property
    def strides(self) -> list[int] | None:
        """The stride of each dim in elements, if the model records strides."""

    @property
    def quantization(self) -> dict[str, Any] | None:
        """The `scales`, `zero_points`, `axis` and `packing` of quantized elements, unless operators quantize."""

    @property
    def is_static(self) -> bool | None:
        """Whether an input keeps its value from run to run, if the model records it."""

    @property
    def trainable(self) -> bool | None:
        """Whether training changes the tensor, if the model records it."""

    @property
    def context(self) -> str | None:
        """The device that held the tensor when it was saved: `"cpu(0)"`, if the file records it."""

    @property
    def parts(self) -> list[Tensor]:
        """The index tensors of a sparse tensor, named by their role: `"rows"`, `"indices"`, `"indptr"`."""

    @property
    def values(self) -> list[bytes] | list[tuple[str, int]] | None:
        """The strings of a string tensor, in row-major order; the tokens and ids of a vocabulary."""

    def data(self, *, private: bool = False) -> Buffer:
        """Returns the bytes of the tensor: the read-only pages of the file, or with `private` copy-on-write pages."""

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Returns the lengths of the sequences of each level of the LoD."""

    def with_lod(self, lod: list[list[int]]) -> Tensor:
        """Returns the same tensor with another LoD: for each level, the start offsets of the sequences, and the end."""

    def renamed(self, name: str) -> Tensor:
        """Returns the same tensor under another name."""

    def numpy(self) -> Any:
        """Converts the tensor to a NumPy array: a read-only view of the file, like `lodstone.numpy.array`."""

    def tolist(self) -> Any:
        """Returns the elements as lists of Python numbers, as NumPy's `tolist` does."""

    def __len__(self) -> int:
        """Returns the first dim."""

    def __bool__(self) -> bool:
        """A tensor is true, whatever its elements are."""

    def __eq__(self, other: object, /) -> bool:
        """Whether the other is a tensor of the same type and dims, with the same bits and LoD; names are not compared."""

    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickles a tensor of numbers or strings with its LoD, without what its model records about it."""

    def __copy__(self) -> Tensor: ...
    @staticmethod
    def _unpickled(
        name: str, dtype: str, shape: Iterable[int], elements: bytes | list[bytes], lod: list[list[int]]
    ) -> Tensor: ...
    def __getitem__(self, index: Any, /) -> Any:
        """Selects a part as a NumPy array, of which only that part is read: `tensor[2:5, ..., 0]`."""

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Any:
        """Converts the tensor for `numpy.asarray`, like `lodstone.numpy.array`."""

    @staticmethod
    def _strings(name: str, shape: Iterable[int], values: list[bytes]) -> Tensor: ...
    def _losses(self) -> list[str]: ...
    def _place(self) -> tuple[str, int, int] | None: ...
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
    def _composed(self) -> dict[str, str]: ...
    def _load(self, progress: _Progress, meta: bool) -> tuple[list[Tensor], list[Buffer]]: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: str, /) -> Tensor: ...

@final
class Session:
    """A session in the extension; `lodstone.Session` is the public class."""

    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    def run(self, inputs: list[tuple[str, Any]]) -> dict[str, Any]: ...
    def profile(self) -> list[dict[str, Any]]: ...

@final
class Manager:
    """A writer of checkpoints; `lodstone.checkpoint.Manager` is the public class."""

    def __new__(cls, directory: _Path, keep: int | None, container: str) -> Manager: ...
    def save(
        self, step: int, tensors: list[Tensor], metadata: str, background: bool
    ) -> dict[str, Any] | None: ...
    def save_program(
        self, step: int, contents: Contents, scope: Scope, metadata: str, background: bool
    ) -> dict[str, Any] | None: ...
    def save_training(self, training: Training, background: bool) -> dict[str, Any] | None: ...
    def wait(self) -> dict[str, Any] | None: ...
    def prune(self, keep: int) -> list[int]: ...
    def rewind(self, step: int) -> list[int]: ...
    def close(self) -> None: ...

@final
class ShardPublication:
    """A checkpoint in progress, in the process that publishes it; used by `lodstone.torch.dcp`."""

    def __new__(cls, path: _Path, chunked: bool) -> ShardPublication: ...
    def staged(self) -> str: ...
    def publish(self, format: str, index: str, bytes: bytes, files: list[str]) -> None: ...
    def discard(self) -> None: ...

@final
class ShardFiles:
    """The files of a checkpoint, compared with its seal; used by `lodstone.torch.dcp`."""

    def __new__(cls, path: _Path, verify: bool | None) -> ShardFiles: ...
    def read(self, name: str, offset: int, len: int | None) -> Buffer | None: ...
    def read_to(self, targets: list[tuple[str, int, bytearray | memoryview]]) -> None: ...

def write_shard(
    place: tuple[_Path, bool],
    name: str,
    tensors: list[tuple[str, str, list[int]]],
    metadata: dict[str, str],
    load: Callable[[int], Tensor],
) -> str: ...
def write_items(staged: _Path, name: str, items: list[tuple[str, Any]]) -> str: ...

@final
class Names:
    """A generator of names in the extension."""

    def __new__(cls) -> Names: ...
    def generate(self, base: str) -> str: ...
    def avoid(self, program: Program) -> None: ...

@final
class Operator:
    """An operator in the extension; `lodstone.program.Operator` is the public class."""

    @property
    def type(self) -> str: ...
    def inputs(self) -> dict[str, list[str]]: ...
    def outputs(self) -> dict[str, list[str]]: ...
    def attribute_names(self) -> list[str]: ...
    def attribute(self, name: str) -> Any: ...
    def with_attribute(self, name: str, value: Any) -> Operator: ...
    def without_attribute(self, name: str) -> Operator: ...
    def with_slot(self, is_output: bool, slot: str, args: list[str]) -> Operator: ...
    def renamed(self, old: str, new: str) -> Operator: ...

@final
class Program:
    """A program in the extension; `lodstone.program.Program` is the public class."""

    def __new__(cls) -> Program: ...
    @staticmethod
    def from_bytes(data: bytes) -> Program: ...
    def to_bytes(self) -> bytes: ...
    def to_text(self) -> str: ...
    def clone(self, for_test: bool) -> Program: ...
    def prune(self, feeds: list[str], targets: list[str]) -> Program: ...
    def inference(self, feeds: list[str], targets: list[str]) -> Program: ...
    def model(self, startup: Program | None, scope: Scope | None) -> Model: ...
    def parents(self) -> list[int]: ...
    def current_block(self) -> int: ...
    @property
    def version(self) -> int | None: ...
    def variables(self, block: int) -> list[str]: ...
    def find_variable(self, block: int, name: str) -> int | None: ...
    def variable(self, block: int, name: str) -> dict[str, Any]: ...
    def declare(self, block: int, facts: dict[str, Any]) -> None: ...
    def mark(
        self, block: int, name: str, persistable: bool | None, stop_gradient: bool | None
    ) -> None: ...
    def remove_variable(self, block: int, name: str) -> None: ...
    def rename_variable(self, old: str, new: str) -> None: ...
    def operators(self, block: int) -> list[Operator]: ...
    def operator_count(self, block: int) -> int: ...
    def operator(self, block: int, index: int) -> Operator: ...
    def insert_operator(self, block: int, index: int, operator: dict[str, Any]) -> None: ...
    def remove_operators(self, block: int, begin: int, end: int) -> None: ...
    def find_operator(self, block: int, index: int, operator: Operator) -> int: ...
    def replace_operator(self, block: int, index: int, old: Operator, new: Operator) -> int: ...

@final
class Scope:
    """A scope in the extension; `lodstone.program.Scope` is the public class."""

    def __new__(cls, memory_limit: int | None) -> Scope: ...
    def names(self) -> list[str]: ...
    def tensor(self, name: str) -> Tensor | None: ...
    def __contains__(self, name: str, /) -> bool: ...
    def set(self, name: str, tensor: Tensor) -> None: ...
    def remove(self, name: str) -> bool: ...

@final
class Executor:
    """An executor in the extension; `lodstone.program.Executor` is the public class."""

    def __new__(cls, threads: int | None, check_finite: bool, max_steps: int | None) -> Executor: ...
    def run(
        self,
        program: Program,
        scope: Scope,
        feed: list[tuple[str, Tensor]],
        fetch: list[str],
        read: _Path | None,
        write: _Path | None,
    ) -> list[Tensor]: ...

@final
class Contents:
    """What checkpoints of a program contain."""

    def __new__(cls, main: Program, startup: Program, names: list[str] | None) -> Contents: ...

@final
class Training:
    """A model in training in the extension; `lodstone.Training` is the public class."""

    def __new__(
        cls, model: Model, data: list[tuple[str, Any]] | None, facts: dict[str, Any]
    ) -> Training: ...
    def step(self, batch: list[tuple[str, Any]] | None) -> list[float]: ...
    @property
    def watched(self) -> list[str]: ...
    @property
    def done(self) -> int: ...
    def warnings(self) -> list[str]: ...
    def restored(self) -> dict[str, Any] | None: ...
    def model(self) -> Model: ...
    def save(self, directory: _Path, no_clobber: bool) -> None: ...

_Network = tuple[Program, Program, Names]
_Placement = tuple[str, str]

def call_layer(network: _Network, block: int | None, operator: dict[str, Any]) -> None: ...
def declare_data(
    network: _Network, name: str, shape: list[int], dtype: str, lod_level: int
) -> None: ...
def declare_parameter(
    network: _Network, base: str, dtype: str, shape: list[int], facts: dict[str, Any]
) -> str: ...
def begin_block(network: _Network) -> int: ...
def discard_block(network: _Network, block: int) -> None: ...
def append_block(network: _Network, kind: str, condition: str, is_test: bool) -> None: ...
def cond(
    network: _Network,
    condition: str,
    yes: Callable[[list[str]], list[str]],
    no: Callable[[list[str]], list[str]],
) -> list[str]: ...
def while_loop(
    network: _Network,
    variables: list[str],
    is_test: bool,
    test: Callable[[list[str]], list[str]],
    body: Callable[[list[str]], list[str]],
) -> None: ...
def append_backward(network: _Network, loss: str, no_grad: list[str]) -> list[tuple[str, str]]: ...
def gradients(
    network: _Network, target: str, inputs: list[str], no_grad: list[str]
) -> list[str | None]: ...
def schedule(network: _Network, kind: str, facts: dict[str, Any]) -> str: ...
def apply_optimizer(
    network: _Network,
    kind: str,
    facts: dict[str, Any],
    learning_rate: float | str,
    clip: tuple[str, float, float] | None,
    regularizer: tuple[str, float] | None,
    pairs: list[tuple[str, str]],
) -> None: ...
def save_program(program: Program, directory: _Path, is_text: bool) -> None: ...
def load_program(directory: _Path) -> Program: ...
def save_model(model: Model, directory: _Path, program: str, params: str | None) -> None: ...
def program_of(model: Model) -> Program: ...
def append_save(
    program: Program, names: list[str], directory: str, placement: _Placement, overwrite: bool
) -> None: ...
def append_load(
    program: Program,
    names: list[str],
    source: Program,
    directory: str,
    placement: _Placement,
    records: list[str] | None,
) -> None: ...
def build_checkpoint_loader(
    names: list[str],
    source: Program,
    startup: Program | None,
    placement: _Placement,
    records: list[str] | None,
) -> Program: ...
def checkpointed_program(startup: Program, main: Program) -> Program: ...
def open_training(source: Model | _Path, startup: _Path | None, params: _Path | None) -> Model: ...
def make_checkpoint(
    directory: _Path,
    names: list[str] | None,
    startup: Program,
    main: Program,
    every: int,
    placement: _Placement,
) -> list[str]: ...
def get_checkpoint_loader(directory: _Path) -> Program: ...
def restore_checkpoint(
    directory: _Path,
    step: int | None,
    scope: Scope,
    program: Program | None,
    partial: bool,
    renames: dict[str, str],
) -> dict[str, Any]: ...

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
def origins(model: Model | _Path, options: dict[str, Any]) -> dict[str, Any]: ...
def random_inputs(
    model: Model, seed: int, shapes: dict[str, list[int]], types: dict[str, str]
) -> dict[str, Tensor]: ...
def compare(
    a: Model | _Path,
    b: Model | _Path,
    inputs: list[tuple[str, Any]],
    seed: int,
    shapes: dict[str, list[int]],
    types: dict[str, str],
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
def byte_map(path: _Path, tensor: str | None, opening: dict[str, Any]) -> dict[str, Any]: ...
def scan(
    path: _Path, ignore: list[str], allow_import: list[str], progress: _Progress
) -> dict[str, Any]: ...
def main(arguments: list[str]) -> int: ...

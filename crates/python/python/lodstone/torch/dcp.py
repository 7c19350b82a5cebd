"""Storage for `torch.distributed.checkpoint`: checksums, atomic publication, and safe loading.

    >>> import torch.distributed.checkpoint as dcp  # doctest: +SKIP
    >>> from lodstone.torch.dcp import StorageReader, StorageWriter  # doctest: +SKIP
    >>> dcp.save(state, storage_writer=StorageWriter("run/step-100"))  # doctest: +SKIP
    >>> dcp.load(state, storage_reader=StorageReader("run/step-100"))  # doctest: +SKIP

Each process writes its tensors as safetensors, its other values as PyTorch does, and syncs them. The coordinator adds
`.metadata` and a seal with the checksums, and renames the directory: a checkpoint is visible as a whole or not at all, and
an existing one is never changed. The tensors can be read with `lodstone.open`, and by `HuggingFaceStorageReader`.
"""

from __future__ import annotations

import ctypes
import enum
import io
import json
import os
import pickle
import re
import threading
import traceback
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from .._imports import not_installed
from .._lodstone import ShardFiles, ShardPublication, Tensor, write_items, write_shard

try:
    import torch
except ModuleNotFoundError as error:
    raise not_installed(error, "torch", "torch") from None
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint import metadata as _metadata
from torch.distributed.checkpoint import storage as _storage
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.staging import BlockingAsyncStager
from torch.futures import Future

from . import PAIRS, named
from . import tensor as _tensor

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import STATE_DICT_TYPE, Metadata, StorageMeta
    from torch.distributed.checkpoint.planner import (
        LoadPlan,
        LoadPlanner,
        ReadItem,
        SavePlan,
        SavePlanner,
        WriteItem,
    )
    from torch.distributed.checkpoint.storage import WriteResult

    Path = str | os.PathLike[str]

__all__ = ["StorageReader", "StorageWriter"]

FORMAT = "torch-distributed"
METADATA = ".metadata"


@dataclass(frozen=True)
class _Place:
    """What the coordinator sends to a process: where to write, and its number."""

    staged: str
    rank: int


@dataclass(frozen=True)
class _Written:
    """What a process sends to the coordinator for an item; the checksums of a file come with its first item."""

    info: Any
    sealed: str | None = None


class _Directory:
    """The directory of a checkpoint, given at first or for each save and load."""

    def __init__(self, path: Path | None) -> None:
        self.path = _path(path)

    @property
    def checkpoint_id(self) -> str | None:
        """The directory of the checkpoint."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        """Returns whether this is a path, not an address."""
        return "://" not in os.fspath(checkpoint_id)

    def _required(self) -> str:
        if self.path is None:
            raise ValueError(f"no path: pass it to {type(self).__name__}, or as checkpoint_id")
        return self.path


class _Staged(dict[str, Any]):
    """A state in CPU memory, which exists until it is saved."""


class StorageWriter(_Directory, BlockingAsyncStager, _storage.StorageWriter):  # type: ignore[misc]
    """Writes a checkpoint to a directory that does not exist yet, on a file system that all processes share.

    With `dcp.async_save`, tensors are copied before it returns, those in CPU memory too. `cache_staged_state_dict` keeps
    the memory of the copies for the next save [default: False].

    With `dedup="content"`, tensors are stored in chunks of at most 16 MiB in the directory `chunks` beside the checkpoint:
    what several checkpoints there, tensors or processes have in common is stored once. Lodstone reads such a checkpoint as
    any other; PyTorch's own readers cannot. `lodstone checkpoint prune` removes the chunks of deleted checkpoints. While one
    checkpoint is saved in chunks, no other can be in the same directory.
    """

    def __init__(
        self, path: Path | None = None, *, dedup: Literal["content"] | None = None, cache_staged_state_dict: bool = False
    ) -> None:
        if dedup not in (None, "content"):
            raise ValueError(f'expected dedup="content" or None, found {dedup!r}')
        _Directory.__init__(self, path)
        self.dedup = dedup
        BlockingAsyncStager.__init__(self, cache_staged_state_dict=cache_staged_state_dict)
        self._publication: ShardPublication | None = None
        self._thread: threading.Thread | None = None
        self._staged_last: weakref.ref[_Staged] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # `async_save` sends the writer to another process on request.
        of_process = ("_publication", "_thread", "_staged_last", "state_dict_cache")
        return {**self.__dict__, **dict.fromkeys(of_process)}

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        """Returns a copy of a state in CPU memory."""
        if self._staged_last is not None and self._staged_last() is not None:
            # A save in progress reads the copies of the cache.
            self.state_dict_cache = None
        staged = _Staged(_unshared(super().stage(state_dict), state_dict))
        self._staged_last = weakref.ref(staged)
        return staged

    def reset(self, checkpoint_id: Path | None = None) -> None:
        """Begins a new checkpoint. What an earlier one left unpublished is removed."""
        self._discard()
        if checkpoint_id:
            self.path = _path(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called on every process before planning."""
        if kwargs.get("use_collectives", True) is False:
            raise ValueError("use_collectives=False is not supported: one process publishes the checkpoint")
        self._required()
        self._discard()
        self._thread = threading.current_thread()

    def storage_meta(self) -> StorageMeta | None:
        """Returns the path for planners."""
        return _metadata.StorageMeta(checkpoint_id=self.path)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Returns the plan unchanged."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Stages the checkpoint, on the coordinator."""
        self._publication = ShardPublication(self._required(), self.dedup == "content")
        staged = os.path.abspath(self._publication.staged())
        return [replace(plan, storage_data=_Place(staged, rank)) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Writes the items of this process; they are durable when it returns."""
        staged, rank = self._staged(plan.storage_data)
        place = (staged, self.dedup == "content")
        results = []
        values = [item for item in plan.items if item.type == WriteItemType.BYTE_IO]
        if values:
            results += _write_values(staged, f"rank-{rank:05}.distcp", values, planner)
        tensors = [item for item in plan.items if item.type != WriteItemType.BYTE_IO]
        for number, items in enumerate(_by_file(tensors)):
            suffix = f"-{number + 1:05}" if number else ""
            results += _write_tensors(place, f"rank-{rank:05}{suffix}.safetensors", items, planner)
        if self._publication is None:
            self._thread = None
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Publishes the checkpoint, on the coordinator."""
        publication = self._publication
        if publication is None:
            raise RuntimeError("the checkpoint was not staged by this writer")
        written = [result for of_rank in results for result in of_rank]
        metadata.storage_data = {result.index: result.storage_data.info for result in written}
        metadata.storage_meta = self.storage_meta()
        version = getattr(filesystem, "CURRENT_DCP_VERSION", None)
        if version is not None and hasattr(metadata, "version"):
            metadata.version = version
        files = [result.storage_data.sealed for result in written if result.storage_data.sealed]
        publication.publish(FORMAT, METADATA, pickle.dumps(metadata, protocol=4), files)
        self._publication = self._thread = None

    def _discard(self) -> None:
        """Removes what a failed save has left; a save in the background must have ended."""
        thread = self._thread
        if thread is not None and thread not in (threading.current_thread(), threading.main_thread()):
            # The thread of a failed save is about to end.
            thread.join(1)
            if thread.is_alive():
                what = "a save of this writer is in progress: wait for it, or use a writer for each save"
                raise RuntimeError(f"{self.path}: {what}")
        if self._publication is not None:
            self._publication.discard()
        self._publication = self._thread = None

    def _staged(self, place: Any) -> tuple[str, int]:
        """Returns the staged directory of this save, and the number of this process.

        A planner that caches plans returns that of an earlier save.
        """
        if not isinstance(place, _Place):
            raise TypeError(f"expected a plan of this writer, found one with {type(place).__name__}")
        parent, name = os.path.split(os.path.realpath(self._required()))
        pattern = re.compile(rf"\.{re.escape(name[:50])}\.\d+-\d+\.lodstone")
        here = os.path.realpath(os.path.dirname(place.staged)) == parent and pattern.fullmatch(os.path.basename(place.staged))
        if here and os.path.isdir(place.staged):
            return place.staged, place.rank
        found = [entry for entry in os.listdir(parent) if pattern.fullmatch(entry)]
        if len(found) != 1:
            what = f"{self.path}: expected one directory of files in progress, found {len(found)}"
            raise RuntimeError(f"{what}; pass a planner with enable_plan_caching=False")
        return os.path.join(parent, found[0]), place.rank


def _path(path: Path | None) -> str | None:
    return None if path is None else os.path.normpath(os.fspath(path))


def _unshared(staged: Any, given: Any) -> Any:
    """Copies the tensors that a stager returns as they are: PyTorch 2.6 does so with those in CPU memory."""
    if isinstance(given, torch.Tensor):
        return given.detach().to("cpu", copy=True) if staged is given else staged
    if isinstance(staged, dict):
        return {key: _unshared(value, given[key]) for key, value in staged.items()}
    if isinstance(staged, list | tuple):
        return type(staged)(_unshared(*pair) for pair in zip(staged, given, strict=True))
    return staged


def _by_file(items: Sequence[WriteItem]) -> list[list[WriteItem]]:
    """Divides items so that each name occurs once in a file: a process may have several chunks of a tensor."""
    files: list[list[WriteItem]] = []
    count: dict[str, int] = {}
    for item in items:
        number = count.get(item.index.fqn, 0)
        count[item.index.fqn] = number + 1
        if number == len(files):
            files.append([])
        files[number].append(item)
    return files


def _write_tensors(place: tuple[str, bool], file: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
    chunks = [item.tensor_data.chunk for item in items]
    tensors = []
    for item, chunk in zip(items, chunks, strict=True):
        kind, shape = named(item.tensor_data.properties.dtype), list(chunk.sizes)
        for ours, theirs in PAIRS.items():
            if kind == theirs and shape:
                kind, shape[-1] = ours, 2 * shape[-1]
        tensors.append((item.index.fqn, kind, shape))
    placed = zip(items, chunks, strict=True)
    offsets = {item.index.fqn: {"saved_offsets": list(chunk.offsets)} for item, chunk in placed}
    # As `HuggingFaceStorageWriter` describes shards.
    about = {"DCP_SHARDING_INFO": json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"}

    def load(number: int) -> Tensor:
        item = items[number]
        value, expected = planner.resolve_data(item).detach(), item.tensor_data.properties.dtype
        if value.dtype != expected:
            raise ValueError(f"`{item.index.fqn}`: expected {expected} as planned, found {value.dtype}")
        return _tensor(item.index.fqn, value)

    sealed = write_shard(place, file, tensors, about, load)
    places = {part["tensor"]: part for part in json.loads(sealed)["parts"] if "tensor" in part}
    return _results(file, sealed, [(item, places.get(item.index.fqn)) for item in items])


def _write_values(staged: str, file: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
    values = [(item.index.fqn, planner.resolve_data(item).getbuffer()) for item in items]
    sealed = write_items(staged, file, values)
    places = {part["tensor"]: part for part in json.loads(sealed)["parts"]}
    return _results(file, sealed, [(item, places.get(item.index.fqn)) for item in items])


def _results(file: str, sealed: str, items: list[tuple[WriteItem, dict[str, Any] | None]]) -> list[WriteResult]:
    results = []
    for number, (item, part) in enumerate(items):
        # A tensor without elements has no part.
        offset, size = (part["offset"], part["size"]) if part else (0, 0)
        info = filesystem._StorageInfo(file, offset, size)
        written = _Written(info, sealed if number == 0 else None)
        results.append(_storage.WriteResult(index=item.index, size_in_bytes=size, storage_data=written))
    return results


class StorageReader(_Directory, _storage.StorageReader):  # type: ignore[misc]
    """Reads a checkpoint of `StorageWriter`, or one with the items of PyTorch's own writer.

    All bytes are compared with the checksums of the seal, if there is one; with `verify=True`, a checkpoint without a seal is
    an error, and with `verify=False`, nothing is compared. After an error, the tensors to load into may have any contents.
    `.metadata` is unpickled with an allowlist of classes. Tensors and other values are loaded if
    `torch.load(weights_only=True)` accepts them; with `weights_only=False`, values may be of any class, and a hostile
    checkpoint can run code.
    """

    def __init__(self, path: Path | None = None, *, verify: bool | None = None, weights_only: bool = True) -> None:
        super().__init__(path)
        self.verify = verify
        self.weights_only = weights_only
        self._files: ShardFiles | None = None
        self._failure: Exception | None = None
        self._places: dict[Any, Any] = {}

    def reset(self, checkpoint_id: Path | None = None) -> None:
        """Begins another load."""
        if checkpoint_id:
            self.path = _path(checkpoint_id)
        self._files, self._failure, self._places = None, None, {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Returns the metadata of the checkpoint."""
        rank = kwargs.get("rank")
        if rank is None:
            try:
                return self._read_metadata(METADATA)
            except Exception as error:
                self._failure = error
                raise
        # Without collectives, each process has its own. PyTorch tries it after any failure, and most releases hide why both
        # failed, unless the exception is no `Exception`.
        try:
            return self._read_metadata(f"__{rank}{METADATA}")
        except Exception as error:
            failure = self._failure if isinstance(error, FileNotFoundError) and self._failure else error
            trace = traceback.extract_tb(failure.__traceback__)
            raise CheckpointException("read", {rank: (failure, trace)}) from None

    def _read_metadata(self, name: str) -> Metadata:
        found = self._opened().read(name, 0, None)
        data = io.BytesIO(b"" if found is None else bytes(found))
        return _Metadata.load(data, os.path.join(self.path or "", name))

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called on every process before planning."""
        if metadata.storage_data is None:
            raise ValueError(f"{self.path}: the metadata has no places of items")
        self._places = metadata.storage_data
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Returns the plan unchanged."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Returns the plans unchanged."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Reads the items of a plan, in the order of the files."""
        placed = [(self._places[item.storage_index], item) for item in plan.items]
        rows = _Rows(self._opened(), planner)
        for place, item in sorted(placed, key=lambda pair: (pair[0].relative_path, pair[0].offset)):
            self._read(item, place, planner, rows)
        rows.read()
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _opened(self) -> ShardFiles:
        if self._files is None:
            self._files = ShardFiles(self._required(), self.verify)
        return self._files

    def _read(self, item: ReadItem, place: Any, planner: LoadPlanner, rows: _Rows) -> None:
        if getattr(place, "transform_descriptors", None):
            raise ValueError(f"`{item.storage_index.fqn}`: items that were transformed are not supported")
        files = self._opened()
        if item.type == LoadItemType.BYTE_IO:
            found = files.read(place.relative_path, place.offset, place.length)
            plain = b"" if found is None else bytes(found)
            if self.weights_only:
                # Planners load values of any class.
                try:
                    torch.load(io.BytesIO(plain), map_location="cpu", weights_only=True)
                except pickle.UnpicklingError as error:
                    what = "needs more than plain values: pass weights_only=False if you trust the checkpoint"
                    raise pickle.UnpicklingError(f"`{item.storage_index.fqn}` {what} ({error})") from None
            planner.load_bytes(item, io.BytesIO(plain))
            return
        target = planner.resolve_tensor(item).detach()
        if target.size() != torch.Size(item.lengths):
            what = f"expected a target of dims {list(item.lengths)}, found {list(target.size())}"
            raise ValueError(f"`{item.storage_index.fqn}`: {what}")
        if place.relative_path.endswith(".safetensors"):
            if self._read_rows(item, place, target, rows):
                return
        else:
            found = files.read(place.relative_path, place.offset, place.length)
            data = io.BytesIO(b"" if found is None else bytes(found))
            value = torch.load(data, map_location="cpu", weights_only=True)
            _copy_columns(item, value, target, 0)
        planner.commit_tensor(item, target)

    def _read_rows(self, item: ReadItem, place: Any, target: torch.Tensor, rows: _Rows) -> bool:
        """Reads a box of a stored chunk into a tensor of its shape; only its rows are read.

        Returns whether they will be read later, together with other rows.
        """
        about = self._metadata.state_dict_metadata[item.storage_index.fqn]
        offset = item.storage_index.offset
        chunk = next(chunk for chunk in about.chunks if offset is None or chunk.offsets == offset)
        dtype, sizes = about.properties.dtype, list(chunk.sizes)
        size = torch.empty(0, dtype=dtype).element_size()
        count = size
        for dim in sizes:
            count *= dim
        if count != place.length:
            what = f"expected {count} bytes of {dtype} {sizes}, found {place.length}"
            raise ValueError(f"`{item.storage_index.fqn}`: {what}")
        box = zip(sizes, item.storage_offsets, item.lengths, strict=True)
        if any(begin < 0 or begin + extent > dim for dim, begin, extent in box):
            what = f"{list(item.lengths)} at {list(item.storage_offsets)} is outside of the chunk {sizes}"
            raise ValueError(f"`{item.storage_index.fqn}`: {what}")
        start, length = place.offset, place.length
        if sizes and sizes[0]:
            row = length // sizes[0]
            start, length = start + item.storage_offsets[0] * row, item.lengths[0] * row
            sizes[0] = item.lengths[0]
        if length == 0:
            return False
        if target.dtype == dtype and target.size() == torch.Size(sizes) and _is_plain(target):
            if length != target.nbytes:
                raise ValueError(f"`{item.storage_index.fqn}`: expected {target.nbytes} bytes, found {length}")
            rows.add(place.relative_path, start, item, target)
            return True
        found = self._opened().read(place.relative_path, start, length)
        raw = torch.frombuffer(found, dtype=torch.uint8)
        value = (raw.clone() if start % size else raw).view(dtype).reshape(sizes)
        _copy_columns(item, value, target, 1)
        return False


class _Rows:
    """Rows that are read into tensors together, on all processors."""

    MAX_SIZE = 256 << 20
    """Maximum size in bytes of tensors that are not committed yet: a planner may allocate them."""

    def __init__(self, files: ShardFiles, planner: LoadPlanner) -> None:
        self.files, self.planner = files, planner
        self.waiting: list[tuple[str, int, ReadItem, torch.Tensor]] = []
        self.size = 0

    def add(self, file: str, start: int, item: ReadItem, target: torch.Tensor) -> None:
        """Adds the bytes of a tensor, from `start` on."""
        self.waiting.append((file, start, item, target))
        self.size += target.nbytes
        if self.size >= self.MAX_SIZE:
            self.read()

    def read(self) -> None:
        """Reads what was added."""
        waiting, self.waiting, self.size = self.waiting, [], 0
        # The tensors keep their memory, of exactly this size, during the call.
        self.files.read_to([(file, start, _memory(target)) for file, start, _, target in waiting])
        for _, _, item, target in waiting:
            torch.autograd.graph.increment_version(target)
            self.planner.commit_tensor(item, target)


def _memory(tensor: torch.Tensor) -> memoryview:
    return memoryview((ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr()))


def _copy_columns(item: ReadItem, value: torch.Tensor, target: torch.Tensor, first: int) -> None:
    """Copies the box of an item, which is in `value` as it is before the dim `first`."""
    for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
        value = value if dim < first else value.narrow(dim, start, length)
    if value.size() != target.size():
        what = f"expected dims {list(target.size())}, found {list(value.size())}"
        raise ValueError(f"`{item.storage_index.fqn}`: {what}")
    target.copy_(value)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Returns whether the elements are at their addresses in CPU memory, in order."""
    here = type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.is_contiguous()
    lazy = tensor.is_conj() or tensor.is_neg() or tensor.data_ptr() == 0
    return here and not (lazy or tensor.is_quantized)


class _Metadata(pickle.Unpickler):
    """Unpickles `.metadata`; other classes than those that PyTorch writes there are errors."""

    CLASSES = {
        "torch.distributed.checkpoint.metadata": {
            "Metadata",
            "MetadataIndex",
            "TensorStorageMetadata",
            "BytesStorageMetadata",
            "ChunkStorageMetadata",
            "TensorProperties",
            "StorageMeta",
            "_MEM_FORMAT_ENCODING",
        },
        "torch.distributed._shard.sharded_tensor.metadata": {"TensorProperties", "MEM_FORMAT_ENCODING"},
        "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
        "torch": {"Size"},
        "torch.serialization": {"_get_layout"},
        "collections": {"OrderedDict"},
        "pathlib": {"Path", "PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath"},
        "pathlib._local": {"PosixPath", "PurePosixPath", "WindowsPath"},
    }

    def __init__(self, file: io.BytesIO, path: str) -> None:
        super().__init__(file)
        self.path = path

    @classmethod
    def load(cls, file: io.BytesIO, path: str) -> Metadata:  # type: ignore[override]
        try:
            found = super().load(cls(file, path))
        except pickle.UnpicklingError:
            raise
        except Exception as error:
            # Of the pickle, or of a class.
            raise pickle.UnpicklingError(f"{path}: {error}") from error
        if not isinstance(found, _metadata.Metadata):
            raise pickle.UnpicklingError(f"{path}: expected Metadata, found {type(found).__name__}")
        return found

    def find_class(self, module: str, name: str) -> Any:
        if name in self.CLASSES.get(module, ()):
            return _stand_in(super().find_class(module, name))
        if (module, name) == ("builtins", "getattr"):
            # As Python 3.11.0 to 3.11.3 pickle members of enumerations.
            return _stand_in(_member)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        raise pickle.UnpicklingError(f"{self.path}: refers to `{module}.{name}`, which metadata does not need")


class _StandIn(type):
    """The type of stand-ins for classes and functions. A pickle can call them, but not set their attributes."""

    _real: Any

    def __call__(cls, *args: Any) -> Any:
        found = cls._real(*args)
        return _Member([found]) if isinstance(found, enum.Enum) else found

    def __setattr__(cls, name: str, value: Any) -> None:
        raise TypeError(f"sets `{name}` of `{cls.__name__}`, which metadata does not need")


class _Member(tuple[enum.Enum]):
    """Stands for a member of an enumeration, and equals it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self[0] is other

    __hash__ = None  # type: ignore[assignment]


def _stand_in(real: Any) -> _StandIn:
    contents = {"__slots__": (), "_real": staticmethod(real)}
    if isinstance(real, type):
        contents["__new__"] = lambda _, *args: real.__new__(real, *args)
    return _StandIn(real.__name__, (), contents)


def _member(kind: Any, name: Any) -> Any:
    """Returns a member of an enumeration."""
    real = kind._real if isinstance(kind, _StandIn) else None
    if not (isinstance(real, type) and issubclass(real, enum.Enum) and name in real.__members__):
        raise pickle.UnpicklingError(f"expected a member of an enumeration, found `{name}`")
    return real[name]

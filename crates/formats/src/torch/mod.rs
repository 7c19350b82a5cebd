//! PyTorch.
//!
//! | module | contents |
//! |---|---|
//! | `detect` | detection of PyTorch files |
//! | `archive` | the zip archives of all releases since 1.0, and their members |
//! | `element` | element types |
//! | `view`, `strided` | tensors as views of storages |
//! | `code` | the code of TorchScript |
//! | `evaluate` | code to programs |
//! | `package` | the weights of exported programs |
//! | `object` | the objects in pickles |
//! | `saved` | files of `torch.save`, of all releases |
//! | `script` | the tensors of TorchScript |
//! | `distributed` | distributed checkpoints, and shards of an index |
//! | `read`, `write`, `map` | the readers and writers of the formats, and byte maps |
//! | `exported` | exported programs |
//! | `executorch` | programs and tensors of ExecuTorch |
//! | `imports` | imports and calls of pickles of tensors |
//! | `storages` | the tensors in a pickle, whose elements are outside of it |
//! | `outside` | the location of these elements, in archives and after pickles; programs in archives |
//! | `tape` | tape archives, of releases before 0.1.10 |
//! | `effects` | the effects of code on files, for scans |

pub(crate) mod archive;
pub(crate) mod code;
mod detect;
mod distributed;
mod effects;
pub(crate) mod element;
pub(crate) mod evaluate;
mod executorch;
mod exported;
mod imports;
mod layers;
mod map;
pub(crate) mod object;
mod outside;
pub(crate) mod package;
mod read;
pub(crate) mod saved;
pub(crate) mod script;
mod storages;
mod strided;
mod tape;
pub(crate) mod view;
mod write;

pub(crate) use detect::identify;
pub use executorch::read_blob as read_executorch_blob;
pub(crate) use imports::{has_module, imports};
pub(crate) use outside::{OUTSIDE, is_numbered};
pub use read::{read_blob, read_exported_blob, read_script_blob};

use lodstone_model::{Dialect, Model};

use crate::byte_map::Mapper;
use crate::format::{Format, Structure, Writes};
use crate::options::Holds;

/// The name of the format of `torch.save`.
pub(crate) const NAME: &str = "torch";

/// Returns whether tensors without elements had the device `meta`, which has none.
pub fn has_meta(model: &Model) -> bool {
    model.format == NAME
}

/// The name of the format of TorchScript.
pub(crate) const SCRIPT_NAME: &str = "torchscript";

/// The name of the format of exported programs.
pub(crate) const EXPORTED_NAME: &str = "torch-exported";

/// The name of the format of distributed checkpoints.
pub(crate) const DISTRIBUTED_NAME: &str = "torch-distributed";

/// The name of the format of ExecuTorch.
pub(crate) const EXECUTORCH_NAME: &str = "executorch";

/// The attribute of a dict of tensors that holds metadata, which PyTorch has no place for.
const METADATA: &str = "lodstone_metadata";

/// Files of `torch.save`, and the shards of an index.
pub static SAVED: Format = Format {
    name: NAME,
    title: "files of PyTorch's `torch.save`",
    holds: Holds {
        tensors: true,
        metadata: true,
        names: true,
        sparse: true,
        coo: true,
        dtype: |dtype| element::Element::of(dtype).is_some(),
        ..Holds::NOTHING
    },
    framework: "PyTorch",
    framework_tag: Some("pt"),
    extension: "pt",
    other_extensions: &["pth", "bin", "ckpt"],
    detect: detect::detect_saved,
    byte_maps: &[&BYTE_MAP, &STREAM_BYTE_MAP],
    // In archives of pickles, a value of one byte is a struct, and the directory is read through a buffer.
    structure: Some(Structure {
        memory_constant: 2 << 20,
        head: 900,
        tail: 1200,
        ..Structure::PICKLE
    }),
    read: read::read_saved,
    stage: write::write_saved,
    ..Format::PLAIN
};

/// Programs of TorchScript.
pub static SCRIPT: Format = Format {
    name: SCRIPT_NAME,
    title: "TorchScript programs (`torch.jit.save`)",
    holds: Holds { dtype: |_| true, unnamed: true, program: Some(Dialect::Torch), ..SAVED.holds },
    writes: Writes::Unedited,
    byte_maps: &[&BYTE_MAP],
    detect: detect::detect_script,
    read: read::read_script,
    stage: |model, path, options| write::write_back(SCRIPT_NAME, model, path, options),
    ..SAVED
};

/// Exported programs.
pub static EXPORTED: Format = Format {
    name: EXPORTED_NAME,
    title: "exported PyTorch programs (`torch.export.save`)",
    extension: "pt2",
    other_extensions: &[],
    detect: detect::detect_exported,
    read: read::read_exported,
    stage: |model, path, options| write::write_back(EXPORTED_NAME, model, path, options),
    ..SCRIPT
};

/// Distributed checkpoints.
pub static DISTRIBUTED: Format = Format {
    name: DISTRIBUTED_NAME,
    title: "distributed checkpoints of PyTorch",
    extension: "",
    other_extensions: &[],
    into_directory: true,
    holds: Holds { program: None, ..SCRIPT.holds },
    byte_maps: &[&METADATA_BYTE_MAP],
    files: &[".metadata", "__0_0.distcp"],
    structure: None,
    shards: Some(&distributed::SHARDS),
    detect: distributed::detect,
    read: distributed::read,
    stage: |model, path, options| write::write_back(DISTRIBUTED_NAME, model, path, options),
    ..SCRIPT
};

/// Programs and tensors of ExecuTorch.
pub static EXECUTORCH: Format = Format {
    name: EXECUTORCH_NAME,
    title: "ExecuTorch programs (`.pte`) and their tensors (`.ptd`)",
    extension: "pte",
    other_extensions: &[],
    holds: Holds { program: None, unnamed: false, ..SCRIPT.holds },
    byte_maps: &[&EXECUTORCH_BYTE_MAP],
    // References of four bytes lead to tables that are structs.
    structure: Some(Structure {
        memory_factor: 160,
        memory_constant: 256 << 10,
        head: 300,
        tail: 200,
        ..Structure::BINARY
    }),
    opaque: Some(executorch::opaque),
    detect: detect::detect_executorch,
    read: executorch::read,
    stage: |model, path, options| write::write_back(EXECUTORCH_NAME, model, path, options),
    ..SCRIPT
};

/// Byte maps of archives.
static BYTE_MAP: Mapper =
    Mapper { what: "PyTorch archives", detect: detect::is_archive, read: map::map };

/// Byte maps of streams.
static STREAM_BYTE_MAP: Mapper = Mapper {
    what: "PyTorch streams",
    detect: |probe| probe.entries.is_none() && is_numbered(probe.head, probe.len),
    read: map::map_stream,
};

/// Byte maps of the metadata of distributed checkpoints.
static METADATA_BYTE_MAP: Mapper = Mapper {
    what: "metadata of distributed PyTorch checkpoints",
    detect: distributed::detect,
    read: map::map_metadata,
};

/// Byte maps of programs and tensors of ExecuTorch.
static EXECUTORCH_BYTE_MAP: Mapper =
    Mapper { what: "ExecuTorch files", detect: detect::detect_executorch, read: executorch::map };

//! PaddlePaddle models as distributed: a program and its parameters, in files that belong
//! together.
//!
//! | era | program | parameters |
//! |---|---|---|
//! | 0.11 to 1.8 | `__model__`, or any name | one file per variable, or `__params__`, `params` |
//! | 2.0 to 2.6 | `X.pdmodel` | `X.pdiparams` |
//! | 3.0 on | `X.json` (PIR) | `X.pdiparams` |
//! | `static.save` of all | `X.pdmodel` or `X.json`, unpruned | `X.pdparams` and `X.pdopt`, pickles |
//!
//! Parameter files hold no names: the n-th record is the n-th of the persistable variables of the
//! program, sorted by name. A path may be any of the files, a directory, or the prefix `X`. If the
//! program and the parameters do not match, the error names the first difference.
//!
//! A parameter file that is opened by itself takes its names from the program beside it, if their numbers match, and
//! has none otherwise.
//!
//! Source of truth: `fluid/io.py`, `static/io.py` and `jit/api.py` of PaddlePaddle, and models that
//! 1.8.5, 2.6.2 and 3.3.1 wrote.
//!
//! Pickles (`.pdparams`, `.pdopt`) are read by `paddle::pickle`; a program beside them provides the element types
//! that pickles do not record.

mod detect;
mod layout;
mod pickles;
mod read;
mod write;

pub use read::{open, open_record};

use lodstone_model::Dialect;

use crate::byte_map::{self, Mapper};
use crate::encoding::pickle;
use crate::encoding::protobuf::map::map;
use crate::format::{Format, Prefix, Structure};
use crate::options::Holds;
use crate::paddle::pickle::AS_INTEGERS;
use crate::paddle::{self, program, stream};

const ALL: Holds = Holds {
    tensors: true,
    program: Some(Dialect::Paddle),
    names: true,
    lod: true,
    selected_rows: true,
    vocabulary: true,
    dtype: |dtype| lodstone_schema::paddle::codes::dtype_code(dtype).is_some(),
    ..Holds::NOTHING
};

const TENSORS: Holds = Holds { program: None, names: false, ..ALL };

/// Returns a format that is detected as [`BUNDLE`], whose reader determines the actual format.
const fn part(name: &'static str, title: &'static str, extension: &'static str) -> Format {
    Format {
        name,
        title,
        framework: "PaddlePaddle",
        holds: TENSORS,
        aligns: true,
        extension,
        read: read::open,
        stage: write::write_bundle,
        ..Format::PLAIN
    }
}

/// A program and its parameters in one file each; detection covers all PaddlePaddle models.
pub static BUNDLE: Format = Format {
    holds: ALL,
    alone: Some("paddle-params"),
    detect: detect::detect,
    record: Some(open_record),
    into_directory: true,
    byte_maps: &[&PROGRAM_BYTE_MAP, &STREAM_BYTE_MAP],
    files: &["model.pdmodel", "model.pdiparams"],
    prefix: Some(Prefix { endings: &[".pdmodel", ".json", ".pdiparams"], find: read::by_prefix }),
    ..part("paddle", "Paddle program and combined parameters", "pdmodel")
};

/// A directory with a program and a file for each variable.
pub static VARS: Format = Format {
    holds: ALL,
    into_directory: true,
    byte_maps: BUNDLE.byte_maps,
    files: &["__model__", "x", "y"],
    stage: write::write_vars,
    ..part("paddle-vars", "Paddle program and one file a variable", "")
};

/// A program with its parameters and the state of its optimizer in pickles.
pub static SAVE: Format = Format {
    holds: ALL,
    alone: Some("paddle-params"),
    aligns: false,
    into_directory: true,
    byte_maps: &[&PROGRAM_BYTE_MAP, &PICKLE_BYTE_MAP],
    files: &["model.pdmodel", "model.pdparams", "model.pdopt"],
    stage: write::write_saved,
    ..part(SAVED, "Paddle program and pickles (`static.save`)", "")
};

/// A PIR program with its parameters.
pub static PIR: Format = Format {
    holds: Holds { program: Some(Dialect::Pir), ..ALL },
    alone: Some("paddle-params"),
    into_directory: true,
    byte_maps: &[&STREAM_BYTE_MAP],
    files: &["net.json", "net.pdiparams"],
    // A name of a value is repeated wherever it is used.
    structure: Some(Structure {
        memory_factor: 64,
        memory_constant: 3 << 20,
        tokens: b"0123456789[]{},:\"-\\pIOA#%",
        head: 4000,
        tail: 600,
    }),
    stage: write::write_pir,
    ..part(PIR_NAME, "Paddle 3 program (PIR) and combined parameters", "json")
};

/// The name of [`PIR`].
const PIR_NAME: &str = "paddle-pir";

/// The name of [`SAVE`].
const SAVED: &str = "paddle-save";

/// Byte maps of tensor streams, of one tensor or several.
static STREAM_BYTE_MAP: Mapper = Mapper {
    what: "PaddlePaddle tensor streams",
    detect: |probe| detect::content(probe.head, probe.len) == Some(detect::Content::Stream),
    read: stream::map,
};

/// Byte maps of programs.
static PROGRAM_BYTE_MAP: Mapper = Mapper {
    what: "PaddlePaddle programs",
    detect: |probe| detect::content(probe.head, probe.len) == Some(detect::Content::Program),
    read: |blob, limits| {
        let recorded = byte_map::record(blob, |cursor| {
            map(cursor, &program::schema::PROGRAM, limits, |_, _, _| false)
        });
        byte_map::checked(recorded, || program::read(blob, &byte_map::origin(blob), limits))
    },
};

/// Byte maps of pickles.
static PICKLE_BYTE_MAP: Mapper = Mapper {
    what: "PaddlePaddle pickles",
    detect: |probe| {
        detect::content(probe.head, probe.len) == Some(detect::Content::Pickle)
            && !detect::is_of_others(probe.head, probe.len)
    },
    read: |blob, limits| {
        let recorded =
            byte_map::record(blob, |cursor| pickle::map(cursor, blob, limits, |_| Ok(())));
        byte_map::checked(recorded, || paddle::pickle::read_blob(blob, limits))
    },
};

/// Returns a format of tensor streams.
const fn stream(name: &'static str, title: &'static str, extension: &'static str) -> Format {
    // A tensor is a struct of some hundred bytes, and the smallest record, an empty vocabulary, has 8.
    let structure = Structure { memory_factor: 40, ..Structure::BINARY };
    let structure = Some(structure);
    Format { byte_maps: const { &[&STREAM_BYTE_MAP] }, structure, ..part(name, title, extension) }
}

/// Concatenated parameters in one file.
pub static PARAMS: Format = Format {
    stage: write::write_params,
    ..stream("paddle-params", "Paddle combined parameters", "pdiparams")
};

/// Parameters in one file, each after its size.
pub static PARAMS_SIZED: Format = Format {
    stage: write::write_params_sized,
    ..stream("paddle-params-sized", "Paddle size-prefixed parameters", "")
};

/// A single tensor.
pub static TENSOR: Format =
    Format { stage: write::write_tensor, ..stream("paddle-tensor", "Paddle tensor stream", "") };

/// A single tensor in the layout of 2017.
pub static TENSOR_LOD_LAST: Format = Format {
    holds: Holds { selected_rows: false, vocabulary: false, ..TENSORS },
    stage: write::write_tensor_lod_last,
    ..stream("paddle-tensor-lod-last", "Paddle tensor stream, LoD last (2017)", "")
};

/// A file of `paddle.save`.
pub static PICKLE: Format = Format {
    holds: Holds {
        lod: false,
        selected_rows: false,
        vocabulary: false,
        names: true,
        dtype: |dtype| crate::encoding::array::code(dtype).is_some(),
        stand_in: |dtype| AS_INTEGERS.iter().find(|(of, _)| *of == dtype).map(|(_, held)| *held),
        ..TENSORS
    },
    aligns: false,
    other_extensions: &["pdopt"],
    byte_maps: &[&PICKLE_BYTE_MAP],
    // A value of one byte is a struct, and an object a larger one; descriptions of values are text.
    structure: Some(Structure { memory_constant: 1 << 20, tail: 64, ..Structure::PICKLE }),
    stage: crate::paddle::pickle::write,
    ..part(crate::paddle::pickle::NAME, "Paddle pickle (`paddle.save`)", "pdparams")
};

/// A program without parameters.
pub static PROGRAM: Format = Format {
    holds: Holds { tensors: false, ..ALL },
    alone: Some("paddle-params"),
    byte_maps: &[&PROGRAM_BYTE_MAP],
    // The nodes of a program are larger than their bytes: an operator of five bytes is a struct.
    structure: Some(Structure { memory_factor: 72, ..Structure::BINARY }),
    stage: write::write_program,
    ..part("paddle-program", "Paddle program", "pb")
};

/// A program without parameters, in text format.
pub static PROGRAM_TEXT: Format = Format {
    holds: Holds { tensors: false, ..ALL },
    alone: Some("paddle-params"),
    structure: Some(Structure { memory_factor: 72, ..Structure::TEXT }),
    stage: write::write_program_text,
    is_text: true,
    ..part("paddle-program-text", "Paddle program as text", "pbtxt")
};

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

use crate::encoding::pickle;
use crate::encoding::protobuf::map::map;
use crate::paddle::pickle::AS_INTEGERS;
use crate::paddle::{self, program, stream};
use crate::{Format, Holds, Mapper, Prefix, Probe, byte_map};

const ALL: Holds = Holds {
    tensors: true,
    metadata: false,
    program: Some(Dialect::Paddle),
    startup: false,
    names: true,
    unnamed: false,
    lod: true,
    selected_rows: true,
    sparse: false,
    coo: false,
    strings: false,
    vocabulary: true,
    dtype: |dtype| lodstone_schema::paddle::codes::dtype_code(dtype).is_some(),
    stand_in: |_| None,
};

const TENSORS: Holds = Holds { program: None, names: false, ..ALL };

/// Returns a format that is detected as [`BUNDLE`], whose reader determines the actual format.
const fn part(name: &'static str, title: &'static str, extension: &'static str) -> Format {
    let (read, stage) = (read::open, write::write_bundle);
    let (splits, aligns, externals) = (false, true, false);
    let detect = |_: &Probe<'_>| false;
    let prefix = None;
    Format {
        name,
        title,
        holds: TENSORS,
        alone: None,
        framework: None,
        splits,
        aligns,
        externals,
        extension,
        other_extensions: &[],
        into_directory: false,
        prefix,
        detect,
        record: None,
        reads_member: |_| false,
        variable_of: |name| name,
        read,
        stage,
    }
}

/// A program and its parameters in one file each; detection covers all PaddlePaddle models.
pub static BUNDLE: Format = Format {
    holds: ALL,
    alone: Some("paddle-params"),
    detect: detect::detect,
    record: Some(open_record),
    into_directory: true,
    prefix: Some(Prefix { endings: &[".pdmodel", ".json", ".pdiparams"], find: read::by_prefix }),
    ..part("paddle", "Paddle program and combined parameters", "pdmodel")
};

/// A directory with a program and a file for each variable.
pub static VARS: Format = Format {
    holds: ALL,
    into_directory: true,
    stage: write::write_vars,
    ..part("paddle-vars", "Paddle program and one file a variable", "")
};

/// A program with its parameters and the state of its optimizer in pickles.
pub static SAVE: Format = Format {
    holds: ALL,
    alone: Some("paddle-params"),
    aligns: false,
    into_directory: true,
    stage: write::write_saved,
    ..part(SAVED, "Paddle program and pickles (`static.save`)", "")
};

/// A PIR program with its parameters.
pub static PIR: Format = Format {
    holds: Holds { program: Some(Dialect::Pir), ..ALL },
    alone: Some("paddle-params"),
    into_directory: true,
    stage: write::write_pir,
    ..part(PIR_NAME, "Paddle 3 program (PIR) and combined parameters", "json")
};

/// The name of [`PIR`].
const PIR_NAME: &str = "paddle-pir";

/// The name of [`SAVE`].
const SAVED: &str = "paddle-save";

/// Byte maps of tensor streams, of one tensor or several.
pub(crate) static STREAM_BYTE_MAP: Mapper = Mapper {
    what: "PaddlePaddle tensor streams",
    detect: |probe| detect::content(probe.head, probe.len) == Some(detect::Content::Stream),
    read: stream::map,
};

/// Byte maps of programs.
pub(crate) static PROGRAM_BYTE_MAP: Mapper = Mapper {
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
pub(crate) static PICKLE_BYTE_MAP: Mapper = Mapper {
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

/// Concatenated parameters in one file.
pub static PARAMS: Format = Format {
    stage: write::write_params,
    ..part("paddle-params", "Paddle combined parameters", "pdiparams")
};

/// Parameters in one file, each after its size.
pub static PARAMS_SIZED: Format = Format {
    stage: write::write_params_sized,
    ..part("paddle-params-sized", "Paddle size-prefixed parameters", "")
};

/// A single tensor.
pub static TENSOR: Format =
    Format { stage: write::write_tensor, ..part("paddle-tensor", "Paddle tensor stream", "") };

/// A single tensor in the layout of 2017.
pub static TENSOR_LOD_LAST: Format = Format {
    holds: Holds { selected_rows: false, vocabulary: false, ..TENSORS },
    stage: write::write_tensor_lod_last,
    ..part("paddle-tensor-lod-last", "Paddle tensor stream, LoD last (2017)", "")
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
    stage: crate::paddle::pickle::write,
    ..part(crate::paddle::pickle::NAME, "Paddle pickle (`paddle.save`)", "pdparams")
};

/// A program without parameters.
pub static PROGRAM: Format = Format {
    holds: Holds { tensors: false, ..ALL },
    alone: Some("paddle-params"),
    stage: write::write_program,
    ..part("paddle-program", "Paddle program", "pb")
};

/// A program without parameters, in text format.
pub static PROGRAM_TEXT: Format = Format {
    holds: Holds { tensors: false, ..ALL },
    alone: Some("paddle-params"),
    stage: write::write_program_text,
    ..part("paddle-program-text", "Paddle program as text", "pbtxt")
};

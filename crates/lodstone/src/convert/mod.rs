//! Conversion of a model to any format that can represent it, and lossless writing in its own format.
//!
//! A program is translated to the operators of the target; tensors are selected, cast, transposed and renamed; and what the
//! target cannot hold is a loss that has to be allowed. [`fix_shapes`], [`fix_types`], [`fix_inputs`] and [`select_outputs`] change
//! the inputs and outputs of a program that is open, [`arrays`] returns plain arrays.

// A conversion is a list of `STAGES`, which change a `Draft`: the model, and what is known about it. Each stage reads its
// options and applies operations of the draft, which other commands may apply, too; `write` is the end.

mod draft;
mod stages;
mod write;

use std::path::PathBuf;

use lodstone_formats::{FORMATS, Format, WriteOptions};
use lodstone_model::{AttributeValue, DType, Dim, Loss, Model, Report};
use lodstone_store::{Location, MemoryStore};

pub use lodstone_formats::ExternalData;
pub use lodstone_schema::onnx::{UpgradeError, newest_opset};

use self::draft::Draft;
use crate::adapt::Renames;
pub use crate::cast::CAST_TYPES;
use crate::fit::check_allowed;
pub use crate::fit::{arrays, composed};
pub use crate::infer::InferredShapes;
pub use crate::outputs::select_outputs;
pub use crate::shapes::{fix_inputs, fix_shapes, fix_types};
use crate::{Error, Result};

/// The options of a conversion.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The target format; by default, it follows from the name of the output.
    pub to: Option<Target>,
    /// Patterns of the names of tensors to keep; all by default.
    pub include: Vec<String>,
    /// Patterns of the names of tensors to drop.
    pub exclude: Vec<String>,
    /// The kind of tensor names to use; all patterns match these.
    pub names: ParameterNames,
    /// New names of tensors, applied after every option that refers to the old names.
    pub renames: Renames,
    /// Patterns of the names of matrices to transpose.
    pub transpose: Vec<String>,
    /// Element type for floating-point tensors.
    pub cast: Option<DType>,
    /// Whether the inputs and outputs of a program that is cast keep their types.
    pub keep_io: bool,
    /// The opset version of the written ONNX program; by default, its own, or for a program that is exported to ONNX,
    /// 17, or the lowest one after it that its operators need.
    pub opset: Option<i64>,
    /// The domain in which operators without an equivalent are kept when a program is exported to ONNX.
    pub custom_domain: Option<String>,
    /// LoD levels of inputs of a program that is exported to ONNX, with their names, outermost first: they
    /// become constants.
    pub lod: Vec<(String, Vec<u64>)>,
    /// The shapes of inputs of a program, by name: known dims fix dynamic ones. Where a program does not declare the shape
    /// of an input, unknown dims and symbols declare its rank.
    pub input_shapes: Vec<(String, Vec<Dim>)>,
    /// The element types of inputs of a program that does not declare them, by name.
    pub input_types: Vec<(String, DType)>,
    /// Values of inputs that are declared as numbers, such as `rate: int`: they become constants of the
    /// program, and what depends on them, such as a branch, is decided.
    pub input_values: Vec<(String, AttributeValue)>,
    /// The values that become the outputs of the program, by name or pattern, as [`select_outputs`] has them; its own outputs by
    /// default.
    pub outputs: Vec<String>,
    /// Whether to declare the [inferred types](crate::infer_shapes) of all values of an ONNX program.
    pub infer_shapes: bool,
    /// Losses that are allowed.
    pub allow: Vec<Loss>,
    /// Whether to write the tensors without the program, even if the format can represent it.
    pub weights_only: bool,
    /// Removes references to the training script from operators; only [`Target::Same`] keeps them.
    pub strip_source: bool,
    /// The write options; `to` determines whether the original file layout is kept.
    pub write: WriteOptions,
}

lodstone_model::with_fields!(ConvertOptions {
    with_to(to: Option<Target>),
    with_include(include: Vec<String>),
    with_exclude(exclude: Vec<String>),
    with_names(names: ParameterNames),
    with_renames(renames: Renames),
    with_transpose(transpose: Vec<String>),
    with_cast(cast: Option<DType>),
    with_keep_io(keep_io: bool),
    with_opset(opset: Option<i64>),
    with_custom_domain(custom_domain: Option<String>),
    with_lod(lod: Vec<(String, Vec<u64>)>),
    with_input_shapes(input_shapes: Vec<(String, Vec<Dim>)>),
    with_input_types(input_types: Vec<(String, DType)>),
    with_input_values(input_values: Vec<(String, AttributeValue)>),
    with_outputs(outputs: Vec<String>),
    with_infer_shapes(infer_shapes: bool),
    with_allow(allow: Vec<Loss>),
    with_weights_only(weights_only: bool),
    with_strip_source(strip_source: bool),
    with_write(write: WriteOptions),
});

/// The target format of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The format of the source model, byte for byte.
    Same,
    /// The format with this name.
    Format(String),
}

/// The kind of tensor names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterNames {
    /// The names of the variables of the program.
    #[default]
    Program,
    /// The structured names that layers use, where files record them: `conv1.weight`.
    Structured,
}

/// The result of a conversion.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The format that was written.
    pub format: &'static str,
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// The number of tensors in them.
    pub tensors: usize,
    /// The size of their elements in bytes.
    pub nbytes: u64,
    /// The opset version of an ONNX program that was exported, or written with a requested version.
    pub opset: Option<i64>,
    /// Warnings, and the losses that were allowed.
    pub report: Report,
}

/// The target and the options of a conversion.
struct Request<'o> {
    out: Location,
    format: &'static Format,
    options: &'o ConvertOptions,
}

impl<'o> Request<'o> {
    fn new(model: &Model, out: Location, options: &'o ConvertOptions) -> Result<Self> {
        let format = target_format(model, &out, options.to.as_ref())?;
        Ok(Self { out, format, options })
    }

    /// Returns whether the files are written byte for byte, as far as they were not changed.
    fn is_same(&self) -> bool {
        self.options.to == Some(Target::Same)
    }
}

/// A part of a conversion: it applies operations to the draft, if its options ask for them.
type Stage = fn(&mut Draft, &Request<'_>) -> Result<()>;

/// The stages of a conversion, in their order: names and values of the source first, then the program, then the tensors.
const STAGES: &[Stage] = &[
    stages::check_options,
    stages::use_structured_names,
    stages::drop_program,
    stages::fix_inputs,
    stages::select_outputs,
    stages::translate,
    stages::set_opset,
    stages::cast_program,
    stages::check_program,
    stages::infer_shapes,
    stages::select,
    stages::transpose,
    stages::rename,
    stages::check_tensors,
    stages::strip_source,
    stages::cast_tensors,
    stages::fit,
];

/// Writes a model.
///
/// # Errors
/// [`Error::Lossy`] if the conversion would lose something that is not allowed; then nothing is written.
/// Other errors if the format cannot represent the model, or reading or writing fails.
pub fn convert(
    model: Model,
    out: impl Into<Location>,
    options: &ConvertOptions,
) -> Result<Conversion> {
    let request = Request::new(&model, out.into(), options)?;
    write::write(drafted(model, &request)?, &request)
}

/// Applies all stages of a conversion.
fn drafted(model: Model, request: &Request<'_>) -> Result<Draft> {
    let mut draft = Draft::new(model, request.options.infer_shapes);
    for stage in STAGES {
        stage(&mut draft, request)?;
    }
    Ok(draft)
}

/// Returns what a conversion to ONNX would write. The operators and constants remember where they come from.
///
/// # Errors
/// As [`convert`].
pub(crate) fn exported(mut model: Model, options: &ConvertOptions) -> Result<Model> {
    model.remember();
    let options = options.clone().with_to(Some(Target::Format(ONNX.to_owned())));
    let out = MemoryStore::default().location(ONNX);
    let request = Request::new(&model, out, &options)?;
    let draft = drafted(model, &request)?;
    let (model, report, _) = draft.finish();
    check_allowed(&report, &options.allow)?;
    Ok(model)
}

/// The format that exports have.
const ONNX: &str = "onnx";

/// Returns the format of `out`: the one of `to`, or the one of its extension.
///
/// # Errors
/// If there is no such format.
pub fn target_format(
    model: &Model,
    out: &Location,
    to: Option<&Target>,
) -> Result<&'static Format> {
    match to {
        Some(Target::Same) => lodstone_formats::named(&model.format).ok_or_else(|| {
            let why = format!("writing {} is not supported: pass another format", model.format);
            Error::InvalidOption { option: "to", why }
        }),
        Some(Target::Format(name)) => {
            lodstone_formats::named(name).ok_or_else(|| Error::UnknownFormat(name.to_owned()))
        }
        None => {
            let by_name = FORMATS.iter().find(|format| format.is_selected_by(out));
            by_name.copied().ok_or_else(|| Error::UnclearTarget(out.display().to_string()))
        }
    }
}

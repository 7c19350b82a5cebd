//! The options of `convert`.

use std::path::PathBuf;

use clap::Args;
use lodstone::DType;

use crate::args::options::{Allow, Clobber, Interface, Open, Renaming};
use crate::args::values::{alignment, casts, formats_or_same, opset, share, size};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone convert resnet50/ resnet50.safetensors
  lodstone convert resnet50/ copy/ --to same                 byte for byte
  lodstone convert inference fp16.safetensors --cast float16 --allow fp16-rounding
  lodstone convert inference vars/ --to paddle-vars --include 'conv*'
  lodstone convert model.pdparams torch.safetensors --rename names.txt --transpose '*linear*.weight'
  lodstone convert net-symbol.json net.safetensors --weights-only --rename 'arg:*=*'
  lodstone convert big.pdmodel big.safetensors --max-shard-size 5GB
  lodstone convert big.onnx out/big.onnx --external-data one   weights in out/big.onnx.data
  lodstone convert model/ out.onnx --check                     export to ONNX and compare
  lodstone convert old.onnx new.onnx --opset 21                with operators of opset 21
  lodstone convert net.onnx typed.onnx --infer-shapes          declare the types of all values
  lodstone convert net.onnx glow.onnx --to onnx-glow --input-shape data:1,3,224,224
  lodstone convert resnet50/ features.onnx --output pool5   the operators up to this value
  lodstone convert --list models.txt --into out/ --to npz --shard 0/4")]
pub(crate) struct Convert {
    /// A file, a directory, or the prefix that the files of a model share
    #[arg(required_unless_present = "list")]
    pub(crate) input: Option<PathBuf>,
    /// Where to write: a file, a prefix, or a directory
    #[arg(required_unless_present = "list")]
    pub(crate) output: Option<PathBuf>,
    /// Convert the models of a list instead: a file with a path per line, and optionally a tab and the output
    ///
    /// Existing outputs are kept, so that a conversion can be repeated. A model that cannot be converted is reported, and the
    /// others are converted.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "output", "check"])]
    pub(crate) list: Option<PathBuf>,
    /// Directory of the outputs that the list does not give; each has the path of its model below it
    #[arg(long, value_name = "DIR", requires_all = ["list", "to"])]
    pub(crate) into: Option<PathBuf>,
    /// Convert only every N-th model of the list, from the I-th on, counted from 0
    #[arg(long, value_name = "I/N", requires = "list", value_parser = share)]
    pub(crate) shard: Option<(usize, usize)>,
    /// Format to write [default: by the extension of the output]
    #[arg(long, value_name = "FORMAT", value_parser = formats_or_same())]
    pub(crate) to: Option<String>,
    /// Keep only tensors whose names match (`*`, `?`, `[..]`, `{a,b}`); may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Omit tensors whose names match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    #[command(flatten)]
    pub(crate) renaming: Renaming,
    /// Name parameters as in the program, or by their structured names (`conv1.weight`) where recorded
    #[arg(long, value_name = "WHICH", value_parser = ["program", "structured"], default_value = "program")]
    pub(crate) names: String,
    /// Transpose matrices whose names match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) transpose: Vec<String>,
    /// Write the tensors without the program
    #[arg(long)]
    pub(crate) weights_only: bool,
    /// Cast floating-point tensors, with ONNX programs; other programs cannot be cast, see
    /// --weights-only
    #[arg(long, value_name = "DTYPE", value_parser = casts())]
    pub(crate) cast: Option<DType>,
    /// Keep the types of the inputs and outputs of a program that is cast
    #[arg(long, requires = "cast")]
    pub(crate) keep_io: bool,
    /// Write an ONNX program with this opset version (11 or newer), or the newest [default: its own;
    /// for exported programs 17, or the lowest that the operators need]
    #[arg(long, value_name = "VERSION", value_parser = opset)]
    pub(crate) opset: Option<i64>,
    /// Keep operators without an ONNX equivalent, in this domain, when exporting a program
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) custom_ops: Option<String>,
    /// Run the source and the result on the same inputs, and compare their outputs
    #[arg(long)]
    pub(crate) check: bool,
    /// Input for --check: `NAME=FILE`, or `FILE` for the next input [default: random]; may be repeated
    #[arg(short = 'i', long = "input", value_name = "NAME=FILE", requires = "check")]
    pub(crate) check_input: Vec<String>,
    /// LoD of an input, as offsets: `NAME=0,3,7`, once per level, outermost first; an export makes it
    /// constant
    #[arg(long, value_name = "NAME=0,3,7")]
    pub(crate) lod: Vec<String>,
    #[command(flatten)]
    pub(crate) interface: Interface,
    /// Make this value an output of the program, in place of its own outputs, and omit what the selected ones do not depend
    /// on; a name or a pattern (`*`, `?`, `[..]`, `{a,b}`); may be repeated
    #[arg(id = "outputs", long = "output", visible_alias = "fetch", value_name = "NAME")]
    pub(crate) outputs: Vec<String>,
    /// Declare the types of all values of an ONNX program that can be inferred
    #[arg(long)]
    pub(crate) infer_shapes: bool,
    #[command(flatten)]
    pub(crate) allow: Allow,
    /// Split into files of at most this size (5GB, 512MiB), for formats that support it
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_shard_size: Option<u64>,
    /// Align tensor data to this many bytes, for formats that support it
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true, value_parser = alignment)]
    pub(crate) align: u64,
    /// Store tensor data in one other file, in one file per tensor, or inside the model, for
    /// formats that support it
    #[arg(long, value_name = "HOW", value_parser = ["one", "each", "none"])]
    pub(crate) external_data: Option<String>,
    /// Remove paths and source lines of the training script, even with `--to same`
    #[arg(long)]
    pub(crate) strip_source: bool,
    /// Seal the output
    #[arg(long)]
    pub(crate) seal: bool,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) clobber: Clobber,
    #[command(flatten)]
    pub(crate) open: Open,
}

//! The command line, as data.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand};
use colorchoice_clap::Color;
use lodstone::{
    AttributeValue, CAST_TYPES, DType, DangerKind, Dim, Dirs, Engine, FORMATS, Limits, Links,
    Location, Loss, OpenOptions, StoreError, WriteOptions,
};

use crate::Failure;
use crate::console::Verbosity;
use crate::stores::at;

use crate::checkpoint::args::Checkpoint;
use crate::program::args::Programs;

/// Maximum number of threads of a run.
const MAX_THREADS: usize = 1024;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Open deep-learning models without the framework that wrote them
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 success or yes, 1 no, 2 error or unknown.
/// A path of `-` is standard input or standard output. Addresses work like paths: `s3://bucket/path`, `gs://`, `az://`,
/// `hf://org/repository@revision/path`, `https://`.
#[derive(Parser)]
#[command(name = "lodstone", version, disable_version_flag = true)]
#[command(styles = STYLES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
    /// Print the version; with --verbose also the commit, the features and the vector level of the processor
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// Options of every command.
#[derive(Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print only data and errors: no warnings, summaries or progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print details: formats, files, times, causes of errors
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Print the number of requests to remote stores, and the bytes received and sent; with --json also as `stats`
    #[cfg(feature = "remote")]
    #[arg(long, global = true)]
    pub(crate) stats: bool,
    /// Permit URLs and redirects to hosts of this machine and of private networks
    #[cfg(feature = "remote")]
    #[arg(long, global = true)]
    pub(crate) allow_private_addresses: bool,
    #[command(flatten)]
    pub(crate) color: Color,
}

impl Global {
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what a model contains: format, version, tensors, operators, warnings
    Inspect(Inspect),
    /// Print one tensor as text, or write it as a NumPy array
    Cat(Cat),
    /// Convert a model to another format, or copy it byte for byte
    Convert(Convert),
    /// Compare the tensors and operators of two models; exit 0 if they are equal, 1 if they differ
    Diff(Diff),
    /// Run a model and print or write its outputs
    Run(Run),
    /// Run two models on the same inputs and compare their values; exit 0 if the outputs agree, 1 if
    /// not
    ///
    /// Values are paired by name, outputs of other names by position. A value without a counterpart is
    /// counted, and never equal. Programs of different frameworks can be compared.
    Compare(Compare),
    /// List code-execution and information-leak risks without loading the model; exit 0 clean,
    /// 1 findings, 2 unknown
    ///
    /// A file is clean if every byte of it was understood and nothing was found: models, arrays, pickles of
    /// plain values, archives of these, text. Every other file is unknown, and listed.
    Scan(Scan),
    /// Write checksums beside a model, so that any later change is detected
    Seal(Seal),
    /// Train a model on arrays; write its losses as text, table and plot, and the trained model
    Train(Train),
    /// Check a model's structure, bounds and checksums; exit 0 whole, 1 damaged, 2 error
    Verify(Verify),
    /// List, show, verify, prune and restore checkpoints
    Checkpoint(Checkpoint),
    /// Derive programs from a program: inference, loaders, checkpoint operators; print it as text
    Program(Programs),
    /// List which operators of a model can be exported to ONNX, or run, and why others cannot
    Ops(Ops),
    /// Finish an interrupted write (crash, power loss) and remove its temporary files
    Recover(Recover),
    /// List the formats and the operations that each supports
    Formats(Formats),
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual: a page for this command, and for each subcommand
    Man {
        /// The directory of the pages, such as `~/.local/share/man/man1`
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// How a model is opened.
#[derive(Args)]
pub(crate) struct Open {
    #[command(flatten)]
    whole: Whole,
    #[command(flatten)]
    trust: Trust,
    /// Open this program of a model with several, without the others [default: `main`]
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
}

/// How a model is opened to be verified or sealed.
#[derive(Args)]
pub(crate) struct Whole {
    /// Read the parameters from this file or directory
    #[arg(long, value_name = "PATH")]
    params: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// How files are found and read.
#[derive(Args)]
pub(crate) struct Files {
    /// Follow symbolic links that leave the directory of the model, as in download caches
    #[arg(long)]
    follow_links: bool,
    /// Read files instead of mapping them into memory; safe for files that others may truncate
    #[arg(long)]
    no_mmap: bool,
    /// Accept FACTOR times as many tensors and fields, and bytes of structure, as from files of strangers; takes more memory
    #[arg(long, value_name = "FACTOR", default_value_t = NonZeroU32::MIN, hide_default_value = true)]
    raise_limits: NonZeroU32,
}

/// Whether seals are checked.
#[derive(Args)]
pub(crate) struct Trust {
    /// Do not compare sealed models with their checksums
    #[arg(long)]
    no_verify: bool,
}

/// Accepted losses.
#[derive(Args)]
pub(crate) struct Allow {
    /// Accept a loss by its name; may be repeated
    #[arg(long, value_name = "LOSS", value_parser = losses())]
    allow: Vec<String>,
}

impl Allow {
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let is_allowed = |loss: &Loss| self.allow.iter().any(|name| name == loss.name());
        Loss::ALL.iter().copied().filter(is_allowed).collect()
    }
}

/// How files are written.
#[derive(Args)]
pub(crate) struct Clobber {
    /// Fail instead of replacing existing files
    #[arg(long)]
    no_clobber: bool,
}

impl Clobber {
    pub(crate) fn options(&self) -> WriteOptions {
        WriteOptions::default().with_no_clobber(self.no_clobber)
    }

    /// Fails if the output exists and must not be replaced: early, rather than after hours of work.
    pub(crate) fn check(&self, output: &Location) -> Result<(), Failure> {
        match self.no_clobber && output.exists()? {
            true => Err(StoreError::Exists { path: output.path().to_owned() }.into()),
            false => Ok(()),
        }
    }
}

impl Open {
    pub(crate) fn options(&self) -> Result<OpenOptions, Failure> {
        Ok(self.trust.options(self.whole.options()?).with_program(self.program.clone()))
    }
}

impl Whole {
    pub(crate) fn options(&self) -> Result<OpenOptions, Failure> {
        self.files.options(self.params.as_deref())
    }
}

impl Files {
    pub(crate) fn options(&self, params: Option<&Path>) -> Result<OpenOptions, Failure> {
        Ok(OpenOptions::default()
            .with_params(params.map(at).transpose()?)
            .with_mmap(!self.no_mmap)
            .with_limits(Limits::default().raised(self.raise_limits))
            .with_links(if self.follow_links { Links::Follow } else { Links::Confined }))
    }
}

impl Trust {
    pub(crate) fn options(&self, options: OpenOptions) -> OpenOptions {
        options.with_verify(!self.no_verify)
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone inspect resnet50/                     a directory, with files of any name
  lodstone inspect inference                     the prefix of inference.pdmodel and .pdiparams
  lodstone inspect train.pb --params vars/       a program, with its variables in another directory
  lodstone inspect model.safetensors --tensors   its tensors; --limit 50 for the first 50 only
  lodstone inspect model.safetensors --json --hash
  lodstone inspect net.onnx --graph dot > net.dot    for Graphviz; also mermaid, text
  lodstone inspect net.onnx --layers             parameters by operator and by name
  lodstone inspect net.onnx --inferred           types of all values, inferred where not declared
  lodstone inspect net.onnx --bytes --tensor w   where each field of a tensor is in the file")]
pub(crate) struct Inspect {
    /// Models: files, directories, or prefixes that the files of a model share
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print JSON (schema 1), one document for each model
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the SHA-256 of the elements of each tensor; reads all of them
    #[arg(long)]
    pub(crate) hash: bool,
    /// List the tensors [default: only if there is no program, and at most 12 tensors]
    #[arg(long)]
    pub(crate) tensors: bool,
    /// List the operators in order, with their inputs and outputs
    #[arg(long)]
    pub(crate) operators: bool,
    /// Print the program as a graph instead
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "dot", "mermaid"])]
    #[arg(conflicts_with_all = ["json", "hash", "layers", "tensors", "operators"])]
    pub(crate) graph: Option<String>,
    /// Print at most N rows of each table, inputs, outputs and metadata; fail if a graph has more operators [default:
    /// all rows, 4 inputs, outputs and metadata, 10000 operators of a graph]
    #[arg(long, value_name = "N", conflicts_with = "json")]
    pub(crate) limit: Option<usize>,
    /// Print the number of parameters per layer instead: by operator, and by prefix of their names
    #[arg(long, conflicts_with_all = ["hash", "tensors", "operators"])]
    pub(crate) layers: bool,
    /// Add the types of all values of an ONNX program, inferred where they are not declared
    #[arg(long, conflicts_with_all = ["graph", "layers"])]
    pub(crate) inferred: bool,
    /// Print a byte map instead: the offset, length, name and value of every field of the files
    ///
    /// Elements of tensors are not read. Of a damaged file, the fields up to the damage are printed.
    #[arg(long)]
    #[arg(conflicts_with_all = ["graph", "layers", "hash", "tensors", "operators", "inferred"])]
    pub(crate) bytes: bool,
    /// Print only the bytes of this tensor; one without a name is called by its index, from 0
    ///
    /// All tensors of a damaged file are called by their index.
    #[arg(long, value_name = "NAME", requires = "bytes")]
    pub(crate) tensor: Option<String>,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone cat inference conv2d_0.w_0            as text
  lodstone cat params.pdiparams --index 17       the 18th record, without reading the others
  lodstone cat inference fc_0.b_0 -o bias.npy    as a NumPy array")]
pub(crate) struct Cat {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Name of the tensor; optional if there is only one
    #[arg(conflicts_with = "index")]
    pub(crate) name: Option<String>,
    /// Index of the tensor in file order, from 0
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<usize>,
    /// Write a NumPy array to this file instead of printing text
    #[arg(short, long, value_name = "FILE.npy", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) allow: Allow,
    #[command(flatten)]
    pub(crate) clobber: Clobber,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone convert resnet50/ resnet50.safetensors
  lodstone convert resnet50/ copy/ --to same                 byte for byte
  lodstone convert inference fp16.safetensors --cast float16 --allow fp16-rounding
  lodstone convert inference vars/ --to paddle-vars --include 'conv*'
  lodstone convert model.pdparams torch.safetensors --rename names.txt --transpose '*linear*.weight'
  lodstone convert big.pdmodel big.safetensors --max-shard-size 5GB
  lodstone convert big.onnx out/big.onnx --external-data one   weights in out/big.onnx.data
  lodstone convert model/ out.onnx --check                     export to ONNX and compare
  lodstone convert old.onnx new.onnx --opset 21                with operators of opset 21
  lodstone convert net.onnx typed.onnx --infer-shapes          declare the types of all values
  lodstone convert net.onnx glow.onnx --to onnx-glow --input-shape data:1,3,224,224
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
    /// Rename tensors: a file with an old and a new name per line (`*` matches anything), or JSON
    #[arg(long, value_name = "MAP")]
    pub(crate) rename: Option<PathBuf>,
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
    pub(crate) cast: Option<String>,
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
    /// Fix the shape of an input of a program where its dims are dynamic; may be repeated
    ///
    /// Where a program does not declare the shape of an input, `?` is a dim that stays unknown, and a word one that has
    /// this symbol: `data:batch,3,?,?`.
    #[arg(long, value_name = "NAME:1,3,224,224", value_parser = declared_shape)]
    pub(crate) input_shape: Vec<(String, Vec<Dim>)>,
    /// Declare the element type of an input of a program that does not declare it; may be repeated
    #[arg(long, value_name = "NAME:DTYPE", value_parser = input_type)]
    pub(crate) input_type: Vec<(String, DType)>,
    /// Make an input that is declared as a number a constant, such as `rate: int`; may be repeated
    #[arg(long, value_name = "NAME=NUMBER", value_parser = input_value)]
    pub(crate) input_value: Vec<(String, AttributeValue)>,
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

/// Parses a share of a list.
fn share(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(index, count)| {
        Some((index.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    });
    let valid = parts.filter(|(index, count)| index < count);
    valid.ok_or_else(|| "expected I/N with I less than N, such as 0/4".to_owned())
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a non-negative number".to_owned())
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone ops model/                        can it be exported to ONNX?
  lodstone ops net.onnx --target run         does it run without ONNX Runtime?")]
pub(crate) struct Ops {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// What the operators are for
    #[arg(long, value_name = "TARGET", value_parser = ["onnx", "run"], default_value = "onnx")]
    pub(crate) target: String,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone diff before.pdmodel after.pdmodel
  lodstone diff resnet50/ resnet50.safetensors   across formats
  lodstone diff a.npz b.npz --rtol 1e-5 --atol 1e-8
  lodstone diff paddle.pdparams torch.safetensors --rename names.txt --transpose '*linear*.weight'")]
pub(crate) struct Diff {
    /// A model
    pub(crate) a: PathBuf,
    /// The model to compare it with
    pub(crate) b: PathBuf,
    /// Rename tensors of A first: a file with an old and a new name per line (`*` matches
    /// anything), or JSON
    #[arg(long, value_name = "MAP")]
    pub(crate) rename: Option<PathBuf>,
    /// Transpose matrices of A whose names match first; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) transpose: Vec<String>,
    /// Relative tolerance: numbers are equal if |a - b| <= atol + rtol * |b| [default: 0]
    #[arg(long, value_name = "NUMBER", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = tolerance)]
    pub(crate) rtol: f64,
    /// Absolute tolerance [default: 0]
    #[arg(long, value_name = "NUMBER", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = tolerance)]
    pub(crate) atol: f64,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the parameters of A from this file or directory
    #[arg(long, value_name = "PATH")]
    pub(crate) params_a: Option<PathBuf>,
    /// Read the parameters of B from this file or directory
    #[arg(long, value_name = "PATH")]
    pub(crate) params_b: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) trust: Trust,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone scan model.pdparams
  lodstone scan downloaded/                      every file in the directory tree
  lodstone scan downloaded/ --ignore '*.png'     accept unknown files with these names
  lodstone scan model.pdmodel --ignore source    accept paths of the training script
  lodstone scan model.joblib --allow-import sklearn.pipeline.Pipeline
  lodstone scan downloaded/ --only callable --sarif > scan.sarif
  lodstone scan checkpoint.pt --json")]
pub(crate) struct Scan {
    /// Files, directories, or prefixes that the files of a model share
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Report only findings of this kind; may be repeated
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    pub(crate) only: Vec<String>,
    /// Ignore findings of this kind, or accept unknown files whose path below PATH, or name, matches
    /// (`*`, `?`, `[..]`, `{a,b}`); findings in accepted files still count; may be repeated
    #[arg(long, value_name = "KIND|GLOB")]
    pub(crate) ignore: Vec<String>,
    /// Accept pickles that import this callable and call it with any arguments, such as
    /// `sklearn.pipeline.Pipeline`; what it returns may not be called; may be repeated
    #[arg(long, value_name = "MODULE.NAME")]
    pub(crate) allow_import: Vec<String>,
    /// Print JSON (schema 2), one document for each path
    #[arg(long)]
    pub(crate) json: bool,
    /// Print SARIF 2.1.0, for code-scanning services
    #[arg(long, conflicts_with = "json")]
    pub(crate) sarif: bool,
    #[command(flatten)]
    pub(crate) files: Files,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone seal resnet50/                        writes resnet50/lodstone.seal
  lodstone seal model.safetensors                writes lodstone.seal beside it
  lodstone seal model.safetensors --replace      after an intended change")]
pub(crate) struct Seal {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Seal the current contents, even if they differ from an existing seal
    #[arg(long)]
    pub(crate) replace: bool,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Whole,
}

/// The directories of operators that load and save.
#[derive(Args)]
pub(crate) struct Directories {
    /// Directory from which `load` operators read [default: the model's]
    #[arg(long, value_name = "DIR")]
    load_from: Option<PathBuf>,
    /// Directory to which `save` operators write [default: none, they fail]
    #[arg(long, value_name = "DIR")]
    save_to: Option<PathBuf>,
}

impl Directories {
    /// Returns the directories of a run; `beside` has the default ones.
    pub(crate) fn options(&self, beside: Dirs) -> Result<Dirs, Failure> {
        let read = self.load_from.as_ref().map(at).transpose()?.or(beside.read);
        let write = self.save_to.as_ref().map(at).transpose()?;
        Ok(Dirs { read, write, ..Dirs::default() })
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone train lenet/ --data digits.npz --steps 100            declared batch size, or all
  lodstone train lenet/ --data digits.npz --steps 100 --batch-size 32 --shuffle 1
  lodstone train main.pb --params vars/ --data img=x.npy --data label=y.npy --steps 5
  lodstone train main.pb --startup startup.pb --data x.npz --steps 100 -o trained/
  lodstone train tagger/ --data x.npz --lod words=0,3,7 --steps 10 --check-finite
  lodstone train lenet/ --data x.npz --steps 10000 --checkpoint run/ --every 500 --keep 3
  lodstone train lenet/ --data x.npz --steps 10000 --checkpoint run/ --resume   after a crash
  lodstone train main/ --data x.npz --steps 100 --save-to checkpoint/   by its own operators")]
pub(crate) struct Train {
    /// A training program (with gradients and optimizer) and its variables: a file, a directory, or the
    /// prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Arrays to feed: a file with one array, or a file with several by name; may be repeated
    #[arg(short, long, value_name = "[NAME=]FILE", required = true)]
    pub(crate) data: Vec<String>,
    /// Offsets of one LoD level of an input, outermost level first; may be repeated
    #[arg(long, value_name = "NAME=0,3,7")]
    pub(crate) lod: Vec<String>,
    /// Number of steps, including those before a resumed checkpoint
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) steps: u64,
    /// Samples per step [default: the batch size that the program declares, or all samples]
    #[arg(short, long, value_name = "N")]
    pub(crate) batch_size: Option<u64>,
    /// Shuffle each epoch with this seed [default: file order]
    #[arg(long, value_name = "SEED")]
    pub(crate) shuffle: Option<u64>,
    /// Program that initializes the variables [default: `startup_program` beside the model]
    #[arg(long, value_name = "FILE")]
    pub(crate) startup: Option<PathBuf>,
    /// Loss variable [default: the root of the backward pass]
    #[arg(long, value_name = "NAME")]
    pub(crate) loss: Option<String>,
    /// Report another scalar variable at each step; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) watch: Vec<String>,
    /// Fail at the first operator that returns an infinity or NaN
    #[arg(long)]
    pub(crate) check_finite: bool,
    /// Save checkpoints to this directory, in the background and at the end
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Steps between checkpoints
    #[arg(long, value_name = "N", default_value_t = 100, requires = "checkpoint")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) every: u64,
    /// Keep the N newest checkpoints [default: all]
    #[arg(long, value_name = "N", requires = "checkpoint")]
    pub(crate) keep: Option<usize>,
    /// Resume from the newest checkpoint, if there is one
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) directories: Directories,
    /// Resume even if only some of the variables fit the checkpoint
    #[arg(long, requires = "resume")]
    pub(crate) partial: bool,
    /// Rename the variables of the checkpoint: a file with an old and a new name per line (`*`
    /// matches anything), or JSON
    #[arg(long, value_name = "MAP", requires = "resume")]
    pub(crate) rename: Option<PathBuf>,
    /// Write program, variables, losses.csv and losses.svg to this directory [default: NAME-trained in
    /// the working directory]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON Lines (schema 1): one object per step, then a summary
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) clobber: Clobber,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args)]
pub(crate) struct Compare {
    /// A model
    pub(crate) a: PathBuf,
    /// The model to compare it with
    pub(crate) b: PathBuf,
    /// An input, by its name in A: NAME=FILE, or FILE for the next input without a value, or for all
    /// inputs named in it (npz)
    #[arg(short, long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<String>,
    /// Offsets of one LoD level of an input, outermost level first; may be repeated
    #[arg(long, value_name = "NAME=0,3,7")]
    pub(crate) lod: Vec<String>,
    /// Seed of the random elements of inputs without a value
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) random_inputs: u64,
    /// The shape of a random input [default: the declared shape, with 1 for unknown dims]; may be
    /// repeated
    #[arg(long, value_name = "NAME:1,3,224,224", value_parser = input_shape)]
    pub(crate) input_shape: Vec<(String, Vec<u64>)>,
    /// The element type of a random input that the program does not declare; may be repeated
    #[arg(long, value_name = "NAME:DTYPE", value_parser = input_type)]
    pub(crate) input_type: Vec<(String, DType)>,
    /// Relative tolerance: elements agree if |a - b| <= atol + rtol * |b|
    #[arg(long, value_name = "NUMBER", default_value = "1e-3", value_parser = tolerance)]
    pub(crate) rtol: f64,
    /// Absolute tolerance
    #[arg(long, value_name = "NUMBER", default_value = "1e-5", value_parser = tolerance)]
    pub(crate) atol: f64,
    /// Compare only the outputs, not intermediate values
    #[arg(long)]
    pub(crate) outputs_only: bool,
    /// Engine: `builtin`; for programs that are ONNX or lowered to it also `reference`, without
    /// fused operators, and `onnxruntime`
    #[arg(long, value_name = "ENGINE", default_value = "builtin")]
    pub(crate) engine: Engine,
    /// Engine of the second model [default: the same]; compares engines if the models are one
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine_b: Option<Engine>,
    /// The library of ONNX Runtime, or its directory [default: `ORT_DYLIB_PATH`, or that of an
    /// installed Python package `onnxruntime`]
    #[arg(long, value_name = "PATH")]
    pub(crate) engine_path: Option<PathBuf>,
    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Memory limit for the tensors of each run (512MiB, 8GiB) [default: the available memory, within
    /// the limits of the process and its control group]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_limit: Option<u64>,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) trust: Trust,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone run lenet/ -i img=digit.npy                 print the outputs
  lodstone run lenet/ -i inputs.npz -o outputs.npz     inputs by their names in the archive
  lodstone run lenet/ -i img=digit.npy --fetch fc_0.tmp_1   an intermediate value
  lodstone run main/ --loader checkpoint/ -i img=digit.npy --fetch fc_0.tmp_1
  lodstone run tagger/ -i words=ids.npy --lod words=0,3,7")]
pub(crate) struct Run {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// An input: NAME=FILE, or FILE for the next input without a value, or for all inputs named in
    /// it (npz); an existing file with `=` in its path is a FILE
    #[arg(short, long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<String>,
    /// Offsets of one LoD level of an input, outermost level first; may be repeated
    #[arg(long, value_name = "NAME=0,3,7")]
    pub(crate) lod: Vec<String>,
    /// Fill inputs without a value with random elements from this seed: floats uniform in [0, 1),
    /// integers 0 or 1
    #[arg(long, value_name = "SEED")]
    pub(crate) random_inputs: Option<u64>,
    /// The shape of a random input [default: the declared shape, with 1 for unknown dims]; may be
    /// repeated
    #[arg(long, value_name = "NAME:1,3,224,224", value_parser = input_shape, requires = "random_inputs")]
    pub(crate) input_shape: Vec<(String, Vec<u64>)>,
    /// The element type of a random input that the program does not declare [default: float32]; may
    /// be repeated
    #[arg(long, value_name = "NAME:DTYPE", value_parser = input_type, requires = "random_inputs")]
    pub(crate) input_type: Vec<(String, DType)>,
    /// Return this value instead of the outputs of the program; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) fetch: Vec<String>,
    /// Print all elements of the outputs instead of their statistics
    #[arg(long)]
    pub(crate) full: bool,
    /// Write the outputs to a file instead of printing them
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "full"])]
    pub(crate) output: Option<PathBuf>,
    /// Format to write [default: by the extension of the output]
    #[arg(long, value_name = "FORMAT", value_parser = formats(), requires = "output")]
    pub(crate) to: Option<String>,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) allow: Allow,
    #[command(flatten)]
    pub(crate) clobber: Clobber,
    /// Run the loader of the checkpoint in this directory first, in the same scope
    #[arg(long, value_name = "DIR")]
    pub(crate) loader: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) directories: Directories,
    /// Let the program read and write files outside of these directories
    #[arg(long)]
    pub(crate) allow_outside_paths: bool,
    /// Engine: `builtin`; for programs that are ONNX or lowered to it also `reference`, without
    /// fused operators, and `onnxruntime`
    #[arg(long, value_name = "ENGINE", default_value = "builtin")]
    pub(crate) engine: Engine,
    /// The library of ONNX Runtime, or its directory [default: `ORT_DYLIB_PATH`, or that of an
    /// installed Python package `onnxruntime`]
    #[arg(long, value_name = "PATH")]
    pub(crate) engine_path: Option<PathBuf>,
    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Memory limit for the tensors of the run (512MiB, 8GiB) [default: the available memory, within
    /// the limits of the process and its control group]
    #[arg(long, value_name = "SIZE", value_parser = size, alias = "max-memory")]
    pub(crate) memory_limit: Option<u64>,
    /// Fail after N operators, counting every iteration of a loop
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u64>,
    /// Run N times, and report the time of the first run and the median and spread of the others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Report the time of each operator
    #[arg(long)]
    pub(crate) profile: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone verify resnet50/
  lodstone verify model.safetensors --sealed     exit 2 if there is no seal
  lodstone verify models/*                       exit 1 if one of them is damaged
  lodstone verify model.safetensors --json")]
pub(crate) struct Verify {
    /// Models: files, directories, or prefixes that the files of a model share
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print JSON (schema 1), one document for each model
    #[arg(long)]
    pub(crate) json: bool,
    /// Require a seal: exit 2 if there is none
    #[arg(long)]
    pub(crate) sealed: bool,
    #[command(flatten)]
    pub(crate) open: Whole,
}

#[derive(Args)]
pub(crate) struct Formats {
    /// Print which formats each is converted to, with its program and without
    #[arg(long)]
    pub(crate) conversions: bool,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone recover models/                       after an interrupted write to models/
  lodstone recover .                             after `convert` to a file in this directory
  lodstone recover models/ --json")]
pub(crate) struct Recover {
    /// Target directory of the interrupted write
    pub(crate) directory: PathBuf,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(format_values())
}

fn formats_or_same() -> PossibleValuesParser {
    let same = PossibleValue::new("same")
        .help("The format of the input, byte for byte (npz: equal arrays)");
    PossibleValuesParser::new(format_values().chain([same]))
}

fn format_values() -> impl Iterator<Item = PossibleValue> {
    FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.title))
}

fn casts() -> PossibleValuesParser {
    let names: Vec<_> = CAST_TYPES.iter().filter_map(|dtype| dtype.name()).collect();
    PossibleValuesParser::new(names)
}

fn losses() -> PossibleValuesParser {
    let value = |loss: &Loss| PossibleValue::new(loss.name()).help(loss.describe());
    PossibleValuesParser::new(Loss::ALL.iter().map(value).collect::<Vec<_>>())
}

fn kinds() -> PossibleValuesParser {
    let value = |kind: &DangerKind| PossibleValue::new(kind.name()).help(kind.describe());
    PossibleValuesParser::new(DangerKind::ALL.iter().map(value).collect::<Vec<_>>())
}

fn opset(text: &str) -> Result<i64, String> {
    let newest = lodstone::newest_opset("").filter(|_| text == "newest");
    let version = newest.or_else(|| text.parse().ok().filter(|version| *version > 0));
    version.ok_or_else(|| "expected a version (1 or higher) or `newest`".to_owned())
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=MAX_THREADS).contains(&count) => Ok(count),
        _ => Err(format!("expected a number from 1 to {MAX_THREADS}")),
    }
}

/// Parses a name, which may contain colons, and dims after the last colon.
fn input_shape(text: &str) -> Result<(String, Vec<u64>), String> {
    let expected = || "expected a name and dims: `data:1,3,224,224`".to_owned();
    let (name, dims) = text.rsplit_once(':').ok_or_else(expected)?;
    let dims = dims.split(',').filter(|_| !dims.is_empty());
    let dims: Result<Vec<u64>, _> = dims.map(|dim| dim.trim().parse()).collect();
    Ok((name.to_owned(), dims.map_err(|_| expected())?))
}

/// Parses a name, which may contain colons, and an element type after the last colon.
fn input_type(text: &str) -> Result<(String, DType), String> {
    let expected = || "expected a name and an element type: `data:float16`".to_owned();
    let (name, dtype) = text.rsplit_once(':').ok_or_else(expected)?;
    Ok((name.to_owned(), DType::from_name(dtype.trim()).ok_or_else(expected)?))
}

/// Parses a name and dims like [`input_shape`]; unknown dims are `?`, and symbols are words.
fn declared_shape(text: &str) -> Result<(String, Vec<Dim>), String> {
    let expected =
        || "expected a name and dims: `data:1,3,224,224`, or `data:batch,3,?,?`".to_owned();
    let (name, dims) = text.rsplit_once(':').ok_or_else(expected)?;
    let is_word = |text: &str| {
        let is_part = |one: char| one.is_alphanumeric() || one == '_';
        text.starts_with(|one: char| one.is_alphabetic() || one == '_') && text.chars().all(is_part)
    };
    let dim = |text: &str| match text.trim() {
        "?" => Some(Dim::Unknown),
        word if is_word(word) => Some(Dim::Symbol(word.into())),
        number => number.parse().ok().map(Dim::Known),
    };
    let dims = dims.split(',').filter(|_| !dims.is_empty());
    let dims: Option<Vec<Dim>> = dims.map(dim).collect();
    Ok((name.to_owned(), dims.ok_or_else(expected)?))
}

/// Parses a name and a number or truth value.
fn input_value(text: &str) -> Result<(String, AttributeValue), String> {
    let expected = || "expected a name and a number: `rate=16000`, or `exact=true`".to_owned();
    let (name, value) = text.rsplit_once('=').ok_or_else(expected)?;
    let value = match value.trim() {
        "true" => AttributeValue::Bool(true),
        "false" => AttributeValue::Bool(false),
        number => match number.parse() {
            Ok(integer) => AttributeValue::Long(integer),
            Err(_) => AttributeValue::Double(number.parse().map_err(|_| expected())?),
        },
    };
    Ok((name.to_owned(), value))
}

fn alignment(text: &str) -> Result<u64, String> {
    let fits = |bytes: &u64| *bytes == 0 || (bytes.is_power_of_two() && *bytes <= 1024);
    let bytes = text.parse().ok().filter(fits);
    bytes.ok_or_else(|| "expected 0 or a power of two up to 1024".to_owned())
}

/// Parses a size: `1.5GB` is 1.5·10⁹ bytes, `5GiB` is 5·2³⁰; case-insensitive.
fn size(text: &str) -> Result<u64, String> {
    let bytes = text.trim().parse::<ByteSize>().ok().map(|ByteSize(bytes)| bytes);
    // `ByteSize` saturates: a size that is too large is parsed as the maximum.
    let bytes = bytes.filter(|bytes| (1..u64::MAX).contains(bytes));
    bytes.ok_or_else(|| "expected a size such as 1.5GB or 512MiB".to_owned())
}

//! What can be said on the command line.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};
use lodstone::{FORMATS, Links, Loss, OpenOptions};

use crate::Failure;
use crate::stores::at;

use crate::checkpoint::args::Checkpoint;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Opens deep-learning models without the framework that wrote them.
#[derive(Parser)]
#[command(name = "lodstone", version, styles = STYLES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what a model is: format, version, tensors, operators, warnings
    Inspect(Inspect),
    /// Print one tensor, as text or as a NumPy array
    Cat(Cat),
    /// Write a model in another format, or unharmed in its own
    Convert(Convert),
    /// Say what is different between two models; exit 0 nothing, 1 something
    Diff(Diff),
    /// Run a model once: its outputs as text, or in a file
    Run(Run),
    /// List code-execution and information-leak risks without loading the model; exit 0 clean,
    /// 1 findings, 2 unknown
    ///
    /// A file is clean if every byte of it was understood and nothing was found: models, arrays, pickles of
    /// plain values, archives of them, text. Every other file is unknown, and listed.
    Scan(Scan),
    /// Write checksums beside a model, so that any change of it is found
    Seal(Seal),
    /// Train a model on arrays: its losses as text, in a table and as a picture, and what it has become
    Train(Train),
    /// Say whether a model is whole: structure, bounds, checksums; exit 0 yes, 1 no, 2 could not tell
    Verify(Verify),
    /// List, show, verify, prune and restore the checkpoints of a directory
    Checkpoint(Checkpoint),
    /// Finish a write that was interrupted (a crash, a power cut), and remove what it left behind
    Recover(Recover),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How a model is opened.
#[derive(Args)]
pub(crate) struct Open {
    #[command(flatten)]
    whole: Whole,
    #[command(flatten)]
    trust: Trust,
}

/// How a model is opened to prove that it is what it was.
#[derive(Args)]
pub(crate) struct Whole {
    /// Take the parameters from this file or directory
    #[arg(long, value_name = "PATH")]
    params: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// How files are found and read.
#[derive(Args)]
pub(crate) struct Files {
    /// Follow symbolic links that lead out of the directory of the model, as download caches
    /// have them
    #[arg(long)]
    follow_links: bool,
    /// Read files instead of mapping them into memory: for files that others may truncate
    #[arg(long)]
    no_mmap: bool,
}

/// What is believed of files.
#[derive(Args)]
pub(crate) struct Trust {
    /// Do not compare sealed models with their checksums when they are read
    #[arg(long)]
    no_verify: bool,
}

impl Open {
    pub(crate) fn options(&self) -> Result<OpenOptions, Failure> {
        Ok(self.trust.options(self.whole.options()?))
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
  lodstone inspect resnet50/                     a directory, whatever its files are called
  lodstone inspect inference                     the prefix of inference.pdmodel and .pdiparams
  lodstone inspect train.pb --params vars/       a program and its variables elsewhere
  lodstone inspect model.safetensors --json --hash
  lodstone inspect net.onnx --graph dot > net.dot    for Graphviz; also mermaid, text
  lodstone inspect net.onnx --layers             parameters by operator and by name")]
pub(crate) struct Inspect {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the SHA-256 of the elements of each tensor; reads all of them
    #[arg(long)]
    pub(crate) hash: bool,
    /// Print the program as a graph instead
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "dot", "mermaid"], conflicts_with_all = ["json", "hash", "layers"])]
    pub(crate) graph: Option<String>,
    /// Draw at most this many operators
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "graph")]
    pub(crate) limit: usize,
    /// Print how many parameters there are by layer instead: by operator, and by what names begin with
    #[arg(long, conflicts_with = "hash")]
    pub(crate) layers: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone cat inference conv2d_0.w_0            as text
  lodstone cat params.pdiparams --index 17       the 18th record, found by hopping over the others
  lodstone cat inference fc_0.b_0 -o bias.npy    as a NumPy array")]
pub(crate) struct Cat {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Name of the tensor; not needed if there is only one
    #[arg(conflicts_with = "index")]
    pub(crate) name: Option<String>,
    /// Number of the tensor in file order, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<usize>,
    /// Write a NumPy array to this file instead of text to stdout
    #[arg(short, long, value_name = "FILE.npy")]
    pub(crate) output: Option<PathBuf>,
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
  lodstone convert old.onnx new.onnx --opset 21                operators of a newer set
  lodstone convert net.onnx glow.onnx --to onnx-glow --input-shape data:1,3,224,224")]
pub(crate) struct Convert {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) input: PathBuf,
    /// Where to write
    pub(crate) output: PathBuf,
    /// Format to write; by the extension of the output if not given
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) to: Option<String>,
    /// Keep only tensors with names like this (`*`, `?`, `[..]`, `{a,b}`); may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Leave out tensors with names like this; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Rename tensors, by a file with an old and a new name a line (`*` stands for anything), or
    /// JSON
    #[arg(long, value_name = "MAP")]
    pub(crate) rename: Option<PathBuf>,
    /// Transpose matrices with names like this; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) transpose: Vec<String>,
    /// Write the tensors without the program
    #[arg(long)]
    pub(crate) weights_only: bool,
    /// Cast floating-point tensors; a program is not cast, see --weights-only
    #[arg(long, value_name = "DTYPE", value_parser = CASTS)]
    pub(crate) cast: Option<String>,
    /// Make the operators of an ONNX program ones of this version, not older than theirs, or of the
    /// newest
    #[arg(long, value_name = "VERSION", value_parser = opset)]
    pub(crate) opset: Option<i64>,
    /// Declare the shape of an input of an ONNX program, where it leaves extents open; may be repeated
    #[arg(long, value_name = "NAME:1,3,224,224", value_parser = input_shape)]
    pub(crate) input_shape: Vec<(String, Vec<u64>)>,
    /// Allow a loss by its name; may be repeated
    #[arg(long, value_name = "LOSS", value_parser = losses())]
    pub(crate) allow: Vec<String>,
    /// Split into files of at most this size, where the format can: 5GB, 512MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_shard_size: Option<u64>,
    /// Align the elements of tensors to this many bytes, where the format leaves it open
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true, value_parser = alignment)]
    pub(crate) align: u64,
    /// Keep the elements of tensors in other files, where the format can: in one, in one for each
    /// tensor, or in none
    #[arg(long, value_name = "HOW", value_parser = ["one", "each", "none"])]
    pub(crate) external_data: Option<String>,
    /// Leave out paths and source lines of the training script, with `--to same` too
    #[arg(long)]
    pub(crate) strip_source: bool,
    /// Seal what is written
    #[arg(long)]
    pub(crate) seal: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a number from 0 on".to_owned())
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone diff before.pdmodel after.pdmodel
  lodstone diff resnet50/ resnet50.safetensors   whatever the formats
  lodstone diff a.npz b.npz --rtol 1e-5 --atol 1e-8
  lodstone diff paddle.pdparams torch.safetensors --rename names.txt --transpose '*linear*.weight'")]
pub(crate) struct Diff {
    /// A model
    pub(crate) a: PathBuf,
    /// The model to compare it with
    pub(crate) b: PathBuf,
    /// Names of tensors of A as B has them: a file with an old and a new name a line (`*` stands
    /// for anything), or JSON
    #[arg(long, value_name = "MAP")]
    pub(crate) rename: Option<PathBuf>,
    /// Matrices of A with names like this are transposed in B; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) transpose: Vec<String>,
    /// Numbers are equal if |a - b| <= atol + rtol * |b|
    #[arg(long, value_name = "NUMBER", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = tolerance)]
    pub(crate) rtol: f64,
    /// The absolute part of that
    #[arg(long, value_name = "NUMBER", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = tolerance)]
    pub(crate) atol: f64,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Take the parameters of A from this file or directory
    #[arg(long, value_name = "PATH")]
    pub(crate) params_a: Option<PathBuf>,
    /// Take the parameters of B from this file or directory
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
  lodstone scan downloaded/                      every file below it
  lodstone scan downloaded/ --ignore '*.png'     accept pictures, which are not understood
  lodstone scan checkpoint.pt --json")]
pub(crate) struct Scan {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Accept unknown files whose path below PATH, or name, matches (`*`, `?`, `[..]`, `{a,b}`);
    /// findings in them still count; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) ignore: Vec<String>,
    /// Print JSON (schema 2)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) files: Files,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone seal resnet50/                        writes resnet50/lodstone.seal
  lodstone seal model.safetensors                writes lodstone.seal beside it
  lodstone seal model.safetensors --replace      after you changed it yourself")]
pub(crate) struct Seal {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Seal the model as it is now, though it is not what was sealed before
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) open: Whole,
}

/// What is trained.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone train lenet/ --data digits.npz --steps 100            all of the data in each step
  lodstone train lenet/ --data digits.npz --steps 100 --batch-size 32 --shuffle 1
  lodstone train main.pb --params vars/ --data img=x.npy --data label=y.npy --steps 5
  lodstone train main.pb --startup startup.pb --data x.npz --steps 100 -o trained/
  lodstone train tagger/ --data x.npz --lod words=0,3,7 --steps 10 --check-finite
  lodstone train lenet/ --data x.npz --steps 10000 --checkpoint run/ --every 500 --keep 3
  lodstone train lenet/ --data x.npz --steps 10000 --checkpoint run/ --resume   after it was killed")]
pub(crate) struct Train {
    /// A program that computes gradients and changes parameters, with its variables: a file, a
    /// directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Arrays that the program is fed: of a file that has one, or all of a file; may be repeated
    #[arg(short, long, value_name = "[NAME=]FILE", required = true)]
    pub(crate) data: Vec<String>,
    /// Offsets of one level of LoD of an input, outermost level first; may be repeated
    #[arg(long, value_name = "NAME=0,3,7")]
    pub(crate) lod: Vec<String>,
    /// How many steps, with those before a checkpoint
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) steps: u64,
    /// How many samples a step is given: as many as the program declares, or all, if not said
    #[arg(short, long, value_name = "N")]
    pub(crate) batch_size: Option<u64>,
    /// Give samples in an order that comes of this number, another one in each epoch; as they lie if
    /// not said
    #[arg(long, value_name = "SEED")]
    pub(crate) shuffle: Option<u64>,
    /// The program that gives variables their first values; `startup_program` beside the other if
    /// not said
    #[arg(long, value_name = "FILE")]
    pub(crate) startup: Option<PathBuf>,
    /// The variable that is the loss; the one whose gradient the program begins with if not said
    #[arg(long, value_name = "NAME")]
    pub(crate) loss: Option<String>,
    /// Another variable of one number to tell at each step; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) watch: Vec<String>,
    /// Fail at the first operator that gives an infinite number or none (NaN)
    #[arg(long)]
    pub(crate) check_finite: bool,
    /// Save checkpoints in this directory, in the background, and one at the end
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Save one each so many steps
    #[arg(long, value_name = "N", default_value_t = 100, requires = "checkpoint")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) every: u64,
    /// Keep so many of them, the newest; all if not said
    #[arg(long, value_name = "N", requires = "checkpoint")]
    pub(crate) keep: Option<usize>,
    /// Go on from the newest of them, if there is one
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    /// Go on with what fits of it, where not all does
    #[arg(long, requires = "resume")]
    pub(crate) partial: bool,
    /// Names of its variables as the program has them: a file with an old and a new name a line (`*`
    /// stands for anything), or JSON
    #[arg(long, value_name = "MAP", requires = "resume")]
    pub(crate) rename: Option<PathBuf>,
    /// Write program and variables, losses.csv and losses.svg into this directory; NAME-trained in the
    /// current one if not said
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// What is run.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone run lenet/ -i img=digit.npy                 outputs as text
  lodstone run lenet/ -i inputs.npz -o outputs.npz     inputs by the names that the archive has
  lodstone run tagger/ -i words=ids.npy --lod words=0,3,7")]
pub(crate) struct Run {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// An input: NAME=FILE, or FILE for the next one that is left, or for all that it names (npz)
    #[arg(short, long, value_name = "NAME=FILE")]
    pub(crate) input: Vec<String>,
    /// LoD of an input, once for each level: offsets at which sequences begin, and the end (x=0,3,7)
    #[arg(long, value_name = "NAME=OFFSETS")]
    pub(crate) lod: Vec<String>,
    /// Write the outputs to a file, in the format that its name tells, rather than to the terminal
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Where `load` operators of the program find their files; the directory of the model otherwise
    #[arg(long, value_name = "DIR")]
    pub(crate) load_from: Option<PathBuf>,
    /// Where `save` operators of the program put their files; it may save nothing otherwise
    #[arg(long, value_name = "DIR")]
    pub(crate) save_to: Option<PathBuf>,
    /// Let the program load and save files outside of these directories too
    #[arg(long)]
    pub(crate) allow_outside_paths: bool,
    /// Memory that tensors of the run may take (512MiB, 8GiB); by default what is available, within the limits of
    /// the process and its control group
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_memory: Option<u64>,
    /// Stop with an error after so many operators; those in loops count each time
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u64>,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone verify resnet50/
  lodstone verify model.safetensors --sealed     without a seal the answer is `could not tell`
  lodstone verify model.safetensors --json")]
pub(crate) struct Verify {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Ask for a seal: exit 2 if there is none
    #[arg(long)]
    pub(crate) sealed: bool,
    #[command(flatten)]
    pub(crate) open: Whole,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone recover models/                       any write into it does that too
  lodstone recover .                             after `convert` into a file here
  lodstone recover models/ --json")]
pub(crate) struct Recover {
    /// The directory that was written to
    pub(crate) directory: PathBuf,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn formats() -> clap::builder::PossibleValuesParser {
    let names = FORMATS.iter().map(|format| (format.name, format.title));
    let same = ("same", "The format it was read from, byte for byte (npz: equal arrays)");
    let value = |(name, title)| PossibleValue::new(name).help(title);
    clap::builder::PossibleValuesParser::new(names.chain([same]).map(value).collect::<Vec<_>>())
}

const CASTS: [&str; 4] = ["float16", "bfloat16", "float32", "float64"];

fn losses() -> clap::builder::PossibleValuesParser {
    let value = |loss: &Loss| PossibleValue::new(loss.name()).help(loss.describe());
    clap::builder::PossibleValuesParser::new(Loss::ALL.iter().map(value).collect::<Vec<_>>())
}

fn opset(text: &str) -> Result<i64, String> {
    let newest = lodstone::newest_opset("").filter(|_| text == "newest");
    let version = newest.or_else(|| text.parse().ok().filter(|version| *version > 0));
    version.ok_or_else(|| "expected a number from 1 on, or `newest`".to_owned())
}

/// A name, which may have colons itself, and extents behind the last one.
fn input_shape(text: &str) -> Result<(String, Vec<u64>), String> {
    let expected = || "expected a name and extents, as `data:1,3,224,224`".to_owned();
    let (name, extents) = text.rsplit_once(':').ok_or_else(expected)?;
    let extents = extents.split(',').filter(|_| !extents.is_empty());
    let extents: Result<Vec<u64>, _> = extents.map(|extent| extent.trim().parse()).collect();
    Ok((name.to_owned(), extents.map_err(|_| expected())?))
}

fn alignment(text: &str) -> Result<u64, String> {
    let fits = |bytes: &u64| *bytes == 0 || (bytes.is_power_of_two() && *bytes <= 1024);
    let bytes = text.parse().ok().filter(fits);
    bytes.ok_or_else(|| "expected 0 or a power of two up to 1024".to_owned())
}

/// `5GB` is 5·10⁹ bytes, `5GiB` is 5·2³⁰.
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 7] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit)).copied();
    let (unit, factor) = unit.unwrap_or(("", 1));
    let number = text.strip_suffix(unit).unwrap_or(text).trim();
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "expected a size like 5GB or 512MiB".to_owned())
}

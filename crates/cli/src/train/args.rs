//! The options of `train`.

use std::path::PathBuf;

use clap::Args;

use crate::args::options::{Clobber, Directories, Open, Renaming};

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
    #[command(flatten)]
    pub(crate) renaming: Renaming,
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

//! The command line of programs, as data.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lodstone::program::DeriveOptions;
use lodstone::program::Placement;

use crate::args::options::{Clobber, Open};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone program inference training/ net/ --for-test --fetch softmax_0.tmp_0
  lodstone program prune net/ features/ --fetch fc_0.tmp_1
  lodstone program loader training/ loader/ --combined params
  lodstone program checkpoint training/ saving/ --dir checkpoint/ --every 100
  lodstone program print net/ > net.txt")]
pub(crate) struct Programs {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Write the part of a program that inference needs: what comes before gradients and optimizer, as far as results
    /// depend on it
    Inference(Inference),
    /// Write the operators of a program that compute some variables
    Prune(Prune),
    /// Write the program that loads the persistable variables, and initializes those that it does not load
    Loader(Loader),
    /// Append operators that save checkpoints, and write the loader to the directory of the checkpoints
    Checkpoint(Checkpoint),
    /// Print a program as text, in the text format of its framework
    Print(Print),
}

/// The program that another one is derived from, and where that is written.
#[derive(Args)]
pub(crate) struct Derived {
    /// A model with a program: a file, a directory, or the prefix that its files share
    pub(crate) path: PathBuf,
    /// Where to write: a directory for the program, as `__model__`, or, with its parameters, a file or directory of the
    /// format of the model
    pub(crate) output: PathBuf,
    /// Program that initializes the variables [default: `startup_program` beside the model]
    #[arg(long, value_name = "FILE")]
    pub(crate) startup: Option<PathBuf>,
    /// Write protobuf's text format, as `__model__.txt`
    #[arg(long)]
    pub(crate) text: bool,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) clobber: Clobber,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args)]
pub(crate) struct Inference {
    #[command(flatten)]
    pub(crate) derived: Derived,
    /// Variable that the program computes [default: its outputs, or its only result]; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) fetch: Vec<String>,
    /// Variable that is fed [default: the inputs that the results depend on]; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) feed: Vec<String>,
    /// Let operators behave as in inference: no dropout, running statistics
    #[arg(long)]
    pub(crate) for_test: bool,
}

#[derive(Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) derived: Derived,
    /// Variable that the program computes; may be repeated
    #[arg(long, value_name = "NAME", required = true)]
    pub(crate) fetch: Vec<String>,
    /// Variable that is fed instead of computed; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) feed: Vec<String>,
    /// Let operators behave as in inference: no dropout, running statistics
    #[arg(long)]
    pub(crate) for_test: bool,
}

/// The variables that are saved, and their files.
#[derive(Args)]
pub(crate) struct Vars {
    /// Select only variables whose names match (`*`, `?`, `[..]`, `{a,b}`); may be repeated
    #[arg(long, value_name = "GLOB")]
    vars: Vec<String>,
    /// Name of a file for all variables, sorted by name [default: `params`]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["each", "merged"])]
    combined: Option<String>,
    /// Use a file for each variable
    #[arg(long, conflicts_with = "merged")]
    each: bool,
    /// Name of a file for all variables, with the size of each before it; only Lodstone reads it
    #[arg(long, value_name = "NAME")]
    merged: Option<String>,
}

impl Vars {
    pub(crate) fn options(&self) -> DeriveOptions {
        let options = DeriveOptions::default().with_vars(self.vars.clone());
        match (&self.combined, &self.merged) {
            (Some(name), _) => options.with_placement(Placement::Combined(name.clone())),
            (_, Some(name)) => options.with_placement(Placement::Merged(name.clone())),
            _ if self.each => options.with_placement(Placement::Each),
            _ => options,
        }
    }
}

#[derive(Args)]
pub(crate) struct Loader {
    #[command(flatten)]
    pub(crate) derived: Derived,
    #[command(flatten)]
    pub(crate) vars: Vars,
}

#[derive(Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    pub(crate) derived: Derived,
    /// Directory of the checkpoints, to which the loader is written
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Save after every N runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) every: u64,
    #[command(flatten)]
    pub(crate) vars: Vars,
}

#[derive(Args)]
pub(crate) struct Print {
    /// A model with a program: a file, a directory, or the prefix that its files share
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) open: Open,
}

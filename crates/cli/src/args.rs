//! The command line, as data.

pub(crate) mod options;
pub(crate) mod values;

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};
use colorchoice_clap::Color;

use crate::cat::Cat;
use crate::checkpoint::args::Checkpoint;
use crate::compare::Compare;
use crate::console::Verbosity;
use crate::convert::args::Convert;
use crate::diff::Arguments as Diff;
use crate::formats::Formats;
use crate::inspect::args::Inspect;
use crate::ops::Ops;
use crate::program::args::Programs;
use crate::recover::Recover;
use crate::run::Run;
use crate::scan::Arguments as Scan;
use crate::seal::Seal;
use crate::train::args::Train;
use crate::verify::Verify;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Open deep-learning models without the framework that wrote them
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 success or yes, 1 no, 2 error or unknown. With --json, an
/// error is a document on stdout, too: `{"schema": 1, "error": {"kind": "...", "message": "...", "hint": "..."}}`.
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

//! The options of `inspect`.

use std::path::PathBuf;

use clap::Args;

use crate::args::options::{Interface, Open};

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
  lodstone inspect net/ --origins                where the operators of its export to ONNX come from
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
    /// Print instead where the operators and constants of the export to ONNX come from: operators with their scopes and what
    /// they record for training, and parameters
    #[arg(long)]
    #[arg(conflicts_with_all = ["graph", "layers", "hash", "tensors", "operators", "inferred"])]
    pub(crate) origins: bool,
    #[command(flatten)]
    pub(crate) interface: Interface,
    /// Print a byte map instead: the offset, length, name and value of every field of the files
    ///
    /// Elements of tensors are not read. Of a damaged file, the fields up to the damage are printed.
    #[arg(long)]
    #[arg(conflicts_with_all = ["graph", "layers", "hash", "tensors", "operators", "inferred", "origins"])]
    pub(crate) bytes: bool,
    /// Print only the bytes of this tensor; one without a name is called by its index, from 0
    ///
    /// All tensors of a damaged file are called by their index.
    #[arg(long, value_name = "NAME", requires = "bytes")]
    pub(crate) tensor: Option<String>,
    #[command(flatten)]
    pub(crate) open: Open,
}

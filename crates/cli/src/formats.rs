//! `lodstone formats`.

use std::io::Write;

use clap::Args;
use lodstone::formats::{Capabilities, capabilities};
use serde::Serialize;

use crate::{Failure, console, table};

#[derive(Args)]
pub(crate) struct Formats {
    /// Print which formats each is converted to, with its program and without
    #[arg(long)]
    pub(crate) conversions: bool,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// The formats as JSON.
#[derive(Serialize)]
struct Listing {
    /// Version of this structure.
    schema: u32,
    formats: Vec<Capabilities>,
}

pub(crate) fn run(arguments: &Formats) -> Result<(), Failure> {
    let formats = capabilities();
    if arguments.json {
        return console::json(&Listing { schema: 1, formats });
    }
    if arguments.conversions {
        return conversions(&formats);
    }
    let header = ["format", "description", "read", "write back", "edit", "run", "train", "to ONNX"];
    let mark = |can: bool| if can { "yes" } else { "no" }.to_owned();
    let program = |can: Option<bool>| can.map_or_else(|| "-".to_owned(), mark);
    let row = |of: &Capabilities| {
        vec![
            of.name.to_owned(),
            of.title.to_owned(),
            mark(of.read),
            mark(of.write_back),
            mark(of.edit),
            program(of.run),
            program(of.train),
            program(of.to_onnx),
        ]
    };
    console::to_stdout(|out| Ok(table::write(out, &header, &[], || formats.iter().map(row))?))
}

/// Prints which formats each is converted to. Weights are converted to every format that any weights are converted to, so
/// that these are printed once.
fn conversions(formats: &[Capabilities]) -> Result<(), Failure> {
    let weights: Vec<_> = formats
        .iter()
        .filter(|of| formats.iter().any(|other| other.weights_to.contains(&of.name)))
        .map(|of| of.name)
        .collect();
    let row = |of: &Capabilities| {
        let programs = match of.program_to.as_slice() {
            [] => "-".to_owned(),
            names => names.join(", "),
        };
        let weights = if of.weights_to.is_empty() { "-" } else { "all" };
        vec![of.name.to_owned(), weights.to_owned(), programs]
    };
    let header = ["format", "weights to", "program to"];
    console::to_stdout(|out| {
        table::write(out, &header, &[], || formats.iter().map(row))?;
        Ok(writeln!(out, "\nall: {}", weights.join(", "))?)
    })
}

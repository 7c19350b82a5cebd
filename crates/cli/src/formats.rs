//! `lodstone formats`.

use lodstone::{Capabilities, capabilities};
use serde::Serialize;

use crate::args::Formats;
use crate::{Failure, console, table};

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

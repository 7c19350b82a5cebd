//! Runs programs that another framework wrote and ran, several in one process.
//!
//!     cargo run --locked --package lodstone --example run_calls -- rules
//!     cargo run --locked --package lodstone --example run_calls -- DIR...
//!
//! `rules` lists the PaddlePaddle operators that have rules, one per line. A `DIR` contains `calls.json`, a list of
//! calls: a `name`, the offset and size of the program in `programs.bin`, the tensors to feed, and the names of the
//! variables to fetch. A tensor is described by its element type, its shape, and its offset in `elements.bin`. The
//! results, or the error, are written to `found.json` and `found.bin` in the same form.

#![expect(clippy::disallowed_methods, reason = "reads and writes files for another program")]
#![expect(clippy::print_stdout, reason = "lists what there is")]

use std::path::Path;

use lodstone::model::Limits;
use lodstone::paddle::executor::{Dirs, Executor, Scope};
use lodstone::{Blob, DType, Tensor};
use lodstone_formats::paddle::program;
use lodstone_lowering::rules;
use lodstone_model::Dialect;
use serde_json::{Map, Value, json};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => Err("usage: run_calls rules | DIR...".into()),
        [only] if only == "rules" => {
            rules(Dialect::Paddle).iter().for_each(|rule| println!("{}", rule.kind));
            Ok(())
        }
        directories => directories.iter().try_for_each(|directory| run_all(Path::new(directory))),
    }
}

/// Runs all calls of a directory.
fn run_all(directory: &Path) -> Result<(), Failure> {
    let calls: Vec<Value> = serde_json::from_slice(&std::fs::read(directory.join("calls.json"))?)?;
    let programs = Blob::memory(std::fs::read(directory.join("programs.bin"))?);
    let elements = Blob::memory(std::fs::read(directory.join("elements.bin"))?);
    let (mut told, mut bytes) = (Vec::new(), Vec::new());
    for call in &calls {
        let found = match results(call, &programs, &elements) {
            Ok(results) => {
                let mut facts = Map::new();
                for (name, tensor) in results {
                    facts.insert(name, fact(&tensor, &mut bytes)?);
                }
                json!({ "found": facts })
            }
            Err(error) => json!({ "error": error.to_string() }),
        };
        told.push(found);
    }
    std::fs::write(directory.join("found.json"), serde_json::to_vec(&told)?)?;
    std::fs::write(directory.join("found.bin"), bytes)?;
    Ok(())
}

/// Returns the results of a call, by name.
fn results(
    call: &Value,
    programs: &Blob,
    elements: &Blob,
) -> Result<Vec<(String, Tensor)>, Failure> {
    let [begin, length] = [&call["program"][0], &call["program"][1]].map(Value::as_u64);
    let (begin, length) = begin.zip(length).ok_or("expected a place of a program")?;
    let program = programs.slice(begin, length)?;
    let program = program::read(&program, "call", &Limits::default())?;
    let feed = call["feed"].as_object().ok_or("expected what is fed")?;
    let feed: Vec<(&str, Tensor)> = feed
        .iter()
        .map(|(name, fact)| Ok((name.as_str(), tensor(fact, elements)?)))
        .collect::<Result<_, Failure>>()?;
    let fetch = call["fetch"].as_array().ok_or("expected a list of variables to fetch")?;
    let fetch: Vec<&str> = fetch.iter().filter_map(Value::as_str).collect();
    let (mut executor, mut scope) = (Executor::default(), Scope::default());
    let found = executor.run(&program, &mut scope, &feed, &fetch, &Dirs::default())?;
    Ok(fetch.into_iter().map(str::to_owned).zip(found).collect())
}

fn tensor(fact: &Value, elements: &Blob) -> Result<Tensor, Failure> {
    let name = fact[0].as_str().ok_or("expected an element type")?;
    let dtype = DType::from_name(name).ok_or("expected an element type")?;
    let shape = fact[1].as_array().ok_or("expected dims")?;
    let shape: Vec<u64> = shape.iter().filter_map(Value::as_u64).collect();
    let begin = fact[2].as_u64().ok_or("expected where it begins")?;
    let size = dtype.size_of(&shape).ok_or("it is too large")?;
    Ok(Tensor::dense(dtype, shape, elements.slice(begin, size)?))
}

/// Returns the description of a tensor, and appends its elements to the others.
fn fact(tensor: &Tensor, bytes: &mut Vec<u8>) -> Result<Value, Failure> {
    let begin = bytes.len();
    bytes.extend_from_slice(&tensor.data.bytes()?);
    Ok(json!([tensor.dtype.to_string(), tensor.shape, begin]))
}

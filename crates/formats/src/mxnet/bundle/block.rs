//! Gluon blocks saved by MXNet 2 (`Block.save`): `X-model.json` and `MyModel-model.params`. They are read but not
//! written.
//!
//! The JSON is an object with a single block:
//!
//! | key | value |
//! |---|---|
//! | `hybridized`, `in_format`, `out_format` | how the block is invoked |
//! | `symbol`, `inputs` | its program as JSON text, if it was hybridized |
//! | `params` | the parameters of the block: a name and an identifier for each |
//! | any other | a child, in the order of registration; its key consists of its type and a number |
//!
//! A parameter is named `IDENTIFIER_NAME` in the program, and `PATH.NAME` in the parameter file. No file records the
//! mapping: paths in sequential blocks are the numbers of their children, and other children are identified by their
//! parameters.
//!
//! Source of truth: `gluon/block.py` of MXNet 2.0.0b1.

use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_model::{Model, Program};
use lodstone_store::{Blob, Location};
use serde_json::{Map, Value};

use super::read::bound;
use crate::error::{Error, Result};
use crate::mxnet::{params, symbol};
use crate::options::OpenOptions;

/// The suffix of a block's file name.
pub(super) const BLOCK: &str = "-model.json";

/// The name and title of the format.
pub(crate) const FORMAT: (&str, &str) =
    ("mxnet-block", "MXNet Gluon block (`Block.save`), read only");

/// The file to which MXNet writes the parameters regardless of the prefix; the name of the block suggests another one.
const PARAMS: &str = "MyModel-model.params";
const OWN_PARAMS: &str = "-model.params";

/// Returns whether a file may be a block: an object whose only member is an object with one of the keys of a block.
pub(super) fn is_block(head: &[u8]) -> bool {
    const KEYS: [&[u8]; 3] = [b"\"in_format\"", b"\"hybridized\"", b"\"params\""];
    let inner = || {
        let name = opened(head)?.strip_prefix(b"\"")?;
        let end = name.iter().position(|byte| *byte == b'"')?;
        opened(name.get(end + 1..)?.trim_ascii_start().strip_prefix(b":")?)
    };
    inner().is_some_and(|inner| KEYS.iter().any(|key| inner.starts_with(key)))
}

/// Returns the text after the opening brace of an object.
fn opened(text: &[u8]) -> Option<&[u8]> {
    text.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start)
}

/// Opens a block and its parameters.
///
/// # Errors
/// Fails if the JSON is not that of a block, or a file is damaged.
pub(super) fn open(path: &Location, blob: Blob, options: &OpenOptions) -> Result<Model> {
    if blob.len() > options.limits.structure_bytes {
        let limit = options.limits.at_most_bytes("of a block");
        return Err(blob.over_limit(0, limit).into());
    }
    let root: Map<String, Value> =
        serde_json::from_slice(&blob.read()?).map_err(|error| Error::json(path, &blob, error))?;
    let wrong = |found: &str| Error::from(blob.malformed(0, "a Gluon block", found));
    let [Some(root)] = root.values().map(Value::as_object).collect::<Vec<_>>()[..] else {
        return Err(wrong("an object of something else"));
    };
    let block = Block::read(root).ok_or_else(|| wrong("a block with other values"))?;
    let program = match block.symbol {
        Some(text) => Some(symbol::read(&Blob::memory(text.as_bytes().to_vec()), &options.limits)?),
        None => None,
    };
    let mut model = with_parameters(path, &block, program, options)?;
    model.format = FORMAT.0.to_owned();
    model.files.insert(0, blob);
    Ok(model)
}

fn with_parameters(
    path: &Location,
    block: &Block<'_>,
    program: Option<Program>,
    options: &OpenOptions,
) -> Result<Model> {
    let mut model = Model::default();
    let found = match &options.params {
        Some(params) => Some(params.clone()),
        None => parameters_of(path)?,
    };
    match (found, program) {
        (Some(found), Some(mut program)) => {
            let read = params::read(&found, options)?;
            let paths = read.parameters.iter().map(|parameter| parameter.name.as_str());
            match Paths::of(paths).and_then(|paths| block.names(&paths)) {
                Some(names) => {
                    // Its text has the old names.
                    program.residual = Default::default();
                    program.rename(&names);
                    model = bound(&mut program, &found, options)?;
                }
                None => {
                    model = read;
                    model.report.warn(
                        "parameters cannot be matched with variables of the program: several \
                         blocks have parameters of the same names",
                    );
                }
            }
            model.set_main(program);
        }
        (Some(found), None) => {
            model = params::read(&found, options)?;
            model.report.warn("the block was not hybridized: there is no program");
        }
        (None, program) => {
            model.report.warn(format!("parameters (`{PARAMS}`) were not found"));
            program.into_iter().for_each(|program| model.set_main(program));
        }
    }
    Ok(model)
}

/// Returns the location of the parameters beside a block.
fn parameters_of(path: &Location) -> Result<Option<Location>> {
    let prefix = path.name().and_then(|name| name.strip_suffix(BLOCK));
    let Some(prefix) = prefix else { return Ok(None) };
    let names = [format!("{prefix}{OWN_PARAMS}"), PARAMS.to_owned()];
    let places = names.map(|name| path.with_file_name(name));
    Ok(Location::existing(places).next().transpose()?)
}

/// A block.
struct Block<'a> {
    symbol: Option<&'a str>,
    /// The name and identifier of each parameter.
    params: Vec<(&'a str, &'a str)>,
    children: Vec<Block<'a>>,
}

impl<'a> Block<'a> {
    /// Parses a block; JSON is nested at most 128 levels. `None` if a value has another type.
    fn read(object: &'a Map<String, Value>) -> Option<Self> {
        let mut block = Self { symbol: None, params: Vec::new(), children: Vec::new() };
        for (key, value) in object {
            match key.as_str() {
                "symbol" => block.symbol = Some(value.as_str()?),
                "params" => {
                    for (name, identifier) in value.as_object()? {
                        block.params.push((name, identifier.as_str()?));
                    }
                }
                "inputs" | "in_format" | "out_format" | "hybridized" => {}
                _ => block.children.push(Self::read(value.as_object()?)?),
            }
        }
        Some(block)
    }

    /// Maps the names of parameters in the program to their paths; `None` if the mapping is ambiguous.
    fn names(&self, paths: &Paths<'_>) -> Option<HashMap<String, String>> {
        let mut names = HashMap::new();
        self.find(paths, "", &mut names)?;
        Some(names)
    }

    fn find(
        &self,
        paths: &Paths<'_>,
        prefix: &str,
        names: &mut HashMap<String, String>,
    ) -> Option<()> {
        let known: HashSet<&str> = paths.params.iter().copied().collect();
        for (name, identifier) in &self.params {
            if known.contains(name) {
                let variable = format!("{}_{name}", identifier.replace('-', "_"));
                names.insert(variable, format!("{prefix}{name}"));
            }
        }
        if paths.children.keys().all(|key| key.parse::<usize>().is_ok()) {
            for (key, inner) in &paths.children {
                let child = self.children.get(key.parse::<usize>().ok()?)?;
                child.find(inner, &format!("{prefix}{key}."), names)?;
            }
            return Some(());
        }
        let mut by_signature: HashMap<String, Vec<&Block<'_>>> = HashMap::new();
        for child in &self.children {
            by_signature.entry(child.signature()).or_default().push(child);
        }
        for (key, inner) in &paths.children {
            // Removed, so that another path with this signature finds none.
            let [child] = by_signature.remove(&inner.signature())?[..] else { return None };
            child.find(inner, &format!("{prefix}{key}."), names)?;
        }
        Some(())
    }

    /// Returns the names of its parameters, without those of children.
    fn signature(&self) -> String {
        let children = self.children.iter().map(Self::signature).filter(|it| !it.is_empty());
        signature(self.params.iter().map(|(name, _)| *name).collect(), children.collect())
    }
}

/// Paths of parameters, as a tree.
#[derive(Default)]
struct Paths<'a> {
    params: Vec<&'a str>,
    children: BTreeMap<&'a str, Paths<'a>>,
}

impl<'a> Paths<'a> {
    /// Builds the tree; `None` if a path is deeper than blocks can be nested.
    fn of(paths: impl Iterator<Item = &'a str>) -> Option<Self> {
        /// The nesting limit of JSON.
        const MAX_DEPTH: usize = 128;
        let mut root = Self::default();
        for path in paths {
            let mut parts: Vec<&str> = path.split('.').take(MAX_DEPTH + 1).collect();
            if parts.len() > MAX_DEPTH {
                return None;
            }
            let name = parts.pop().unwrap_or_default();
            let mut node = &mut root;
            for part in parts {
                node = node.children.entry(part).or_default();
            }
            node.params.push(name);
        }
        Some(root)
    }

    fn signature(&self) -> String {
        signature(self.params.clone(), self.children.values().map(Self::signature).collect())
    }
}

fn signature(mut params: Vec<&str>, mut children: Vec<String>) -> String {
    params.sort_unstable();
    children.sort_unstable();
    match (params.as_slice(), children.as_slice()) {
        ([], []) => String::new(),
        _ => format!("({};{})", params.join(","), children.concat()),
    }
}

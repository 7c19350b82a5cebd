//! Reads programs.

use std::collections::HashMap;

use lodstone_model::{
    Attribute, AttributeValue, ByteString, Dialect, Limits, Model, Program, Programs, Topology,
};
use lodstone_store::Blob;

use super::graph::Reader;
use super::{json, signature};
use crate::encoding::json::malformed;
use crate::error::{Error, Result};

/// The major versions of the schema that are read.
const MAJORS: std::ops::RangeInclusive<i64> = 7..=8;

/// The attribute of a program with the range of each symbol.
const RANGES: &str = "range_constraints";

/// A program.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) program: Program,
    /// The names of parameters whose variables have other names, because an input or output has theirs; by variable.
    pub(crate) renamed: HashMap<String, String>,
}

/// Reads a program.
///
/// # Errors
/// Fails if the text is not an exported program, with the place of the node.
pub(crate) fn read(blob: &Blob, limits: &Limits) -> Result<Exported> {
    if blob.len() > limits.structure_bytes {
        let limit = limits.at_most_bytes("of a program");
        return Err(blob.over_limit(0, limit).into());
    }
    let text = blob.bytes()?;
    let wrong =
        |error: &serde_json::Error| malformed(blob, (0, &text), "an exported program", error);
    // The version first: other versions may have other keys.
    let version: Versioned = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    let version = version.schema_version;
    if let Some(version) = version.as_ref().filter(|version| !MAJORS.contains(&version.major)) {
        let found = format!("{}.{}", version.major, version.minor);
        return Err(blob.malformed(0, "version 7 or 8 of the schema", found).into());
    }
    let file: json::Program<'_> = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    let mut reader = Reader::new(blob, &text, limits);
    let module = &file.graph_module;
    reader.graph(&module.graph, -1, 0)?;
    let lost = || Error::internal("the main graph was not read");
    let mut main = std::mem::take(reader.blocks.first_mut().ok_or_else(lost)?);
    let interface = (&*module.graph.inputs, &*module.graph.outputs);
    let renamed = signature::apply(&mut reader, &module.signature, interface, &mut main)?;
    let mut blocks = reader.blocks;
    *blocks.first_mut().ok_or_else(lost)? = main;
    let topology = Topology {
        operator_versions: file
            .opset_version
            .iter()
            .map(|(name, at)| (name.clone(), *at))
            .collect(),
        attributes: attributes(&file)?,
        blocks,
        ..Topology::new(Dialect::Torch)
    };
    Ok(Exported { program: topology.into(), renamed })
}

#[derive(serde::Deserialize)]
struct Versioned {
    #[serde(default)]
    schema_version: Option<json::Version>,
}

/// Returns the attributes of the program: versions, and the ranges of symbols.
fn attributes(file: &json::Program<'_>) -> Result<Vec<Attribute>> {
    let text = |name: &str, value: &str| Attribute {
        name: name.to_owned(),
        value: AttributeValue::String(ByteString::from(value)),
    };
    let mut attributes = Vec::new();
    if let Some(version) = &file.schema_version {
        attributes.push(text("schema_version", &format!("{}.{}", version.major, version.minor)));
    }
    attributes.extend(file.torch_version.as_deref().map(|version| text("torch_version", version)));
    if file.range_constraints.is_empty() {
        return Ok(attributes);
    }
    let bound = |value: Option<i64>| value.map_or(AttributeValue::None, AttributeValue::Long);
    let mut ranges = Vec::new();
    for (name, range) in &file.range_constraints {
        let bounds = AttributeValue::list(vec![bound(range.min_val), bound(range.max_val)]);
        let value = bounds.map_err(|_| Error::internal("two numbers are nested too deeply"))?;
        ranges.push(Attribute { name: name.clone(), value });
    }
    let ranges = AttributeValue::dict(ranges)
        .map_err(|_| Error::internal("ranges are nested too deeply"))?;
    attributes.push(Attribute { name: RANGES.to_owned(), value: ranges });
    Ok(attributes)
}

/// Adds the programs of an archive to a model that has their tensors, by the names of the programs. Of several, the
/// tensors of each have the prefix `NAME.`, and the main one is `model`, or the first.
///
/// # Errors
/// Fails if a program is malformed.
pub(crate) fn attach(files: &[(String, Blob)], limits: &Limits, model: &mut Model) -> Result<()> {
    // Without one of that name, it is the first.
    let main = files.iter().position(|(name, _)| name == "model").unwrap_or(0);
    for (index, (name, blob)) in files.iter().enumerate() {
        let place = || format!("the program `{name}`");
        let mut exported = read(blob, limits).map_err(|error| error.inside(place()))?;
        let prefix = if files.len() > 1 { format!("{name}.") } else { String::new() };
        if !prefix.is_empty() {
            let vars = exported.program.blocks.iter().take(1).flat_map(|block| &block.vars);
            let own = vars.filter(|var| var.persistable);
            let names = own.map(|var| (var.name.clone(), format!("{prefix}{}", var.name)));
            let names: HashMap<String, String> = names.collect();
            exported.program.rename(&names);
            let renamed = exported.renamed.into_iter();
            let renamed = renamed.map(|(var, parameter)| (var, format!("{prefix}{parameter}")));
            exported.renamed = renamed.collect();
        }
        for (var, parameter) in &exported.renamed {
            let found = model.parameters.iter_mut().find(|it| it.name == *parameter);
            let Some(found) = found else { continue };
            let new = format!("{prefix}{var}");
            model.report.warn(format!(
                "the parameter `{parameter}` is named `{new}`: an input or output has its name"
            ));
            found.name = new;
        }
        let key = if index == main { Programs::MAIN } else { name };
        model.programs.insert(key, exported.program);
    }
    Ok(())
}

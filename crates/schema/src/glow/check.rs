//! The requirements of Glow's reader on a file with its own operators.
//!
//! The reader takes operators in any order, identifies values by name, and requires every attribute from which it
//! rebuilds a node: the node's members, and the types of results that do not follow from its inputs. Whatever the reader
//! does not require (types of inputs, options of backends, unknown attributes) is not checked here either.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, Block, ByteString, Model, Op, Program};

use super::{
    CONSTANT_FOLDING, Member, Node, PREFIX, SAVE, STATIC_PLACEHOLDER, Storage, Type, node,
};
use crate::{Finding, Findings};

/// Checks a model against Glow's rules.
pub fn check(model: &Model) -> Findings {
    let mut found = Findings::default();
    let Some(program) = model.main() else { return found };
    header(program, &mut found);
    let Some(main) = program.blocks.first() else {
        found.add("the model", "expected a graph, found none");
        return found;
    };
    let mut given: HashSet<&str> = main.inputs.iter().map(String::as_str).collect();
    given.extend(model.parameters.iter().map(|parameter| parameter.name.as_str()));
    given.extend(main.ops.iter().flat_map(Op::writes));
    // Subgraphs with the source of folded constants lie beside the main graph.
    operators(main, "the graph", &given, &mut found);
    for block in program.blocks.iter().skip(1) {
        let mut inside = given.clone();
        inside.extend(block.ops.iter().flat_map(Op::writes));
        operators(block, &format!("the subgraph {}", block.index), &inside, &mut found);
    }
    storage(model, main, &mut found);
    partitions(model, main, &mut found);
    found
}

fn header(program: &Program, found: &mut Findings) {
    let version = program.version;
    if version.is_none_or(|version| version < 3) {
        let version = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        found.add("the model", format!("expected an IR version of at least 3, found {version}"));
    }
    let own = |(domain, version): &&(String, i64)| domain.is_empty() && *version > 0;
    if !program.operator_versions.iter().any(|set| own(&set)) {
        found.add("the model", "expected a version of the ONNX opset, found none");
    }
}

fn operators(block: &Block, place: &str, given: &HashSet<&str>, found: &mut Findings) {
    let mut written = HashSet::new();
    for (number, op) in block.ops.iter().enumerate() {
        let at = || format!("{place}, operator {number} (`{}` `{}`)", op.kind, op.name);
        for name in op.writes() {
            if !written.insert(name) {
                found.add(at(), format!("`{name}` is already written by another operator"));
            }
        }
        for name in op.reads() {
            if !given.contains(name) {
                found.add(at(), format!("value `{name}` does not exist"));
            }
        }
        let wrong = match op.kind.as_str() {
            SAVE => counts(op, 1, 1),
            CONSTANT_FOLDING => match op.attribute("ConstFoldSubgraph") {
                Some(AttributeValue::Block(_)) => Vec::new(),
                _ => vec!["expected a graph in `ConstFoldSubgraph`".into()],
            },
            STATIC_PLACEHOLDER => Type::of(op, "o0").err().into_iter().collect(),
            kind => match kind.strip_prefix(PREFIX).and_then(node) {
                Some(node) => node_of(op, node, given),
                None => vec!["Glow has no such operator".into()],
            },
        };
        wrong.into_iter().for_each(|what| found.add(at(), what));
    }
}

/// Checks the minimum number of inputs and the number of outputs.
fn counts(op: &Op, inputs: usize, outputs: usize) -> Vec<Finding> {
    let of = |operands: &[lodstone_model::Operand]| operands.iter().map(|o| o.args.len()).sum();
    let (read, written): (usize, usize) = (of(&op.inputs), of(&op.outputs));
    let mut wrong = Vec::new();
    if read < inputs {
        wrong.push(format!("expected {inputs} inputs, found {read}").into());
    }
    if written != outputs {
        wrong.push(format!("expected {outputs} outputs, found {written}").into());
    }
    wrong
}

/// Checks that an operator has everything from which Glow rebuilds its node.
fn node_of(op: &Op, node: &Node, given: &HashSet<&str>) -> Vec<Finding> {
    let several = node.results.iter().any(|result| result.several);
    let written = op.outputs.iter().map(|operand| operand.args.len()).sum();
    let results = if several { written } else { node.results.len() };
    let mut wrong = counts(op, node.inputs.len(), results);
    for (name, member) in &node.members {
        match op.attribute(name) {
            None => {
                let absent = format!("expected the attribute `{name}`, found none");
                wrong.push(Finding::from(absent).about_attribute(name));
            }
            Some(value) => {
                let finding = value_of(name, *member, value, given).map(Finding::from);
                wrong.extend(finding.map(|finding| finding.about_attribute(name)));
            }
        }
    }
    for (number, result) in node.results.iter().enumerate() {
        if result.like.is_none() && !result.several {
            wrong.extend(Type::of(op, &format!("o{number}")).err());
        }
    }
    if let Some(AttributeValue::String(name)) = op.attribute("Predicate")
        && !given.contains(name.to_string().as_str())
    {
        let absent = format!("the predicate `{name}` does not exist");
        wrong.push(Finding::from(absent).about_attribute("Predicate"));
    }
    wrong
}

/// Describes why a value does not fit a member, if it does not.
fn value_of(
    name: &str,
    member: Member,
    value: &AttributeValue,
    given: &HashSet<&str>,
) -> Option<String> {
    use AttributeValue as A;
    let wrong = |what: &str| Some(format!("expected {what} as `{name}`"));
    let number = |least: i64, value: i64| match value < least {
        true => Some(format!("expected at least {least} as `{name}`, found {value}")),
        false => None,
    };
    match (member, value) {
        (Member::Float, A::Float(_)) | (Member::Floats, A::Floats(_)) => None,
        (Member::String, A::String(_)) => None,
        (Member::Int(least), A::Long(value)) => number(least, *value),
        (Member::Code(count), A::Long(value)) => {
            let last = count - 1;
            let is_known = (0..=last).contains(value);
            (!is_known).then(|| format!("expected 0 to {last} as `{name}`, found {value}"))
        }
        (Member::Ints(least), A::Longs(values)) => {
            values.iter().find_map(|value| number(least, *value))
        }
        (Member::Bool, A::Long(0 | 1)) => None,
        (Member::Name(names), A::String(text)) => {
            let known = names.contains(&text.to_string().as_str());
            let names = || names.join("`, `");
            (!known).then(|| format!("expected `{}` as `{name}`, found `{text}`", names()))
        }
        (Member::Values, A::Strings(values)) => {
            let absent = values.iter().find(|value| !given.contains(value.to_string().as_str()))?;
            Some(format!("value `{absent}` in `{name}` does not exist"))
        }
        // The element type of an empty list is unknown if the file does not declare it.
        (Member::Floats | Member::Ints(_) | Member::Values, A::Unknown(0)) => None,
        (Member::Float, _) => wrong("a float"),
        (Member::Floats, _) => wrong("floats"),
        (Member::Int(_) | Member::Code(_), _) => wrong("an integer"),
        (Member::Ints(_), _) => wrong("integers"),
        (Member::Bool, _) => wrong("0 or 1"),
        (Member::String | Member::Name(_), _) => wrong("a text"),
        (Member::Values, _) => wrong("names of values"),
    }
}

/// Checks the storage properties of placeholders and constants.
fn storage(model: &Model, main: &Block, found: &mut Findings) {
    let constants: HashSet<&str> = model.parameters.iter().map(|p| p.name.as_str()).collect();
    for var in &main.vars {
        let at = format!("the variable `{}`", var.name);
        let is_input = main.inputs.contains(&var.name) && !constants.contains(var.name.as_str());
        match parse_storage(var.doc_string()) {
            Err(what) => found.add(at, what),
            Ok(storage) => {
                let needed = [
                    ("offline", is_input && storage.offline.is_none()),
                    ("elemKind", is_input && storage.kind.is_none()),
                    ("trainable", storage.trainable.is_none()),
                    ("layout", storage.layout.is_none()),
                    ("qScale", is_input && lacks_scale(&storage)),
                ];
                require(&at, &needed, found);
            }
        }
    }
    for parameter in &model.parameters {
        let at = format!("the constant `{}`", parameter.name);
        match parse_storage(parameter.tensor.doc_string.as_deref()) {
            Err(what) => found.add(at, what),
            Ok(storage) => {
                let needed = [
                    ("elemKind", storage.kind.is_none()),
                    ("layout", storage.layout.is_none()),
                    ("qScale", lacks_scale(&storage)),
                ];
                require(&at, &needed, found);
                let dtype = parameter.tensor.dtype;
                if let Some(kind) = storage.kind.filter(|kind| kind.dtype() != dtype) {
                    let (name, expected) = (kind.name(), kind.dtype());
                    let what = format!("expected {expected} elements for `{name}`, found {dtype}");
                    found.add(&at, what);
                }
            }
        }
    }
}

fn lacks_scale(storage: &Storage) -> bool {
    storage.kind.is_some_and(super::ElemKind::is_quantized) && storage.quantization.is_none()
}

fn require(at: &str, needed: &[(&str, bool)], found: &mut Findings) {
    for (key, _) in needed.iter().filter(|(_, missing)| *missing) {
        found.add(at, format!("expected `${key}` in its doc string, found none"));
    }
}

/// Parses the doc string of a variable or a tensor.
fn parse_storage(text: Option<&ByteString>) -> Result<Storage, Finding> {
    text.map_or_else(|| Ok(Storage::default()), |text| Storage::parse(&text.to_string()))
}

/// Checks that every operator is in a partition that the metadata describes.
fn partitions(model: &Model, main: &Block, found: &mut Findings) {
    const PLACE: &str = "the partitions";
    let Some(count) = model.metadata.get("numPartitions") else { return };
    let count = match count.parse::<usize>() {
        Ok(count) if count <= main.ops.len().max(1) => count,
        _ => {
            return found.add(PLACE, format!("expected the number of partitions, found `{count}`"));
        }
    };
    let mut names = HashSet::new();
    for number in 0..count {
        let key = |rest: &str| format!("partition_{number}_{rest}");
        let mut needed = vec![
            key("numLogicalDevices"),
            key("backendName"),
            key("BackendHint_executionUnits"),
            key("numBackendSpecificOpts"),
            key("replicationCount"),
        ];
        let mut many = |what: &str| {
            // An absent one is found below.
            let Some(text) = model.metadata.get(&key(what)) else { return 0..0 };
            let Ok(count) = text.parse::<usize>() else {
                found.add(PLACE, format!("expected a number as `{}`, found `{text}`", key(what)));
                return 0..0;
            };
            // The number of metadata entries bounds the counts.
            0..count.min(model.metadata.len())
        };
        needed.extend(
            many("numLogicalDevices").map(|device| key(&format!("logicalDevice_{device}"))),
        );
        for option in many("numBackendSpecificOpts") {
            needed.push(key(&format!("backendSpecificOpts_key_{option}")));
            needed.push(key(&format!("backendSpecificOpts_val_{option}")));
        }
        match model.metadata.get(&key("name")) {
            Some(name) => drop(names.insert(name.as_str())),
            None => found.add(PLACE, format!("expected `{}`, found none", key("name"))),
        }
        for key in needed.iter().filter(|key| !model.metadata.contains_key(*key)) {
            found.add(PLACE, format!("expected `{key}`, found none"));
        }
    }
    for (number, op) in main.ops.iter().enumerate() {
        if [CONSTANT_FOLDING, STATIC_PLACEHOLDER].contains(&op.kind.as_str()) {
            continue;
        }
        let at = || format!("the graph, operator {number} (`{}` `{}`)", op.kind, op.name);
        match op.attribute("partitionName") {
            Some(AttributeValue::String(name)) if names.contains(name.to_string().as_str()) => {}
            Some(AttributeValue::String(name)) => {
                found.add(at(), format!("partition `{name}` does not exist"));
            }
            _ => found.add(at(), "expected the attribute `partitionName`, found none"),
        }
    }
}

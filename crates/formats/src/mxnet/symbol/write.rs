//! Writes programs.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use lodstone_model::{AttributeValue, Block, Dialect, Limits, Op, Operand, Program, Var};
use lodstone_store::Blob;
use serde_json::Value;

use super::json::Text;
use super::read::{CONTROL, OWNER, SOURCE, SUBGRAPHS, read, usual_versions};
use super::upgrade::CURRENT;
use crate::error::{Error, Result};

const FORMAT: &str = "an MXNet program";

/// Encodes a program: with `same`, an unedited program as its original text, and any other in the format of MXNet
/// 1.9.1.
///
/// # Errors
/// Fails if the program is not a graph of MXNet operators.
pub fn write(program: &Program, same: bool) -> Result<Bytes> {
    if program.dialect != Dialect::Mxnet {
        return refuse(format!("a program of {}", program.dialect.name()));
    }
    if same && let Some(text) = unedited(program) {
        return Ok(text);
    }
    let mut text = Text::default();
    let Some(block) = program.blocks.first() else { return refuse("no block".to_owned()) };
    put_graph(&mut text, program, block, 0)?;
    Ok(text.finish().into())
}

fn refuse<T>(what: String) -> Result<T> {
    Err(Error::Incompatible { format: FORMAT, what })
}

/// Returns the original text of a program, if it still matches.
fn unedited(program: &Program) -> Option<Bytes> {
    let text = program.residual.of(OWNER)?;
    let then = read(&Blob::memory(text.clone()), &Limits::none()).ok()?;
    (without_marks(then) == without_marks(program.clone())).then(|| text.clone())
}

/// Returns a program without the markings from parameter files.
fn without_marks(mut program: Program) -> Program {
    for var in program.blocks.iter_mut().flat_map(|block| &mut block.vars) {
        (var.persistable, var.is_parameter) = (false, false);
    }
    program
}

/// A node of the graph: a variable or an operator.
#[derive(Clone, Copy)]
enum Node<'a> {
    Var(&'a Var),
    Op(&'a Op),
}

/// The node and output index that produces each value of a block.
type Producers<'a> = HashMap<&'a str, (Node<'a>, usize)>;

fn put_graph(text: &mut Text, program: &Program, block: &Block, depth: usize) -> Result<()> {
    /// The nesting limit of our own reader.
    const MAX_DEPTH: usize = 30;
    if depth > MAX_DEPTH {
        return refuse(format!("graphs in graphs, more than {MAX_DEPTH}"));
    }
    let nodes = in_order(block)?;
    let numbers: HashMap<*const u8, usize> =
        nodes.iter().enumerate().map(|(number, node)| (node.address(), number)).collect();
    let producers = producers(block);
    let entry = |name: &str, version: u32| -> Result<[usize; 3]> {
        let version = version as usize;
        let found = producers
            .get(name)
            .and_then(|(node, output)| Some([*numbers.get(&node.address())?, *output, version]));
        found.map_or_else(|| refuse(format!("the value `{name}`, which no operator produces")), Ok)
    };
    let list = |args: &[String]| -> Result<Vec<usize>> {
        args.iter().map(|name| entry(name, 0).map(|[node, ..]| node)).collect()
    };
    text.begin('{', true);
    text.key("nodes");
    text.begin('[', true);
    for node in &nodes {
        text.next();
        text.begin('{', true);
        node.put_head(text)?;
        text.key("inputs");
        let Node::Op(op) = node else {
            text.entries(&[]);
            text.end('}');
            continue;
        };
        let versions = versions(op);
        let inputs = op.input("").iter().zip(versions).map(|(name, version)| entry(name, version));
        text.entries(&inputs.collect::<Result<Vec<_>>>()?);
        if !op.input(CONTROL).is_empty() {
            text.key(CONTROL);
            text.numbers(&list(op.input(CONTROL))?);
        }
        if let [source] = list(op.input(SOURCE))?.as_slice() {
            text.key(SOURCE);
            text.raw(&source.to_string());
        }
        let blocks: Vec<i32> = op.blocks().collect();
        if !blocks.is_empty() {
            text.key(SUBGRAPHS);
            text.begin('[', true);
            for number in blocks {
                let index = usize::try_from(number).ok();
                let Some(inner) = index.and_then(|index| program.blocks.get(index)) else {
                    return refuse(format!("block {number}, which does not exist"));
                };
                text.next();
                put_graph(text, program, inner, depth + 1)?;
            }
            text.end(']');
        }
        text.end('}');
    }
    text.end(']');
    let variables = nodes.iter().enumerate().filter(|(_, node)| matches!(node, Node::Var(_)));
    text.key("arg_nodes");
    text.numbers(&variables.map(|(number, _)| number).collect::<Vec<_>>());
    let (mut rows, mut end) = (vec![0], 0);
    for node in &nodes {
        end += node.outputs();
        rows.push(end);
    }
    text.key("node_row_ptr");
    text.numbers(&rows);
    let heads = block.outputs.iter().map(|name| entry(name, 0)).collect::<Result<Vec<_>>>()?;
    text.key("heads");
    text.entries(&heads);
    if depth == 0 {
        put_attributes(text, program);
    }
    text.end('}');
    Ok(())
}

fn producers(block: &Block) -> Producers<'_> {
    let mut producers = Producers::new();
    for op in &block.ops {
        for (output, name) in op.output("").iter().enumerate() {
            producers.insert(name, (Node::Op(op), output));
        }
    }
    producers.extend(block.vars.iter().map(|var| (var.name.as_str(), (Node::Var(var), 0))));
    producers
}

/// Returns the nodes that the outputs of a block depend on, each after its inputs: the order in which
/// MXNet visits them.
fn in_order(block: &Block) -> Result<Vec<Node<'_>>> {
    let producers = producers(block);
    let mut ordered = Vec::new();
    // Visited nodes, and whether all their inputs are in place.
    let mut met: HashMap<*const u8, bool> = HashMap::new();
    let mut open: Vec<(Node<'_>, usize)> = Vec::new();
    for output in &block.outputs {
        let mut next = Some(output.as_str());
        loop {
            if let Some(name) = next.take() {
                let Some((node, _)) = producers.get(name) else {
                    return refuse(format!("the value `{name}`, which no operator produces"));
                };
                match met.get(&node.address()) {
                    Some(true) => {}
                    Some(false) => {
                        return refuse(format!("the value `{name}`, which depends on itself"));
                    }
                    None => {
                        met.insert(node.address(), false);
                        open.push((*node, 0));
                    }
                }
            }
            let Some((node, place)) = open.last_mut() else { break };
            if let Some(name) = node.reads(*place) {
                *place += 1;
                next = Some(name);
                continue;
            }
            met.insert(node.address(), true);
            ordered.push(*node);
            open.pop();
        }
    }
    if ordered.is_empty() {
        return refuse("a block without outputs".to_owned());
    }
    Ok(ordered)
}

/// Returns the version of each input, from the file or the default.
fn versions(op: &Op) -> Vec<u32> {
    let stored =
        op.residual.of(OWNER).and_then(|json| serde_json::from_slice::<Vec<u32>>(json).ok());
    stored.filter(|stored| stored.len() == op.input("").len()).unwrap_or_else(|| usual_versions(op))
}

/// Writes the attributes of the graph: the version that reads it without upgrades, and the other
/// original attributes.
fn put_attributes(text: &mut Text, program: &Program) {
    let mut attributes = BTreeMap::new();
    if let Some(json) = program.residual.of(OWNER)
        && let Ok(Value::Object(graph)) = serde_json::from_slice::<Value>(json)
        && let Some(Value::Object(stored)) = graph.get("attrs")
    {
        attributes.extend(stored.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    let version = program.version.map_or(CURRENT, |version| version.max(CURRENT));
    let value = Value::from(vec![Value::from("int"), Value::from(version)]);
    attributes.insert("mxnet_version".to_owned(), value);
    text.key("attrs");
    text.begin('{', attributes.len() > 1);
    for (key, value) in &attributes {
        text.key(key);
        put_value(text, value);
    }
    text.end('}');
}

/// Writes a value with its type.
fn put_value(text: &mut Text, value: &Value) {
    match value {
        Value::Array(values) if values.iter().all(|value| !value.is_array()) => {
            text.begin('[', false);
            for value in values {
                text.next();
                put_value(text, value);
            }
            text.end(']');
        }
        Value::String(string) => text.string(string),
        other => text.raw(&other.to_string()),
    }
}

impl<'a> Node<'a> {
    /// Returns an address that distinguishes the nodes of a block.
    fn address(&self) -> *const u8 {
        match self {
            Self::Var(var) => std::ptr::from_ref(*var).cast(),
            Self::Op(op) => std::ptr::from_ref(*op).cast(),
        }
    }

    /// Returns the value at index `place` of its inputs.
    fn reads(&self, place: usize) -> Option<&'a str> {
        let Self::Op(op) = *self else { return None };
        let slot = |operand: &&Operand| operand.slot.is_empty() || operand.slot == CONTROL;
        let mut rest = place;
        for operand in op.inputs.iter().filter(slot) {
            match operand.args.get(rest) {
                Some(name) => return Some(name),
                None => rest -= operand.args.len(),
            }
        }
        None
    }

    fn outputs(&self) -> usize {
        match self {
            Self::Var(_) => 1,
            Self::Op(op) => op.output("").len(),
        }
    }

    /// Writes operator, name and attributes.
    fn put_head(&self, text: &mut Text) -> Result<()> {
        let (kind, name, attributes) = match self {
            Self::Var(var) => ("null", &var.name, &var.attributes),
            Self::Op(op) => (op.kind.as_str(), &op.name, &op.attributes),
        };
        let mut sorted = BTreeMap::new();
        for attribute in attributes {
            match &attribute.value {
                AttributeValue::String(value) => {
                    let value = std::str::from_utf8(&value.0).ok();
                    let Some(value) = value else {
                        return refuse(format!(
                            "the attribute `{}`, which is not UTF-8",
                            attribute.name
                        ));
                    };
                    sorted.insert(attribute.name.as_str(), value);
                }
                AttributeValue::Block(_) | AttributeValue::Blocks(_) => {}
                _ => {
                    return refuse(format!(
                        "the attribute `{}`, which is not a string",
                        attribute.name
                    ));
                }
            }
        }
        let texts = sorted.iter().flat_map(|(key, value)| [*key, *value]).chain([kind, name]);
        for stored in texts {
            // MXNet reads no other escapes, and JSON forbids these characters unescaped.
            if stored.chars().any(|c| c.is_control() && c < ' ' && !"\r\n\t".contains(c)) {
                return refuse(format!("a control character in {stored:?}"));
            }
        }
        text.key("op");
        text.string(kind);
        text.key("name");
        text.string(name);
        if !sorted.is_empty() {
            text.key("attrs");
            text.begin('{', sorted.len() > 1);
            for (key, value) in sorted {
                text.key(key);
                text.string(value);
            }
            text.end('}');
        }
        Ok(())
    }
}

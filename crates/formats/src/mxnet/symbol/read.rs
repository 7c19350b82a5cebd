//! Reads programs.

use std::collections::{HashMap, HashSet, VecDeque};

use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dialect, Dim, Limits, Op, Operand,
    Program, Residual, TensorType, Topology, Var,
};
use lodstone_schema::mxnet::{dtype_of, is_auxiliary, likely_parameters, output_suffix};
use lodstone_store::{Blob, Ceiling};

use super::graph::{Entry, Graph, Node};
use super::upgrade::upgrade;
use crate::encoding::json::malformed;
use crate::error::{Error, Result};
use crate::format::block_number;
use crate::lengths::at_most;

/// The owner of the residuals: the text of a program, and the versions of the inputs of an operator.
pub(super) const OWNER: &str = "mxnet symbol";

/// Operands that refer to nodes instead of values, by the first output of each node.
pub(super) const CONTROL: &str = "control_deps";
pub(super) const SOURCE: &str = "backward_source_id";

/// The attribute that holds the blocks that an operator runs.
pub(super) const SUBGRAPHS: &str = "subgraphs";

/// Reads a program.
///
/// # Errors
/// Fails if the text is not a program, or refers to missing nodes.
pub fn read(blob: &Blob, limits: &Limits) -> Result<Program> {
    if blob.len() > limits.structure_bytes {
        let limit = limits.at_most_bytes("of a program");
        return Err(blob.over_limit(0, limit).into());
    }
    let text = blob.read()?;
    let graph = parse(blob, &text)?;
    let version = graph.version();
    let mut reader = Reader::new(blob, limits, graph.has_numpy_shapes());
    let mut program = Program::from(Topology { version, ..Topology::new(Dialect::Mxnet) });
    let mut open = VecDeque::from([(graph, -1)]);
    let mut next = 1;
    while let Some((graph, parent)) = open.pop_front() {
        let index = block_number(program.blocks.len())?;
        let mut inner = Vec::new();
        let block = reader.block(graph, (index, parent), &mut next, &mut inner)?;
        open.extend(inner.into_iter().map(|graph| (graph, index)));
        program.blocks.push(block);
    }
    upgrade(&mut program);
    let likely = likely_parameters(&program);
    for var in program.blocks.iter_mut().take(1).flat_map(|block| &mut block.vars) {
        var.persistable = likely.contains(&var.name);
    }
    program.residual = Residual::new(OWNER, text);
    Ok(program)
}

fn parse(blob: &Blob, text: &[u8]) -> Result<Graph> {
    serde_json::from_slice(text)
        .map_err(|error| malformed(blob, (0, text), "an MXNet program", &error))
}

/// The state shared by all graphs of a file.
struct Reader<'a> {
    blob: &'a Blob,
    /// The remaining number of nodes.
    nodes: usize,
    limits: &'a Limits,
    /// The remaining bytes of value names: every use of a value repeats its name, which
    /// may be long.
    names: usize,
    numpy_shapes: bool,
}

impl<'a> Reader<'a> {
    fn new(blob: &'a Blob, limits: &'a Limits, numpy_shapes: bool) -> Self {
        let names = at_most(blob.len().saturating_mul(16).saturating_add(1 << 20), usize::MAX);
        Self { blob, nodes: limits.nodes, limits, names, numpy_shapes }
    }

    fn block(
        &mut self,
        graph: Graph,
        (index, parent): (i32, i32),
        next: &mut i32,
        inner: &mut Vec<Graph>,
    ) -> Result<Block> {
        let count = graph.nodes.len();
        self.nodes = self
            .nodes
            .checked_sub(count)
            .ok_or_else(|| self.over_limit(self.limits.at_most_nodes("nodes")))?;
        let mut values = Values::new(self.outputs(&graph)?, &graph);
        let mut block = Block { index, parent, ..Block::default() };
        for argument in &graph.arg_nodes {
            if !graph.nodes.get(*argument).is_some_and(is_variable) {
                return Err(
                    self.wrong("`arg_nodes` that refer to variables", format!("node {argument}"))
                );
            }
        }
        for (number, node) in graph.nodes.into_iter().enumerate() {
            let place = format!("block {index}, node {number} (`{}`)", short(&node.name));
            let wrong = |error: Error| error.inside(&*place);
            if is_variable(&node) {
                values.add_variable(number, &node.name);
                // Variables of the same name are one, because they are bound by name.
                if values.is_new(&node.name) {
                    block.vars.push(self.variable(node).map_err(wrong)?);
                }
                continue;
            }
            let mut op = self.operator(&node, number, &values).map_err(wrong)?;
            op.outputs = vec![values.add_outputs(self, number, &node).map_err(wrong)?];
            if !node.subgraphs.is_empty() {
                let blocks = (*next..).take(node.subgraphs.len()).collect::<Vec<_>>();
                *next = next.saturating_add(block_number(blocks.len())?);
                let value = AttributeValue::Blocks(blocks);
                op.attributes.push(Attribute { name: SUBGRAPHS.to_owned(), value });
                inner.extend(node.subgraphs);
            }
            block.ops.push(op);
        }
        for head in &graph.heads {
            block.outputs.push(self.value(&values, *head, count)?);
        }
        Ok(block)
    }

    /// Returns the number of outputs of each node: as declared by the graph, extended by those that are used.
    fn outputs(&self, graph: &Graph) -> Result<Vec<usize>> {
        let mut counts = vec![1; graph.nodes.len()];
        if let Some(starts) = &graph.node_row_ptr {
            let ends = starts.iter().skip(1);
            let declared = starts.iter().zip(ends).map(|(start, end)| end.checked_sub(*start));
            let declared: Option<Vec<usize>> = declared.collect();
            // Each output takes a few bytes where it is used, and few are unused.
            let are_few = starts.last().is_none_or(|all| *all as u64 <= self.blob.len());
            let fits = declared.filter(|declared| declared.len() == graph.nodes.len() && are_few);
            counts = fits.ok_or_else(|| {
                let expected = format!("a `node_row_ptr` that ascends over {} nodes", counts.len());
                self.wrong(expected, "another one")
            })?;
        }
        let entries = graph.nodes.iter().flat_map(|node| &node.inputs).chain(&graph.heads);
        for entry in entries {
            let declared = graph.node_row_ptr.is_some();
            if let Some(count) = counts.get_mut(entry.node)
                && *count <= entry.output
            {
                /// More outputs than any operator with an undeclared number of outputs has.
                const MAX: usize = 1 << 12;
                if declared || entry.output >= MAX {
                    let found = format!("output {} of node {}", entry.output, entry.node);
                    return Err(self.wrong("existing outputs of nodes", found));
                }
                *count = entry.output + 1;
            }
        }
        Ok(counts)
    }

    fn variable(&self, node: Node) -> Result<Var> {
        let attributes = self.attributes(&node)?;
        Ok(Var {
            name: node.name,
            value: declared(&attributes, self.numpy_shapes).into(),
            attributes,
            ..Var::default()
        })
    }

    fn operator(&mut self, node: &Node, number: usize, values: &Values) -> Result<Op> {
        let mut args = Vec::new();
        for entry in &node.inputs {
            args.push(self.value(values, *entry, number)?);
        }
        let mut inputs = vec![Operand { slot: String::new(), args }];
        let first = |node| Entry { node, output: 0, version: 0 };
        if !node.control_deps.is_empty() {
            let mut args = Vec::new();
            for dependency in &node.control_deps {
                args.push(self.value(values, first(*dependency), number)?);
            }
            inputs.push(Operand { slot: CONTROL.to_owned(), args });
        }
        // Operators of a forward graph have -1.
        if let Some(source) = node.backward_source_id.and_then(|id| usize::try_from(id).ok()) {
            let args = vec![self.value(values, first(source), number)?];
            inputs.push(Operand { slot: SOURCE.to_owned(), args });
        }
        let mut op = Op {
            name: node.name.clone(),
            kind: node.op.clone(),
            inputs,
            attributes: self.attributes(node)?,
            ..Op::default()
        };
        let declared: Vec<u32> = node.inputs.iter().map(|entry| entry.version).collect();
        remember_versions(&mut op, &declared);
        Ok(op)
    }

    /// Returns all attributes of a node, under the keys of any release.
    fn attributes(&self, node: &Node) -> Result<Vec<Attribute>> {
        let mut merged: Vec<Attribute> = Vec::new();
        let mut known = HashSet::new();
        // Of duplicate keys, the parameters of the operator take precedence.
        for (name, value) in node.param.0.iter().chain(&node.attrs.0).chain(&node.attr.0) {
            let Some(text) = value else {
                let expected = format!("a string as the attribute `{name}`");
                return Err(self.wrong(expected, "another value"));
            };
            if known.insert(name) {
                let value = AttributeValue::String(ByteString::from(text.as_str()));
                merged.push(Attribute { name: name.clone(), value });
            }
        }
        Ok(merged)
    }

    /// Returns the name of an input of node `number`, which must be the output of an earlier node.
    fn value(&mut self, values: &Values, entry: Entry, number: usize) -> Result<String> {
        let names = values.names.get(entry.node).filter(|_| entry.node < number);
        let Some(name) = names.and_then(|names| names.get(entry.output)) else {
            let found = format!("output {} of node {}", entry.output, entry.node);
            return Err(self.wrong("an output of an earlier node", found));
        };
        self.spend(name.len())?;
        Ok(name.clone())
    }

    /// Subtracts the bytes of a name from the budget.
    fn spend(&mut self, size: usize) -> Result<()> {
        // A string takes more than its bytes.
        const EMPTY: usize = 24;
        let left = self.names.checked_sub(size.saturating_add(EMPTY));
        let limit = "names of at most 16 times the size of the file";
        self.names = left.ok_or_else(|| self.over_limit(limit))?;
        Ok(())
    }

    fn over_limit(&self, limit: impl Into<Ceiling>) -> Error {
        self.blob.over_limit(0, limit).into()
    }

    fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.blob.malformed(0, expected, found).into()
    }
}

/// Returns the default version of each input: 1 if the operator modifies it, 0 otherwise.
pub(super) fn usual_versions(op: &Op) -> Vec<u32> {
    (0..op.input("").len()).map(|index| u32::from(is_auxiliary(op, index))).collect()
}

/// Stores the versions of the inputs in the file, if they are not the defaults.
pub(super) fn remember_versions(op: &mut Op, declared: &[u32]) {
    if declared != usual_versions(op)
        && let Ok(json) = serde_json::to_vec(declared)
    {
        op.residual = Residual::new(OWNER, json.into());
    }
}

fn is_variable(node: &Node) -> bool {
    node.op == "null"
}

/// Returns the beginning of a name, for messages.
fn short(name: &str) -> &str {
    const MAX: usize = 80;
    name.char_indices().nth(MAX).and_then(|(end, _)| name.get(..end)).unwrap_or(name)
}

/// The unique names of the outputs of the nodes of a graph.
struct Values {
    counts: Vec<usize>,
    names: Vec<Vec<String>>,
    /// Names in use, with the number for the next duplicate.
    taken: HashMap<String, u64>,
    /// Variables that have occurred.
    seen: HashSet<String>,
}

impl Values {
    fn new(counts: Vec<usize>, graph: &Graph) -> Self {
        // Variables keep their names, by which they are bound.
        let variables = graph.nodes.iter().filter(|node| is_variable(node));
        let taken = variables.map(|node| (node.name.clone(), 1)).collect();
        Self { names: vec![Vec::new(); counts.len()], counts, taken, seen: HashSet::new() }
    }

    fn add_variable(&mut self, number: usize, name: &str) {
        if let Some(names) = self.names.get_mut(number) {
            names.push(name.to_owned());
        }
    }

    /// Returns whether a variable is the first of its name.
    fn is_new(&mut self, name: &str) -> bool {
        self.seen.insert(name.to_owned())
    }

    /// Names the outputs of an operator as MXNet does.
    fn add_outputs(
        &mut self,
        reader: &mut Reader<'_>,
        number: usize,
        node: &Node,
    ) -> Result<Operand> {
        let count = self.counts.get(number).copied();
        let count = count.ok_or_else(|| Error::internal("a node has no outputs"))?;
        let mut args = Vec::new();
        for index in 0..count {
            let name = format!("{}_{}", node.name, output_suffix(&node.op, index, count));
            reader.spend(name.len().saturating_mul(3))?;
            args.push(self.unique(name));
        }
        if let Some(names) = self.names.get_mut(number) {
            names.clone_from(&args);
        }
        Ok(Operand { slot: String::new(), args })
    }

    fn unique(&mut self, name: String) -> String {
        let mut candidate = name.clone();
        while self.taken.contains_key(&candidate) {
            let number = self.taken.entry(name.clone()).or_insert(1);
            candidate = format!("{name}.{number}");
            *number += 1;
        }
        self.taken.insert(candidate.clone(), 1);
        candidate
    }
}

/// Returns the type that a variable declares.
fn declared(attributes: &[Attribute], numpy_shapes: bool) -> TensorType {
    let text = |name: &str| {
        let attribute = attributes.iter().find(|attribute| attribute.name == name)?;
        match &attribute.value {
            AttributeValue::String(text) => std::str::from_utf8(&text.0).ok(),
            _ => None,
        }
    };
    // What is not declared follows from the operators that read the variable.
    let flag = text("__dtype__").and_then(|flag| flag.trim().parse().ok());
    let dtype = flag.and_then(dtype_of).unwrap_or(DType::Unspecified);
    let dims = text("__shape__").and_then(|shape| dims_of(shape.trim(), numpy_shapes));
    TensorType::new(dtype, dims)
}

/// Returns the dims in the text of a shape; `None` if it is unknown.
fn dims_of(shape: &str, numpy_shapes: bool) -> Option<Vec<Dim>> {
    let inner = shape.strip_prefix(['(', '['])?.strip_suffix([')', ']'])?;
    let unknown = |dim: i64| dim < 0 || (dim == 0 && !numpy_shapes);
    let mut dims = Vec::new();
    for dim in inner.split(',').map(str::trim).filter(|dim| !dim.is_empty()) {
        let dim: i64 = dim.trim_end_matches('L').parse().ok()?;
        let known = u64::try_from(dim).ok().filter(|_| !unknown(dim));
        dims.push(known.map_or(Dim::Unknown, Dim::Known));
    }
    // Without NumPy shapes, an empty shape is unknown.
    (!dims.is_empty() || numpy_shapes).then_some(dims)
}

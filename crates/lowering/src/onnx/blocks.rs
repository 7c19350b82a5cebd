//! Blocks of a program under construction.

use std::collections::{HashMap, HashSet};

use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, Dialect, Dim, Model, Op, Parameter, Program,
    Tensor, Topology, Var,
};
use lodstone_schema::numbers::exact;
use lodstone_schema::onnx::ir_version_of_opset;
use lodstone_schema::{Code, Finding};

use super::{Graph, OPSET, Value, is_unknown};

/// The producer of exported programs.
const PRODUCER: &str = "lodstone";

/// Returns the program of blocks at [`OPSET`]. `domain` is a domain of other operators, with its version.
pub(crate) fn program(
    blocks: Vec<Block>,
    domain: Option<(String, i64)>,
) -> Result<Program, Finding> {
    let ir_version = ir_version_of_opset("", OPSET);
    let absent = || Finding::internal(format!("no release of ONNX has opset {OPSET}"));
    let producer = AttributeValue::String(ByteString::from(PRODUCER));
    let producer = Attribute { name: "producer_name".to_owned(), value: producer };
    Ok(Program::from(Topology {
        version: Some(ir_version.ok_or_else(absent)?),
        operator_versions: [(String::new(), OPSET)].into_iter().chain(domain).collect(),
        attributes: vec![producer],
        blocks,
        ..Topology::new(Dialect::Onnx)
    }))
}

impl Graph {
    /// Returns the value of an output, under a name that no other output has; it is copied if no operator writes it under
    /// that name.
    ///
    /// # Errors
    /// If its rank is unknown.
    pub(crate) fn output(
        &mut self,
        value: &Value,
        name: &str,
        others: &[Value],
    ) -> Result<Value, Finding> {
        if value.rank().is_err() {
            return Err(Finding::new(Code::UnknownDims, "its rank must be known"));
        }
        let is_written = self.ops.iter().flat_map(Op::writes).any(|it| it == name);
        if is_written && value.name() == name && !others.iter().any(|it| it.name() == name) {
            return Ok(value.clone());
        }
        let name = self.names.fresh(name);
        self.begin(&name);
        self.name(value, &name, &name)
    }
}

/// Returns the model of a graph, with the parameters and constants that are read, and with names `swapped`.
///
/// # Errors
/// If a block is lost.
pub(crate) fn assembled(
    model: &Model,
    graph: Graph,
    (inputs, outputs): (Vec<Var>, &[Value]),
    inner: Vec<Block>,
    parameters: &HashMap<&str, &Tensor>,
    swapped: &HashMap<String, String>,
) -> Result<Model, Finding> {
    let main = Block {
        parent: -1,
        name: "main".to_owned(),
        inputs: inputs.iter().map(|var| var.name.clone()).collect(),
        outputs: outputs.iter().map(|value| value.name().to_owned()).collect(),
        vars: inputs.into_iter().chain(outputs.iter().map(declared)).collect(),
        ops: graph.ops,
        ..Block::default()
    };
    let ordered = ordered(main, inner)?;
    let read = ordered.iter().flat_map(|block| {
        block.ops.iter().flat_map(Op::reads).chain(block.outputs.iter().map(String::as_str))
    });
    let read: HashSet<&str> = read.collect();
    let kept = parameters.iter().filter(|(name, _)| read.contains(*name));
    let mut kept: Vec<Parameter> = kept
        .map(|(name, tensor)| Parameter { name: (*name).to_owned(), tensor: (*tensor).clone() })
        .collect();
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    let made = graph.constants.into_iter().filter(|it| read.contains(it.name.as_str()));
    let parameters = kept.into_iter().chain(made).collect();
    let mut program = program(ordered, None)?;
    program.rename(swapped);
    Ok(Model {
        format: model.format.clone(),
        programs: program.into(),
        parameters,
        files: model.files.clone(),
        checksums: model.checksums.clone(),
        ..Model::default()
    })
}

/// Returns the declaration of a value.
pub(crate) fn declared(value: &Value) -> Var {
    let mut value_type = value.value_type().clone();
    for tensor in value_type.tensors_mut() {
        let dims = tensor.shape.iter_mut().flatten();
        dims.filter(|dim| is_unknown(dim)).for_each(|dim| *dim = Dim::Unknown);
    }
    Var { name: value.name().to_owned(), value: value_type, ..Var::default() }
}

/// Returns all blocks, each after the block that contains it, with their final indices. `inner` are those after the main
/// block, in any order.
pub(crate) fn ordered(main: Block, inner: Vec<Block>) -> Result<Vec<Block>, Finding> {
    let mut inner: Vec<Option<Block>> = inner.into_iter().map(Some).collect();
    let mut done = vec![main];
    let mut at = 0;
    while at < done.len() {
        let index = exact(at)?;
        let mut found = Vec::new();
        let mut next = exact(done.len())?;
        if let Some(block) = done.get_mut(at) {
            block.index = index;
            let values = block.ops.iter_mut().flat_map(|op| &mut op.attributes);
            for attribute in values {
                attribute.value.edit_blocks(|number| {
                    found.push(*number);
                    *number = next;
                    next += 1;
                });
            }
        }
        for number in found {
            let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let block = place.and_then(|place| inner.get_mut(place)).and_then(Option::take);
            let lost = || Finding::internal(format!("block {number} is run twice, or by nothing"));
            done.push(Block { parent: index, ..block.ok_or_else(lost)? });
        }
        at += 1;
    }
    name_apart(&mut done);
    Ok(done)
}

/// Numbers the names of operators that several have, in all blocks: ONNX requires different ones.
fn name_apart(blocks: &mut [Block]) {
    let ops = || blocks.iter().flat_map(|block| &block.ops);
    let all: HashSet<String> = ops().map(|op| op.name.clone()).collect();
    if all.len() == ops().count() {
        return;
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    for op in blocks.iter_mut().flat_map(|block| &mut block.ops) {
        let count = counts.entry(op.name.clone()).or_default();
        *count += 1;
        if *count == 1 || op.name.is_empty() {
            continue;
        }
        let mut name = format!("{}__{count}", op.name);
        while all.contains(&name) {
            *count += 1;
            name = format!("{}__{count}", op.name);
        }
        op.name = name;
    }
}

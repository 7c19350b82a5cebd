//! Nodes in canonical form: fields in numerical order, as protobuf's own writers put them, without fields that have
//! their default.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use lodstone_model::{
    Attribute, AttributeValue, Block, Function, Kind, Limits, Op, Parameter, Program, Tensor, Var,
};

use super::read::FACTS;
use super::tensor::{Fields, Sparse};
use super::{OWNER, types};
use crate::encoding::protobuf::wire::{Encoder, Message, Source};
use crate::error::{Error, Result};

/// The name of the format in messages.
pub(super) const FORMAT: &str = "ONNX";

/// The encodings of the nodes inside a node.
pub(super) trait Children {
    fn op(&mut self, op: &Op) -> Result<Bytes>;
    fn var(&mut self, var: &Var) -> Result<Bytes>;
    fn block(&mut self, number: i32) -> Result<Bytes>;
    fn tensor(&mut self, name: &str, tensor: &Tensor) -> Result<Bytes>;
    fn sparse(&mut self, name: &str, tensor: &Tensor) -> Result<Bytes>;
}

pub(super) fn model(
    program: &Program,
    metadata: &[(String, String)],
    graph: &Bytes,
    functions: &[Bytes],
) -> Encoder {
    let mut out = Encoder::default();
    if let Some(version) = program.version {
        out.int(1, version);
    }
    for (number, name) in FACTS {
        let fact = program.attributes.iter().find(|fact| fact.name == name);
        match fact.map(|fact| &fact.value) {
            Some(AttributeValue::String(text)) => out.bytes(number, &text.0),
            Some(AttributeValue::Long(value)) => out.int(number, *value),
            _ => {}
        }
    }
    out.bytes(7, graph);
    operator_sets(&mut out, 8, &program.operator_versions);
    for (key, value) in metadata {
        out.message(14, |out| {
            out.bytes(1, key.as_bytes());
            out.bytes(2, value.as_bytes());
        });
    }
    functions.iter().for_each(|function| out.bytes(25, function));
    out
}

fn operator_sets(out: &mut Encoder, number: u32, versions: &[(String, i64)]) {
    for (domain, version) in versions {
        out.message(number, |out| {
            text_field(out, 1, domain);
            out.int(2, *version);
        });
    }
}

fn text_field(out: &mut Encoder, number: u32, text: &str) {
    if !text.is_empty() {
        out.bytes(number, text.as_bytes());
    }
}

pub(super) fn graph(
    block: &Block,
    initializers: &[Parameter],
    children: &mut impl Children,
) -> Result<Encoder> {
    let mut out = Encoder::default();
    for op in &block.ops {
        out.bytes(1, &children.op(op)?);
    }
    text_field(&mut out, 2, &block.name);
    let mut sparse = Encoder::default();
    for Parameter { name, tensor } in initializers {
        match &tensor.kind {
            Kind::Coo { .. } => sparse.bytes(15, &children.sparse(name, tensor)?),
            _ => out.bytes(5, &children.tensor(name, tensor)?),
        }
    }
    let mut vars: HashMap<&str, &Var> =
        block.vars.iter().map(|var| (var.name.as_str(), var)).collect();
    let mut declared = HashSet::new();
    for (number, names) in [(11, &block.inputs), (12, &block.outputs)] {
        for name in names {
            match vars.get(name.as_str()) {
                Some(var) => out.bytes(number, &children.var(var)?),
                None => out.message(number, |out| text_field(out, 1, name)),
            }
            declared.insert(name.as_str());
        }
    }
    vars.retain(|name, _| !declared.contains(name));
    for var in block.vars.iter().filter(|var| vars.contains_key(var.name.as_str())) {
        out.bytes(13, &children.var(var)?);
    }
    out.raw(&sparse.finish());
    Ok(out)
}

pub(super) fn function(
    function: &Function,
    block: &Block,
    children: &mut impl Children,
) -> Result<Encoder> {
    let mut out = Encoder::default();
    text_field(&mut out, 1, &function.name);
    block.inputs.iter().for_each(|name| out.bytes(4, name.as_bytes()));
    block.outputs.iter().for_each(|name| out.bytes(5, name.as_bytes()));
    function.required.iter().for_each(|name| out.bytes(6, name.as_bytes()));
    for op in &block.ops {
        out.bytes(7, &children.op(op)?);
    }
    operator_sets(&mut out, 9, &function.operator_versions);
    text_field(&mut out, 10, &function.domain);
    for default in &function.defaults {
        out.bytes(11, &attribute(default, children)?.finish());
    }
    for var in &block.vars {
        out.bytes(12, &children.var(var)?);
    }
    text_field(&mut out, 13, &function.overload);
    Ok(out)
}

pub(super) fn var(var: &Var) -> Result<Encoder> {
    let mut out = Encoder::default();
    text_field(&mut out, 1, &var.name);
    let mut value = Encoder::default();
    types::write_value_type(&mut value, &var.value)?;
    let value = value.finish();
    if !value.is_empty() {
        out.bytes(2, &value);
    }
    if let Some(text) = var.doc_string() {
        out.bytes(3, &text.0);
    }
    Ok(out)
}

pub(super) fn op(op: &Op, children: &mut impl Children) -> Result<Encoder> {
    let mut out = Encoder::default();
    for (number, operands) in [(1, &op.inputs), (2, &op.outputs)] {
        if let Some(operand) = operands.iter().find(|operand| !operand.slot.is_empty()) {
            let what = format!("the slot `{}` of an operator `{}`", operand.slot, op.kind);
            return Err(Error::Incompatible { format: FORMAT, what });
        }
        let args = operands.iter().flat_map(|operand| &operand.args);
        args.for_each(|arg| out.bytes(number, arg.as_bytes()));
    }
    text_field(&mut out, 3, &op.name);
    text_field(&mut out, 4, &op.kind);
    for constant in &op.attributes {
        out.bytes(5, &attribute(constant, children)?.finish());
    }
    text_field(&mut out, 7, &op.domain);
    text_field(&mut out, 8, &op.overload);
    Ok(out)
}

pub(super) fn attribute(attribute: &Attribute, children: &mut impl Children) -> Result<Encoder> {
    use AttributeValue as A;
    let mut out = Encoder::default();
    text_field(&mut out, 1, &attribute.name);
    let mut reference = "";
    let kind = match &attribute.value {
        A::Float(value) => {
            out.f32(2, *value);
            1
        }
        A::Long(value) => {
            out.int(3, *value);
            2
        }
        A::String(value) => {
            out.bytes(4, &value.0);
            3
        }
        A::Tensor(tensor) => {
            let name = tensor_name(tensor)?;
            out.bytes(5, &children.tensor(&name, tensor)?);
            4
        }
        A::Block(block) => {
            out.bytes(6, &children.block(*block)?);
            5
        }
        A::Floats(values) => {
            values.iter().for_each(|value| out.f32(7, *value));
            6
        }
        A::Longs(values) => {
            values.iter().for_each(|value| out.int(8, *value));
            7
        }
        A::Strings(values) => {
            values.iter().for_each(|value| out.bytes(9, &value.0));
            8
        }
        A::Tensors(tensors) => {
            for tensor in tensors {
                let name = tensor_name(tensor)?;
                out.bytes(10, &children.tensor(&name, tensor)?);
            }
            9
        }
        A::Blocks(blocks) => {
            for block in blocks {
                out.bytes(11, &children.block(*block)?);
            }
            10
        }
        A::Type(value) => {
            let mut inner = Encoder::default();
            types::write_value_type(&mut inner, value)?;
            out.bytes(14, &inner.finish());
            13
        }
        A::Types(values) => {
            for value in values {
                let mut inner = Encoder::default();
                types::write_value_type(&mut inner, value)?;
                out.bytes(15, &inner.finish());
            }
            14
        }
        A::SparseTensor(_) => 11,
        A::SparseTensors(_) => 12,
        A::Reference { name, kind } => {
            reference = name;
            *kind
        }
        A::Unknown(kind) => *kind,
        value => {
            let what = format!("the attribute `{}`: {value:?}", attribute.name);
            return Err(Error::Incompatible { format: FORMAT, what });
        }
    };
    if kind != 0 {
        out.int(20, kind);
    }
    text_field(&mut out, 21, reference);
    match &attribute.value {
        A::SparseTensor(tensor) => {
            out.bytes(22, &children.sparse(&tensor_name(tensor)?, tensor)?);
        }
        A::SparseTensors(tensors) => {
            for tensor in tensors {
                out.bytes(23, &children.sparse(&tensor_name(tensor)?, tensor)?);
            }
        }
        _ => {}
    }
    Ok(out)
}

/// Returns the original name of a tensor in an attribute, which is not a value of the graph.
fn tensor_name(tensor: &Tensor) -> Result<String> {
    let Some(raw) = tensor.residual.of(OWNER) else { return Ok(String::new()) };
    let limits = Limits::none();
    let source = Source::new("the encoding of a tensor", &limits);
    let message = Message::new(&source, raw.clone());
    let values = match tensor.kind {
        Kind::Coo { .. } => Sparse::read(&message)?.values,
        _ => Some(message),
    };
    values.map_or(Ok(String::new()), |message| Ok(Fields::read(&message)?.name))
}

pub(super) fn sparse(values: &[u8], indices: &[u8], dims: &[i64]) -> Encoder {
    let mut out = Encoder::default();
    out.bytes(1, values);
    out.bytes(2, indices);
    dims.iter().for_each(|dim| out.int(3, *dim));
    out
}

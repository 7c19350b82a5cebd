//! Reads graphs into blocks.

use std::collections::{HashMap, HashSet};

use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dim, Layout, Limits, Op, Operand, TensorType,
    ValueType, Var,
};
use lodstone_schema::torch::{operator, set_scope};
use lodstone_store::Blob;
use serde_json::value::RawValue;

use super::arguments::{Argument, Member, argument, value_type};
use super::enums::{self, STRIDED};
use super::json::{self, Size, Union};
use super::symbols;
use crate::encoding::json::malformed;
use crate::error::{Error, Result};
use crate::format::block_number;

/// The maximum nesting depth of graphs.
const MAX_DEPTH: usize = 32;

/// Reads the graphs of a program.
pub(super) struct Reader<'a> {
    pub(super) blob: &'a Blob,
    pub(super) text: &'a [u8],
    limits: &'a Limits,
    /// The remaining number of nodes.
    nodes: usize,
    pub(super) blocks: Vec<Block>,
    /// The names of all values in all graphs, so that made names are new.
    names: HashSet<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(blob: &'a Blob, text: &'a [u8], limits: &'a Limits) -> Self {
        let (blocks, names) = Default::default();
        Self { blob, text, limits, nodes: limits.nodes, blocks, names }
    }

    /// Returns the error of a value that the JSON parser rejects.
    pub(super) fn wrong(
        &self,
        error: &serde_json::Error,
        value: &RawValue,
        expected: &str,
    ) -> Error {
        let base = self.text.as_ptr() as usize;
        let start = (value.get().as_ptr() as usize).saturating_sub(base).min(self.text.len());
        malformed(self.blob, (start, value.get().as_bytes()), expected, error)
    }

    /// Returns the error of contents of the program.
    pub(super) fn invalid(&self, expected: &str, found: impl Into<String>) -> Error {
        self.blob.malformed(0, expected, found).into()
    }

    pub(super) fn count(&mut self, nodes: usize) -> Result<()> {
        self.limits.check_cancelled()?;
        let left = self.nodes.checked_sub(nodes);
        let limit = || self.limits.at_most_nodes("nodes of a program");
        self.nodes = left.ok_or_else(|| Error::from(self.blob.over_limit(0, limit())))?;
        Ok(())
    }

    /// Parses an argument.
    pub(super) fn argument(&self, value: &Union<'a>) -> Result<Argument<'a>> {
        argument(value)
            .map_err(|error| self.wrong(&error, value.value, &format!("`{}`", value.kind)))
    }

    /// Returns a name that no value has.
    pub(super) fn fresh(&mut self, base: &str) -> String {
        let mut number = 0_usize;
        loop {
            let name = match number {
                0 => base.to_owned(),
                _ => format!("{base}_{number}"),
            };
            if self.names.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }

    /// Reads a graph and those in it. Returns the index of its block.
    pub(super) fn graph(
        &mut self,
        graph: &json::Graph<'a>,
        parent: i32,
        depth: usize,
    ) -> Result<i32> {
        if depth > MAX_DEPTH {
            let limit = format!("at most {MAX_DEPTH} levels of graphs");
            return Err(self.blob.over_limit(0, limit).into());
        }
        let index = block_number(self.blocks.len())?;
        self.blocks.push(Block { index, parent, ..Block::default() });
        let mut block = Block { index, parent, ..Block::default() };
        let mut types = Types::new(self, graph)?;
        for input in &graph.inputs {
            self.count(1)?;
            // Inputs that are constants have no value.
            if let Argument::Value(name) = self.argument(input)? {
                block.vars.push(types.var(&name, input));
                block.inputs.push(name);
            }
        }
        for (number, node) in graph.nodes.iter().enumerate() {
            let place = || format!("graph {index}, node {number} (`{}`)", node.target);
            let read = self.node(node, &mut block, &mut types, depth);
            read.map_err(|error| error.inside(place()))?;
        }
        for (number, output) in graph.outputs.iter().enumerate() {
            let name = self.output(output, number, &mut block)?;
            block.outputs.extend(name);
        }
        if let Some(place) =
            usize::try_from(index).ok().and_then(|index| self.blocks.get_mut(index))
        {
            *place = block;
        }
        Ok(index)
    }

    /// Returns the name of an output; constants are computed by an operator. `None` is no output.
    fn output(
        &mut self,
        output: &Union<'a>,
        number: usize,
        block: &mut Block,
    ) -> Result<Vec<String>> {
        let value = match self.argument(output)? {
            Argument::Value(name) => return Ok(vec![name]),
            Argument::Constant(AttributeValue::None) => return Ok(Vec::new()),
            Argument::Constant(value) => value,
            Argument::List(members) => {
                let mut names = Vec::new();
                for member in members {
                    names.push(self.member(member, block)?);
                }
                return Ok(names);
            }
            Argument::Graph(_) => return Err(self.invalid("a value as an output", "a graph")),
        };
        let name = self.fresh(&format!("output_{number}"));
        self.constant(&name, value, block)?;
        Ok(vec![name])
    }

    /// Adds an operator that computes a constant.
    fn constant(&mut self, name: &str, value: AttributeValue, block: &mut Block) -> Result<()> {
        self.count(2)?;
        let dtype = match &value {
            AttributeValue::Bool(_) => DType::Bool,
            AttributeValue::Double(_) => DType::Float64,
            AttributeValue::String(_) => DType::String,
            AttributeValue::Long(_) => DType::Int64,
            _ => DType::Unspecified,
        };
        let value_type = match dtype {
            DType::Unspecified => ValueType::Unspecified,
            dtype => ValueType::Scalar(dtype),
        };
        block.vars.push(Var { name: name.to_owned(), value: value_type, ..Var::default() });
        block.ops.push(Op {
            name: name.to_owned(),
            kind: "prim::Constant".to_owned(),
            outputs: vec![Operand { slot: "0".to_owned(), args: vec![name.to_owned()] }],
            attributes: vec![Attribute { name: "value".to_owned(), value }],
            ..Op::default()
        });
        Ok(())
    }

    /// Returns the name of a member of a list; constants are computed by an operator.
    fn member(&mut self, member: Member, block: &mut Block) -> Result<String> {
        match member {
            Member::Value(name) => Ok(name),
            Member::Absent => Ok(String::new()),
            Member::Constant(value) => {
                let name = self.fresh("constant");
                self.constant(&name, value, block)?;
                Ok(name)
            }
        }
    }

    fn node(
        &mut self,
        node: &json::Node<'a>,
        block: &mut Block,
        types: &mut Types,
        depth: usize,
    ) -> Result<()> {
        self.count(1 + node.inputs.len() + node.outputs.len())?;
        let kind = kind(&node.target)
            .ok_or_else(|| self.invalid("the name of an operator", format!("`{}`", node.target)))?;
        let mut op = Op { name: node.name.clone().unwrap_or_default(), kind, ..Op::default() };
        for (position, input) in node.inputs.iter().enumerate() {
            let name = match input.name.is_empty() {
                true => position.to_string(),
                false => input.name.to_string(),
            };
            match self.argument(&input.arg)? {
                Argument::Constant(value) => op.attributes.push(Attribute { name, value }),
                Argument::Value(value) => {
                    op.inputs.push(Operand { slot: name, args: vec![value] });
                }
                Argument::List(members) => {
                    self.count(members.len())?;
                    let members = members.into_iter().map(|it| self.member(it, block));
                    let args = members.collect::<Result<_>>()?;
                    op.inputs.push(Operand { slot: name, args });
                }
                Argument::Graph(graph) => {
                    let inner = self.graph(&graph, block.index, depth + 1)?;
                    op.attributes.push(Attribute { name, value: AttributeValue::Block(inner) });
                }
            }
        }
        let schema = operator(&op.kind);
        for (position, output) in node.outputs.iter().enumerate() {
            let named = schema.and_then(|schema| schema.results.get(position));
            let slot = match named.map_or("", |named| named.name) {
                "" => position.to_string(),
                name => name.to_owned(),
            };
            let args = match self.argument(output)? {
                Argument::Value(name) => vec![name],
                Argument::List(members) => {
                    let members = members.into_iter().map(|it| self.member(it, block));
                    members.collect::<Result<_>>()?
                }
                Argument::Constant(_) => Vec::new(),
                Argument::Graph(_) => return Err(self.invalid("a value as a result", "a graph")),
            };
            self.count(args.len())?;
            for name in args.iter().filter(|name| !name.is_empty()) {
                block.vars.push(types.var(name, output));
            }
            op.outputs.push(Operand { slot, args });
        }
        if op.name.is_empty() {
            let first = op.writes().next().map(str::to_owned);
            op.name = first.unwrap_or_default();
        }
        set_scope(&mut op, node.metadata.scope());
        block.ops.push(op);
        Ok(())
    }
}

/// Returns the kind of an operator: `aten::add.Tensor` for `torch.ops.aten.add.Tensor`, `_operator::add` for `_operator.add`.
fn kind(target: &str) -> Option<String> {
    let own = target.strip_prefix("torch.ops.").unwrap_or(target);
    let (namespace, name) = own.split_once('.')?;
    let name = match name.rsplit_once('.') {
        Some((name, "default")) => name,
        _ => name,
    };
    (!namespace.is_empty() && !name.is_empty()).then(|| format!("{namespace}::{name}"))
}

/// The types of the values of a graph.
struct Types {
    tensors: HashMap<String, ValueType>,
}

impl Types {
    fn new(reader: &mut Reader<'_>, graph: &json::Graph<'_>) -> Result<Self> {
        let mut tensors = HashMap::new();
        for (name, meta) in &graph.tensor_values {
            reader.count(1)?;
            let typed = tensor_type(meta).map_err(|what| {
                let (expected, found) = what;
                reader.invalid(expected, found).inside(format!("the value `{name}`"))
            })?;
            reader.names.insert(name.clone());
            tensors.insert(name.clone(), typed.into());
        }
        let scalars = graph.sym_int_values.keys().chain(graph.sym_bool_values.keys());
        for name in scalars.chain(graph.sym_float_values.keys()) {
            reader.names.insert(name.clone());
        }
        for (name, object) in &graph.custom_obj_values {
            reader.names.insert(name.clone());
            tensors.insert(name.clone(), ValueType::Class(object.class_fqn.clone()));
        }
        Ok(Self { tensors })
    }

    /// Declares a value.
    fn var(&mut self, name: &str, argument: &Union<'_>) -> Var {
        let value = self.tensors.get(name).cloned().unwrap_or_else(|| value_type(argument));
        Var { name: name.to_owned(), value, ..Var::default() }
    }
}

/// Returns the type of a tensor, or what was expected and found.
pub(super) fn tensor_type(meta: &json::TensorMeta) -> Result<TensorType, (&'static str, String)> {
    let dtype = enums::dtype(meta.dtype)
        .ok_or_else(|| ("a known element type", format!("the number {}", meta.dtype)))?;
    let dims = meta.sizes.iter().map(|size| dim(size).ok_or_else(|| unread(size)));
    let dims: Vec<Dim> = dims.collect::<Result<_, _>>()?;
    let layout = match meta.layout.map(|code| (code, enums::layout(code))) {
        None | Some((_, Some(STRIDED))) => strides(meta).filter(|it| !is_contiguous(it, &dims)),
        Some((_, Some("sparse_coo"))) => return Ok(sparse(dtype, dims, Layout::Coo)),
        Some((_, Some("sparse_csr"))) => return Ok(sparse(dtype, dims, Layout::Csr)),
        Some((_, Some(name))) => return Err(("a strided tensor", format!("the layout `{name}`"))),
        Some((code, None)) => return Err(("a known layout", format!("the number {code}"))),
    };
    Ok(TensorType { layout: layout.map(Layout::Strided), ..TensorType::new(dtype, Some(dims)) })
}

fn sparse(dtype: DType, dims: Vec<Dim>, layout: Layout) -> TensorType {
    TensorType { layout: Some(layout), ..TensorType::new(dtype, Some(dims)) }
}

fn unread(size: &Size) -> (&'static str, String) {
    let found = match (&size.as_expr, size.as_int) {
        (Some(expression), _) => format!("`{}`", expression.expr_str),
        (None, Some(number)) => number.to_string(),
        (None, None) => "neither a number nor an expression".to_owned(),
    };
    ("a size", found)
}

/// Returns a dim; `None` if it is no size.
fn dim(size: &Size) -> Option<Dim> {
    if let Some(number) = size.as_int {
        return u64::try_from(number).ok().map(Dim::Known);
    }
    let parsed = symbols::parse(&size.as_expr.as_ref()?.expr_str)?;
    match parsed {
        symbols::Expression::Integer(number) => u64::try_from(number).ok().map(Dim::Known),
        other => Some(Dim::Symbol(other.text().into())),
    }
}

/// Returns the strides, if all are known.
fn strides(meta: &json::TensorMeta) -> Option<Vec<i64>> {
    meta.strides.iter().map(|stride| stride.as_int).collect()
}

/// Whether strides are those of a row-major tensor. A symbolic dim has known strides around it only if it is the first.
fn is_contiguous(strides: &[i64], dims: &[Dim]) -> bool {
    let mut expected = Some(1_i64);
    if strides.len() != dims.len() {
        return true;
    }
    for (stride, dim) in strides.iter().zip(dims).rev() {
        let Some(wanted) = expected else { return true };
        let size = match dim {
            Dim::Known(size) => i64::try_from(*size).ok(),
            _ => None,
        };
        if size == Some(0) {
            return true;
        }
        if size != Some(1) && *stride != wanted {
            return false;
        }
        expected = size.and_then(|size| wanted.checked_mul(size));
    }
    true
}

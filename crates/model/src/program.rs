//! Programs: blocks of operators over variables.

use std::collections::HashMap;

use crate::{
    Attribute, AttributeValue, ByteString, Parameter, Reserved, Residual, Sources, Tensor,
    ValueType,
};

/// The contents of a [`Program`](crate::Program): blocks of operators, of which the first is the entry point.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The framework whose conventions the program follows.
    pub dialect: Dialect,
    /// The framework's version in its own encoding, if the file records one.
    pub version: Option<i64>,
    /// Versions in file order: of operators by name, or of opsets by domain.
    pub operator_versions: Vec<(String, i64)>,
    /// Metadata of the program, in file order, such as its producer.
    pub attributes: Vec<Attribute>,
    /// The global block, then sub-blocks; operators refer to them by position.
    pub blocks: Vec<Block>,
    /// Operators that blocks define.
    pub functions: Vec<Function>,
    /// Format-specific details.
    pub residual: Residual,
}

/// Variables and the operators that run over them, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The index of the block.
    pub index: i32,
    /// The index of the enclosing block, whose names are visible in this one; -1 for the first block.
    pub parent: i32,
    /// The name, in dialects that name blocks; empty in others.
    pub name: String,
    /// The variables declared in the block.
    pub vars: Vec<Var>,
    /// The operators, in execution order.
    pub ops: Vec<Op>,
    /// The inputs, in order, if the dialect declares them apart from operators.
    pub inputs: Vec<String>,
    /// The outputs, in order, if the dialect declares them apart from operators.
    pub outputs: Vec<String>,
    /// Constant tensors of the block; those of the first block are the parameters of the model.
    pub initializers: Vec<Parameter>,
    /// Dialect-specific properties.
    pub reserved: Reserved,
    /// Format-specific details.
    pub residual: Residual,
}

/// An operator that a block defines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// The opset domain of the function.
    pub domain: String,
    /// The kind of the operators that the function defines.
    pub name: String,
    /// The overload, if several functions share the name; empty if not.
    pub overload: String,
    /// The index of the defining block, whose inputs and outputs are those of the operator.
    pub block: i32,
    /// Names of required attributes.
    pub required: Vec<String>,
    /// Optional attributes with their defaults.
    pub defaults: Vec<Attribute>,
    /// Opset versions of the block, by domain.
    pub operator_versions: Vec<(String, i64)>,
}

/// The framework whose rules the operators of a program follow. What differs between them is in tables: [`ByDialect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PaddlePaddle up to 2.x, and 3.x without PIR.
    Paddle,
    /// PaddlePaddle 3's PIR: each value is assigned once, and operands are positional.
    Pir,
    /// MXNet: a graph of named nodes with positional inputs and outputs.
    Mxnet,
    /// ONNX: each value is assigned once.
    Onnx,
    /// Glow's own operators, encoded in ONNX messages.
    Glow,
    /// Caffe2: operators over named blobs, which may be written several times.
    Caffe2,
    /// PyTorch: operators over values, some of which are views of others and may be written in place.
    Torch,
}

/// Something for each dialect: the row of a table. The compiler lists the tables that lack a new dialect.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ByDialect<T> {
    pub paddle: T,
    pub pir: T,
    pub mxnet: T,
    pub onnx: T,
    pub glow: T,
    pub caffe2: T,
    pub torch: T,
}

impl<T> ByDialect<T> {
    /// Returns what a dialect has.
    pub const fn of(&self, dialect: Dialect) -> &T {
        match dialect {
            Dialect::Paddle => &self.paddle,
            Dialect::Pir => &self.pir,
            Dialect::Mxnet => &self.mxnet,
            Dialect::Onnx => &self.onnx,
            Dialect::Glow => &self.glow,
            Dialect::Caffe2 => &self.caffe2,
            Dialect::Torch => &self.torch,
        }
    }
}

/// An operator of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Op {
    /// The opset domain, in dialects that have several; empty for the default one.
    pub domain: String,
    /// The overload that the operator calls; empty if its kind has only one function.
    pub overload: String,
    /// The name, in dialects that name operators; empty in others.
    pub name: String,
    /// The kind of operator, such as `conv2d` or `while`.
    pub kind: String,
    /// The input slots.
    pub inputs: Vec<Operand>,
    /// The output slots.
    pub outputs: Vec<Operand>,
    /// The attributes, in file order.
    pub attributes: Vec<Attribute>,
    /// Dialect-specific properties.
    pub reserved: Reserved,
    /// Format-specific details.
    pub residual: Residual,
    /// The operators of a source program that it computes.
    pub sources: Sources,
}

/// A slot of an operator and the variables in it. An absent slot differs from one that is present and empty.
///
/// In dialects with positional inputs, one slot with an empty name holds all of them in order, so that reading a program
/// needs no table of slots; an omitted input is an empty name.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The name of the slot, such as `Filter`.
    pub slot: String,
    /// The names of the variables in the slot.
    pub args: Vec<String>,
}

/// A variable of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Var {
    /// The name, unique in its block.
    pub name: String,
    /// The type of the value.
    pub value: ValueType,
    /// Whether the value outlives a run: parameters, statistics, counters, and some holders.
    pub persistable: bool,
    /// Whether the variable is a trainable parameter.
    pub is_parameter: bool,
    /// The attributes, in file order.
    pub attributes: Vec<Attribute>,
    /// Dialect-specific properties.
    pub reserved: Reserved,
    /// Format-specific details.
    pub residual: Residual,
}

impl Op {
    /// Returns the value of the attribute `name`.
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|a| &a.value)
    }

    /// Returns the variables in the input slot `slot`; empty if the slot is absent.
    pub fn input(&self, slot: &str) -> &[String] {
        args_of(&self.inputs, slot)
    }

    /// Returns the variables in the output slot `slot`; empty if the slot is absent.
    pub fn output(&self, slot: &str) -> &[String] {
        args_of(&self.outputs, slot)
    }

    /// Returns the names of all variables that the operator reads: those in input slots, then those that attributes
    /// refer to. Omitted inputs are skipped.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        let named = self.attributes.iter().flat_map(|attribute| attribute.value.names());
        let args = self.inputs.iter().flat_map(|operand| &operand.args).chain(named);
        args.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// Returns the names of all variables that the operator writes. Omitted outputs are skipped.
    pub fn writes(&self) -> impl Iterator<Item = &str> {
        let args = self.outputs.iter().flat_map(|operand| &operand.args);
        args.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// Returns the tensors in the attributes.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.attributes.iter().flat_map(|attribute| attribute.value.tensors())
    }

    /// Returns the indices of the blocks that the operator runs.
    pub fn blocks(&self) -> impl Iterator<Item = i32> + '_ {
        self.attributes.iter().flat_map(|attribute| attribute.value.blocks())
    }
}

fn args_of<'a>(operands: &'a [Operand], slot: &str) -> &'a [String] {
    operands.iter().find(|operand| operand.slot == slot).map_or(&[], |operand| &operand.args)
}

impl Topology {
    /// Creates a program without blocks.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            version: None,
            operator_versions: Vec::new(),
            attributes: Vec::new(),
            blocks: Vec::new(),
            functions: Vec::new(),
            residual: Residual::default(),
        }
    }

    /// Returns all operators, block by block.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.blocks.iter().flat_map(|block| &block.ops)
    }

    /// Renames variables in declarations, block inputs and outputs, operands and attributes.
    pub fn rename(&mut self, names: &HashMap<String, String>) {
        let rename = |name: &mut String| {
            if let Some(new) = names.get(name) {
                name.clone_from(new);
            }
        };
        for block in &mut self.blocks {
            block.vars.iter_mut().for_each(|var| rename(&mut var.name));
            block.inputs.iter_mut().chain(&mut block.outputs).for_each(rename);
            for op in &mut block.ops {
                let operands = op.inputs.iter_mut().chain(&mut op.outputs);
                operands.flat_map(|operand| &mut operand.args).for_each(rename);
                op.attributes.iter_mut().for_each(|it| it.value.edit_names(rename));
            }
        }
    }

    /// Returns the constant tensors of operators and blocks, block by block.
    pub fn constants(&self) -> impl Iterator<Item = &Tensor> {
        self.blocks.iter().flat_map(|block| {
            let initializers = block.initializers.iter().map(|parameter| &parameter.tensor);
            block.ops.iter().flat_map(Op::tensors).chain(initializers)
        })
    }

    /// The mutable counterpart of [`constants`](Self::constants), for replacement by equal tensors.
    pub(crate) fn constants_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.blocks.iter_mut().flat_map(|block| {
            let initializers = block.initializers.iter_mut().map(|parameter| &mut parameter.tensor);
            let attributes = block.ops.iter_mut().flat_map(|op| &mut op.attributes);
            attributes.flat_map(|attribute| attribute.value.tensors_mut()).chain(initializers)
        })
    }

    /// Returns all variables, block by block.
    pub fn vars(&self) -> impl Iterator<Item = &Var> {
        self.blocks.iter().flat_map(|block| &block.vars)
    }
}

impl Var {
    /// The name of the attribute that holds the description of a variable.
    pub const DOC_STRING: &str = "doc_string";

    /// Returns the description of the variable in the file.
    pub fn doc_string(&self) -> Option<&ByteString> {
        let text = self.attributes.iter().find(|attribute| attribute.name == Self::DOC_STRING);
        match text.map(|text| &text.value) {
            Some(AttributeValue::String(text)) => Some(text),
            _ => None,
        }
    }
}

impl Dialect {
    /// Returns the name of the dialect in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paddle => "paddle",
            Self::Pir => "pir",
            Self::Mxnet => "mxnet",
            Self::Onnx => "onnx",
            Self::Glow => "glow",
            Self::Caffe2 => "caffe2",
            Self::Torch => "torch",
        }
    }

    /// Returns the name of the framework, for messages.
    pub const fn framework(self) -> &'static str {
        match self {
            Self::Paddle => "PaddlePaddle",
            Self::Pir => "PaddlePaddle 3 (PIR)",
            Self::Mxnet => "MXNet",
            Self::Onnx => "ONNX",
            Self::Glow => "Glow",
            Self::Caffe2 => "Caffe2",
            Self::Torch => "PyTorch",
        }
    }
}

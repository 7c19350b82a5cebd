//! Programs: blocks of operators over variables.

use std::collections::HashMap;

use crate::{
    Attribute, AttributeValue, ByteString, Parameter, Reserved, Residual, Tensor, ValueType,
};

/// What a [`Program`](crate::Program) consists of: blocks of operators, the first of which is where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The framework whose conventions it follows.
    pub dialect: Dialect,
    /// The framework's version as it encodes it, if it says one.
    pub version: Option<i64>,
    /// Versions in the order of the file: of operators by name, or of sets of operators by domain.
    pub operator_versions: Vec<(String, i64)>,
    /// What it says about itself, in the order of the file: who wrote it.
    pub attributes: Vec<Attribute>,
    /// The global block, then sub-blocks; operators refer to them by position.
    pub blocks: Vec<Block>,
    /// Operators that are defined by blocks.
    pub functions: Vec<Function>,
    /// What the format said beyond this.
    pub residual: Residual,
}

/// Variables and the operators that run over them, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The block's own number.
    pub index: i32,
    /// The block whose names it sees; -1 for the first.
    pub parent: i32,
    /// What it is called, where a dialect names blocks; empty otherwise.
    pub name: String,
    /// Variables declared here.
    pub vars: Vec<Var>,
    /// Operators in the order in which they run.
    pub ops: Vec<Op>,
    /// Values that enter it, in order, where the dialect says so beside its operators.
    pub inputs: Vec<String>,
    /// Values that leave it, in order, where the dialect says so beside its operators.
    pub outputs: Vec<String>,
    /// Tensors that are constants of this block; those of the first are the parameters of the model.
    pub initializers: Vec<Parameter>,
    /// What only its dialect has.
    pub reserved: Reserved,
    /// What the format said beyond this.
    pub residual: Residual,
}

/// An operator that is defined by a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// The set of operators that it belongs to.
    pub domain: String,
    /// The kind of the operators that it defines.
    pub name: String,
    /// Which of several of that name it is; empty if there is one.
    pub overload: String,
    /// The block that defines it, by number; its inputs and outputs are those of the operator.
    pub block: i32,
    /// Attributes that it has to be given.
    pub required: Vec<String>,
    /// Attributes that it may be given, with what they are otherwise.
    pub defaults: Vec<Attribute>,
    /// Versions of the sets of operators in its block, by domain.
    pub operator_versions: Vec<(String, i64)>,
}

/// The framework whose rules the operators of a program follow.
///
/// It is matched without `_`: what a new dialect means has to be decided at each place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PaddlePaddle up to 2.x, and 3.x without PIR.
    Paddle,
    /// MXNet: a graph of named nodes whose inputs and outputs have positions.
    Mxnet,
    /// ONNX: each value is written once.
    Onnx,
    /// Glow's own operators in ONNX's messages.
    Glow,
}

/// One operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Op {
    /// The set of operators that it belongs to, where a dialect has several; empty for its own.
    pub domain: String,
    /// Which of several functions of its kind it calls; empty if there is one.
    pub overload: String,
    /// What it is called, where a dialect names operators; empty otherwise.
    pub name: String,
    /// What it does: `conv2d`, `while`.
    pub kind: String,
    /// What it reads.
    pub inputs: Vec<Operand>,
    /// What it writes.
    pub outputs: Vec<Operand>,
    /// Its constants, in the order of the file.
    pub attributes: Vec<Attribute>,
    /// What only its dialect has.
    pub reserved: Reserved,
    /// What the format said beyond this.
    pub residual: Residual,
}

/// A slot of an operator and the variables in it. A slot that is absent differs from one that is
/// present and empty.
///
/// Where a dialect tells inputs by position, all of them are in one slot without a name, in order; one
/// that is left out is an empty name.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The slot: `Filter`.
    pub slot: String,
    /// Names of variables.
    pub args: Vec<String>,
}

/// A variable of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Var {
    /// Its name, unique in its block.
    pub name: String,
    /// What it holds.
    pub value: ValueType,
    /// Whether it outlives a run: parameters, statistics, counters, and some holders.
    pub persistable: bool,
    /// Whether it is a trainable parameter.
    pub is_parameter: bool,
    /// Its constants, in the order of the file.
    pub attributes: Vec<Attribute>,
    /// What only its dialect has.
    pub reserved: Reserved,
    /// What the format said beyond this.
    pub residual: Residual,
}

impl Op {
    /// The value of the attribute `name`.
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|a| &a.value)
    }

    /// The variables in the input slot `slot`; empty if it is absent.
    pub fn input(&self, slot: &str) -> &[String] {
        args_of(&self.inputs, slot)
    }

    /// The variables in the output slot `slot`; empty if it is absent.
    pub fn output(&self, slot: &str) -> &[String] {
        args_of(&self.outputs, slot)
    }

    /// Everything it reads: input slots, then variables that attributes name. What is left out is left
    /// out.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        let named = self.attributes.iter().flat_map(|attribute| attribute.value.names());
        let args = self.inputs.iter().flat_map(|operand| &operand.args).chain(named);
        args.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// Everything it writes. What is left out is left out.
    pub fn writes(&self) -> impl Iterator<Item = &str> {
        let args = self.outputs.iter().flat_map(|operand| &operand.args);
        args.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The tensors that are attributes.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.attributes.iter().flat_map(|attribute| attribute.value.tensors())
    }

    /// The numbers of the blocks it runs.
    pub fn blocks(&self) -> impl Iterator<Item = i32> + '_ {
        self.attributes.iter().flat_map(|attribute| attribute.value.blocks())
    }
}

fn args_of<'a>(operands: &'a [Operand], slot: &str) -> &'a [String] {
    operands.iter().find(|operand| operand.slot == slot).map_or(&[], |operand| &operand.args)
}

impl Topology {
    /// Nothing yet.
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

    /// All operators, block by block.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.blocks.iter().flat_map(|block| &block.ops)
    }

    /// Gives variables other names, wherever they stand.
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

    /// The tensors that are constants of operators and of blocks, block by block.
    pub fn constants(&self) -> impl Iterator<Item = &Tensor> {
        self.blocks.iter().flat_map(|block| {
            let initializers = block.initializers.iter().map(|parameter| &parameter.tensor);
            block.ops.iter().flat_map(Op::tensors).chain(initializers)
        })
    }

    /// The same, to be replaced by what is equal.
    pub(crate) fn constants_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.blocks.iter_mut().flat_map(|block| {
            let initializers = block.initializers.iter_mut().map(|parameter| &mut parameter.tensor);
            let attributes = block.ops.iter_mut().flat_map(|op| &mut op.attributes);
            attributes.flat_map(|attribute| attribute.value.tensors_mut()).chain(initializers)
        })
    }

    /// All variables, block by block.
    pub fn vars(&self) -> impl Iterator<Item = &Var> {
        self.blocks.iter().flat_map(|block| &block.vars)
    }
}

impl Var {
    /// The name of the attribute that describes a variable in words.
    pub const DOC_STRING: &str = "doc_string";

    /// What the file says about it in words.
    pub fn doc_string(&self) -> Option<&ByteString> {
        let text = self.attributes.iter().find(|attribute| attribute.name == Self::DOC_STRING);
        match text.map(|text| &text.value) {
            Some(AttributeValue::String(text)) => Some(text),
            _ => None,
        }
    }
}

impl Dialect {
    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paddle => "paddle",
            Self::Mxnet => "mxnet",
            Self::Onnx => "onnx",
            Self::Glow => "glow",
        }
    }

    /// The name of its framework, for messages.
    pub fn framework(self) -> &'static str {
        match self {
            Self::Paddle => "PaddlePaddle",
            Self::Mxnet => "MXNet",
            Self::Onnx => "ONNX",
            Self::Glow => "Glow",
        }
    }
}

//! Programs: blocks of operators over variables, as in PaddlePaddle's ProgramDesc.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;

use crate::{DType, Residual, TensorType};

/// A topology: blocks of operators, the first of which is where it begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The framework whose conventions it follows.
    pub dialect: Dialect,
    /// The framework's version as it encodes it, if it says one.
    pub version: Option<i64>,
    /// Versions of operators, in the order of the file.
    pub operator_versions: Vec<(String, i32)>,
    /// The global block, then sub-blocks; operators refer to them by position.
    pub blocks: Vec<Block>,
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
    /// For a backward block, the forward one.
    pub forward: Option<i32>,
    /// Variables declared here.
    pub vars: Vec<Var>,
    /// Operators in the order in which they run.
    pub ops: Vec<Op>,
    /// Values that leave it, in order, where the dialect says so beside its operators.
    pub outputs: Vec<String>,
    /// What the format said beyond this.
    pub residual: Residual,
}

/// The framework whose rules an operator follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PaddlePaddle up to 2.x, and 3.x without PIR.
    #[default]
    Paddle,
    /// MXNet: a graph of named nodes whose inputs and outputs have positions.
    Mxnet,
}

/// One operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Whose operator it is.
    pub dialect: Dialect,
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
    /// Whether pruning has to keep it.
    pub is_target: bool,
    /// What the format said beyond this.
    pub residual: Residual,
}

/// A slot of an operator and the variables in it. A slot that is absent differs from one that is
/// present and empty.
///
/// Where a dialect tells inputs by position, all of them are in one slot without a name, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The slot: `Filter`.
    pub slot: String,
    /// Names of variables.
    pub args: Vec<String>,
}

/// A named constant of an operator or variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name: `strides`.
    pub name: String,
    /// Its value.
    pub value: AttributeValue,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue {
    /// A truth value.
    Bool(bool),
    /// A 32-bit integer.
    Int(i32),
    /// A 64-bit integer.
    Long(i64),
    /// A single-precision number.
    Float(f32),
    /// A double-precision number.
    Double(f64),
    /// Text, or any bytes.
    String(ByteString),
    /// Truth values.
    Bools(Vec<bool>),
    /// 32-bit integers.
    Ints(Vec<i32>),
    /// 64-bit integers.
    Longs(Vec<i64>),
    /// Single-precision numbers.
    Floats(Vec<f32>),
    /// Double-precision numbers.
    Doubles(Vec<f64>),
    /// Texts.
    Strings(Vec<ByteString>),
    /// A block of the program, by number.
    Block(i32),
    /// Blocks of the program, by number.
    Blocks(Vec<i32>),
    /// The name of a variable, which the operator reads.
    Var(String),
    /// Names of variables, which the operator reads.
    Vars(Vec<String>),
    /// A number of one of several types.
    Scalar(Scalar),
    /// Numbers of several types.
    Scalars(Vec<Scalar>),
    /// A type that the reader does not know, by its code; the value is in the residual.
    Unknown(i32),
}

/// A number that carries its type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar {
    Bool(bool),
    Long(i64),
    Double(f64),
    Complex(Complex),
    /// A type that the reader does not know, by its code.
    Unknown(i32),
}

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

/// Bytes that are text as a rule but need not be.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ByteString(pub Bytes);

/// A variable of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// Its name, unique in its block.
    pub name: String,
    /// What it holds.
    pub kind: VarKind,
    /// Types of the tensors in it: one for a tensor, any number for a reader.
    pub tensors: Vec<TensorType>,
    /// Kinds of the members of a tuple.
    pub members: Vec<VarKind>,
    /// Whether it outlives a run: parameters, statistics, counters, and some holders.
    pub persistable: bool,
    /// Whether what is fed to it has to fit its type.
    pub need_check_feed: bool,
    /// Whether it is a trainable parameter.
    pub is_parameter: bool,
    /// Whether gradients end here.
    pub stop_gradient: bool,
    /// Its constants, in the order of the file.
    pub attributes: Vec<Attribute>,
    /// What the format said beyond this.
    pub residual: Residual,
}

/// What a variable holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are PaddlePaddle's own")]
pub enum VarKind {
    /// A dense tensor, with or without LoD.
    Tensor,
    SelectedRows,
    FeedList,
    FeedMinibatch,
    FetchList,
    StepScopes,
    LodRankTable,
    TensorArray,
    PlaceList,
    Reader,
    Raw,
    Tuple,
    String,
    Strings,
    Vocabulary,
    PString,
    SparseCoo,
    SparseCsr,
    /// A bare number of this type.
    Scalar(DType),
    /// A code that the reader does not know.
    Unknown(TypeCode),
}

/// A type code of a framework that the reader does not know.
pub type TypeCode = i32;

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

    /// Everything it reads: input slots, then variables that attributes name.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        let named = self.attributes.iter().flat_map(|attribute| match &attribute.value {
            AttributeValue::Var(name) => std::slice::from_ref(name),
            AttributeValue::Vars(names) => names,
            _ => &[],
        });
        self.inputs.iter().flat_map(|operand| &operand.args).chain(named).map(String::as_str)
    }

    /// Everything it writes.
    pub fn writes(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().flat_map(|operand| &operand.args).map(String::as_str)
    }

    /// The numbers of the blocks it runs.
    pub fn blocks(&self) -> impl Iterator<Item = i32> + '_ {
        self.attributes
            .iter()
            .flat_map(|attribute| match &attribute.value {
                AttributeValue::Block(block) => std::slice::from_ref(block),
                AttributeValue::Blocks(blocks) => blocks,
                _ => &[],
            })
            .copied()
    }
}

fn args_of<'a>(operands: &'a [Operand], slot: &str) -> &'a [String] {
    operands.iter().find(|operand| operand.slot == slot).map_or(&[], |operand| &operand.args)
}

impl Program {
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
            for op in &mut block.ops {
                let operands = op.inputs.iter_mut().chain(&mut op.outputs);
                operands.flat_map(|operand| &mut operand.args).for_each(rename);
                for attribute in &mut op.attributes {
                    match &mut attribute.value {
                        AttributeValue::Var(name) => rename(name),
                        AttributeValue::Vars(names) => names.iter_mut().for_each(rename),
                        _ => {}
                    }
                }
            }
        }
    }

    /// All variables, block by block.
    pub fn vars(&self) -> impl Iterator<Item = &Var> {
        self.blocks.iter().flat_map(|block| &block.vars)
    }
}

impl Dialect {
    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paddle => "paddle",
            Self::Mxnet => "mxnet",
        }
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl fmt::Display for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

//! One operator on its way to the next version of it, and what adapters can do with it.

use lodstone_model::{Attribute, AttributeValue, Block, DType, Dim, Op, Operand, Program, Tensor};
use lodstone_store::Blob;

use super::super::names::Names;
use super::known::Known;
use crate::Finding;

/// An operator, where it is, and what is put around it.
pub(super) struct Change<'a> {
    pub(super) op: Op,
    /// The version that it is of when the adapter is done.
    pub(super) version: i64,
    target: i64,
    block: usize,
    known: &'a Known,
    names: &'a mut Names,
    before: Vec<(Op, i64)>,
    after: Vec<(Op, i64)>,
    /// A block that takes the place of its own one, which is inside it.
    wrapped: Option<Block>,
}

/// The first version whose constants may be given by attributes of functions.
const REFERENCES: i64 = 12;

/// The first version that can cast to the type of another value.
const CAST_LIKE: i64 = 15;

impl<'a> Change<'a> {
    pub(super) fn new(
        op: Op,
        version: i64,
        target: i64,
        block: usize,
        known: &'a Known,
        names: &'a mut Names,
    ) -> Self {
        let (before, after) = (Vec::new(), Vec::new());
        Self { op, version, target, block, known, names, before, after, wrapped: None }
    }

    /// What the operator became, in order, each with the version that it is of.
    ///
    /// # Errors
    /// If the program has more blocks than it can number, which is a defect.
    pub(super) fn finish(self, program: &mut Program) -> Result<Vec<(Op, i64)>, Finding> {
        let Self { mut op, version, before, after, wrapped, block, .. } = self;
        if let Some(mut wrapped) = wrapped {
            let numbered = |block: usize| {
                i32::try_from(block).map_err(|_| Finding::internal("a program has too many blocks"))
            };
            let number = numbered(program.blocks.len())?;
            wrapped.index = number;
            wrapped.parent = numbered(block)?;
            for inner in wrapped.ops.iter().flat_map(Op::blocks) {
                let inner = usize::try_from(inner).unwrap_or(usize::MAX);
                if let Some(inner) = program.blocks.get_mut(inner) {
                    inner.parent = number;
                }
            }
            program.blocks.push(wrapped);
            set(&mut op, "body", AttributeValue::Block(number));
        }
        Ok(before.into_iter().chain([(op, version)]).chain(after).collect())
    }

    /// Whether the model is to be of a version, or a newer one.
    pub(super) fn reaches(&self, version: i64) -> bool {
        self.target >= version
    }

    /// The name of input number `index`; empty if it is left out.
    pub(super) fn input(&self, index: usize) -> &str {
        argument(&self.op.inputs, index)
    }

    /// The name of output number `index`; empty if it is left out.
    pub(super) fn output(&self, index: usize) -> &str {
        argument(&self.op.outputs, index)
    }

    /// Names of the outputs, but for those at the end that are left out.
    pub(super) fn outputs(&self) -> usize {
        let outputs = self.op.outputs.first().map_or(&[][..], |outputs| &outputs.args);
        outputs.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1)
    }

    /// Replaces or adds input number `index`.
    pub(super) fn set_input(&mut self, index: usize, name: String) {
        put(&mut self.op.inputs, index, name);
    }

    /// Replaces output number `index`.
    pub(super) fn set_output(&mut self, index: usize, name: String) {
        put(&mut self.op.outputs, index, name);
    }

    /// Removes an attribute; gives what it was.
    pub(super) fn take(&mut self, name: &str) -> Option<AttributeValue> {
        let index = self.op.attributes.iter().position(|attribute| attribute.name == name)?;
        Some(self.op.attributes.remove(index).value)
    }

    /// Replaces or adds an attribute.
    pub(super) fn set(&mut self, name: &str, value: AttributeValue) {
        set(&mut self.op, name, value);
    }

    /// The integer that an attribute is.
    pub(super) fn int(&self, name: &str) -> Result<Option<i64>, Finding> {
        match self.op.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Long(value)) => Ok(Some(*value)),
            Some(value) => Err(mistyped(name, value)),
        }
    }

    /// The text that an attribute is.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Finding> {
        match self.op.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::String(value)) => Ok(Some(value.to_string())),
            Some(value) => Err(mistyped(name, value)),
        }
    }

    /// The element type of a value.
    pub(super) fn dtype(&self, name: &str) -> Option<DType> {
        self.known.dtype(self.block, name)
    }

    /// The extents of a value.
    pub(super) fn shape(&self, name: &str) -> Option<&[Dim]> {
        self.known.shape(self.block, name)
    }

    /// How many dimensions a value has.
    pub(super) fn rank(&self, name: &str) -> Result<usize, Finding> {
        let name_of = || format!("it cannot be told how many dimensions `{name}` has").into();
        self.shape(name).map(<[Dim]>::len).ok_or_else(name_of)
    }

    /// The numbers that a value is, if it is a small constant.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        self.known.numbers(self.block, name)
    }

    /// A name for a value that belongs to the operator.
    pub(super) fn fresh(&mut self, what: &str) -> String {
        self.names.fresh(&format!("{}_{what}", self.output(0).to_owned()))
    }

    /// Puts an operator before it, of the version that this change is to; gives what that writes.
    pub(super) fn before<const N: usize>(
        &mut self,
        kind: &str,
        inputs: [&str; N],
        attributes: Vec<Attribute>,
    ) -> String {
        let name = self.fresh(&kind.to_lowercase());
        let op = op(kind, &inputs, &name, attributes);
        self.before.push((op, self.version));
        name
    }

    /// Puts an operator after it.
    pub(super) fn after<const N: usize>(
        &mut self,
        kind: &str,
        inputs: [&str; N],
        output: &str,
        attributes: Vec<Attribute>,
    ) {
        self.after.push((op(kind, &inputs, output, attributes), self.version));
    }

    /// Puts a constant before it; gives its name.
    pub(super) fn constant(&mut self, tensor: Tensor) -> String {
        self.before(
            "Constant",
            [],
            vec![attribute("value", AttributeValue::Tensor(Box::new(tensor)))],
        )
    }

    /// Puts a list of integers before it; gives its name.
    pub(super) fn integers(&mut self, numbers: &[i64]) -> String {
        self.constant(integers(numbers))
    }

    /// What an attribute is as a value: a list of integers, or what the function that the operator is
    /// in was given for it.
    pub(super) fn as_integers(
        &mut self,
        name: &str,
        value: AttributeValue,
    ) -> Result<String, Finding> {
        match value {
            AttributeValue::Longs(numbers) => Ok(self.integers(&numbers)),
            AttributeValue::Reference { .. } if self.version >= REFERENCES => {
                Ok(self.before("Constant", [], vec![attribute("value_ints", value)]))
            }
            value => Err(mistyped(name, &value)),
        }
    }

    /// What an attribute is as a number of the type of `like`.
    pub(super) fn as_number(
        &mut self,
        name: &str,
        value: AttributeValue,
        like: &str,
    ) -> Result<String, Finding> {
        let number = match value {
            AttributeValue::Float(number) => number,
            AttributeValue::Reference { .. } if self.target >= CAST_LIKE => {
                let constant = op("Constant", &[], "", vec![attribute("value_float", value)]);
                return Ok(self.cast_like(constant, like));
            }
            value => return Err(mistyped(name, &value)),
        };
        match self.dtype(like) {
            Some(DType::Float32) => Ok(self.constant(float(number))),
            Some(DType::Float64) => {
                let data = f64::from(number).to_le_bytes().to_vec();
                Ok(self.constant(Tensor::dense(DType::Float64, Vec::new(), Blob::memory(data))))
            }
            Some(dtype) if self.target < CAST_LIKE => {
                let constant = self.constant(float(number));
                let to = match dtype {
                    DType::Float16 => 10,
                    dtype => {
                        let wrong = format!("attribute `{name}` cannot be made one of {dtype}");
                        return Err(Finding::from(wrong).about_attribute(name));
                    }
                };
                Ok(self.before(
                    "Cast",
                    [&constant],
                    vec![attribute("to", AttributeValue::Long(to))],
                ))
            }
            None if self.target < CAST_LIKE => {
                Err(format!("it cannot be told of which type `{like}` is").into())
            }
            _ => {
                let value = AttributeValue::Tensor(Box::new(float(number)));
                let constant = op("Constant", &[], "", vec![attribute("value", value)]);
                Ok(self.cast_like(constant, like))
            }
        }
    }

    /// Puts a constant before it, cast to the type of `like`.
    fn cast_like(&mut self, mut constant: Op, like: &str) -> String {
        let (number, name) = (self.fresh("constant"), self.fresh("cast"));
        put(&mut constant.outputs, 0, number.clone());
        // Both are of the version that has the cast, whatever version the change is to.
        let version = self.version.max(CAST_LIKE);
        self.before.push((constant, version));
        self.before.push((op("CastLike", &[&number, like], &name, Vec::new()), version));
        name
    }

    /// Puts a block in place of the one that the operator has; the latter has to be inside it.
    pub(super) fn wrap(&mut self, block: Block) {
        self.wrapped = Some(block);
    }

    /// A name for a value of a new block.
    pub(super) fn named(&mut self, what: &str) -> String {
        self.names.fresh(what)
    }
}

/// An operator of ONNX's own set that writes one value.
pub(super) fn op(kind: &str, inputs: &[&str], output: &str, attributes: Vec<Attribute>) -> Op {
    let slot = |args| vec![Operand { slot: String::new(), args }];
    Op {
        kind: kind.to_owned(),
        inputs: slot(inputs.iter().map(|name| (*name).to_owned()).collect()),
        outputs: slot(vec![output.to_owned()]),
        attributes,
        ..Op::default()
    }
}

pub(super) fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

/// A list of integers as a tensor.
pub(super) fn integers(numbers: &[i64]) -> Tensor {
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Tensor::dense(DType::Int64, vec![numbers.len() as u64], Blob::memory(data))
}

/// A list of numbers as a tensor.
pub(super) fn floats(numbers: &[f32]) -> Tensor {
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Tensor::dense(DType::Float32, vec![numbers.len() as u64], Blob::memory(data))
}

fn float(number: f32) -> Tensor {
    Tensor { shape: Vec::new(), ..floats(&[number]) }
}

fn set(op: &mut Op, name: &str, value: AttributeValue) {
    match op.attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.value = value,
        None => op.attributes.push(attribute(name, value)),
    }
}

fn argument(operands: &[Operand], index: usize) -> &str {
    let args = operands.first().map_or(&[][..], |operand| &operand.args);
    args.get(index).map_or("", String::as_str)
}

fn put(operands: &mut Vec<Operand>, index: usize, name: String) {
    if operands.is_empty() {
        operands.push(Operand { slot: String::new(), args: Vec::new() });
    }
    let Some(operand) = operands.first_mut() else { return };
    if operand.args.len() <= index {
        operand.args.resize(index + 1, String::new());
    }
    if let Some(arg) = operand.args.get_mut(index) {
        *arg = name;
    }
}

/// An attribute whose value is of another type than its operator has.
fn mistyped(name: &str, value: &AttributeValue) -> Finding {
    let found = match value {
        AttributeValue::Reference { .. } => "given by the caller of the function",
        _ => "not of the type that it should be of",
    };
    Finding::from(format!("attribute `{name}` is {found}")).about_attribute(name)
}

//! An operator that is upgraded to its next version, and the tools of adapters.

use lodstone_model::{Attribute, AttributeValue, Block, DType, Dim, Op, Operand, Program, Tensor};
use lodstone_store::Blob;

use super::super::names::Names;
use super::known::Known;
use crate::Finding;

/// An operator, its location, and the operators that are added around it.
pub(super) struct Change<'a> {
    pub(super) op: Op,
    /// The version of the operator after the adapter.
    pub(super) version: i64,
    target: i64,
    block: usize,
    known: &'a Known,
    names: &'a mut Names,
    before: Vec<(Op, i64)>,
    after: Vec<(Op, i64)>,
    /// A block that replaces the operator's own one, which becomes its subgraph.
    wrapped: Option<Block>,
}

/// The first version whose constants may refer to attributes of functions.
const REFERENCES: i64 = 12;

/// The first version with an operator that casts to the type of another value.
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

    /// Returns the resulting operators, in order, each with its version.
    ///
    /// # Errors
    /// An internal error if the program has more blocks than an index can hold.
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
                let inner = usize::try_from(inner).ok();
                if let Some(inner) = inner.and_then(|inner| program.blocks.get_mut(inner)) {
                    inner.parent = number;
                }
            }
            program.blocks.push(wrapped);
            set(&mut op, "body", AttributeValue::Block(number));
        }
        Ok(before.into_iter().chain([(op, version)]).chain(after).collect())
    }

    /// Whether the target version of the model is at least `version`.
    pub(super) fn reaches(&self, version: i64) -> bool {
        self.target >= version
    }

    /// Returns the name of an input; empty if it is omitted.
    pub(super) fn input(&self, index: usize) -> &str {
        argument(&self.op.inputs, index)
    }

    /// Returns the name of an output; empty if it is omitted.
    pub(super) fn output(&self, index: usize) -> &str {
        argument(&self.op.outputs, index)
    }

    /// Returns the number of outputs, not counting omitted ones at the end.
    pub(super) fn outputs(&self) -> usize {
        let outputs = self.op.outputs.first().map_or(&[][..], |outputs| &outputs.args);
        outputs.iter().rev().skip_while(|name| name.is_empty()).count()
    }

    /// Returns whether an operator reads the output, or a graph returns it.
    pub(super) fn is_read(&self, index: usize) -> bool {
        self.known.is_read(self.output(index))
    }

    /// Replaces or adds an input.
    pub(super) fn set_input(&mut self, index: usize, name: String) {
        put(&mut self.op.inputs, index, name);
    }

    /// Replaces an output.
    pub(super) fn set_output(&mut self, index: usize, name: String) {
        put(&mut self.op.outputs, index, name);
    }

    /// Removes an attribute; returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<AttributeValue> {
        let index = self.op.attributes.iter().position(|attribute| attribute.name == name)?;
        Some(self.op.attributes.remove(index).value)
    }

    /// Replaces or adds an attribute.
    pub(super) fn set(&mut self, name: &str, value: AttributeValue) {
        set(&mut self.op, name, value);
    }

    /// Returns an integer attribute.
    pub(super) fn int(&self, name: &str) -> Result<Option<i64>, Finding> {
        match self.op.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Long(value)) => Ok(Some(*value)),
            Some(value) => Err(mistyped(name, value)),
        }
    }

    /// Returns an integer attribute, or its default.
    pub(super) fn int_or(&self, name: &str, default: i64) -> Result<i64, Finding> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// Returns a string attribute.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Finding> {
        match self.op.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::String(value)) => Ok(Some(value.to_string())),
            Some(value) => Err(mistyped(name, value)),
        }
    }

    /// Returns the element type of a value.
    pub(super) fn dtype(&self, name: &str) -> Option<DType> {
        self.known.dtype(self.block, name)
    }

    /// Returns the dims of a value.
    pub(super) fn shape(&self, name: &str) -> Option<&[Dim]> {
        self.known.shape(self.block, name)
    }

    /// Returns the rank of a value.
    pub(super) fn rank(&self, name: &str) -> Result<usize, Finding> {
        let name_of = || format!("the rank of `{name}` is unknown").into();
        self.shape(name).map(<[Dim]>::len).ok_or_else(name_of)
    }

    /// Returns the elements of a small constant.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        self.known.numbers(self.block, name)
    }

    /// Returns a fresh name for a value that belongs to the operator.
    pub(super) fn fresh(&mut self, what: &str) -> String {
        self.names.fresh(&format!("{}_{what}", self.output(0).to_owned()))
    }

    /// Adds an operator before it, of the version of this change; returns its output.
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

    /// Adds an operator after it.
    pub(super) fn after<const N: usize>(
        &mut self,
        kind: &str,
        inputs: [&str; N],
        output: &str,
        attributes: Vec<Attribute>,
    ) {
        self.after.push((op(kind, &inputs, output, attributes), self.version));
    }

    /// Adds a constant before it; returns its name.
    pub(super) fn constant(&mut self, tensor: Tensor) -> String {
        self.before(
            "Constant",
            [],
            vec![attribute("value", AttributeValue::Tensor(Box::new(tensor)))],
        )
    }

    /// Adds a list of integers before it; returns its name.
    pub(super) fn integers(&mut self, numbers: &[i64]) -> String {
        self.constant(integers(numbers))
    }

    /// Converts an attribute to a value that is a list of integers; the attribute may refer to one of the enclosing
    /// function.
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

    /// Converts a float attribute to a value of the element type of `like`.
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
                        let wrong = format!("attribute `{name}` cannot be converted to {dtype}");
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
                Err(format!("the element type of `{like}` is unknown").into())
            }
            _ => {
                let value = AttributeValue::Tensor(Box::new(float(number)));
                let constant = op("Constant", &[], "", vec![attribute("value", value)]);
                Ok(self.cast_like(constant, like))
            }
        }
    }

    /// Adds a constant before it, cast to the type of `like`.
    fn cast_like(&mut self, mut constant: Op, like: &str) -> String {
        let (number, name) = (self.fresh("constant"), self.fresh("cast"));
        put(&mut constant.outputs, 0, number.clone());
        // Both have the version that introduced the cast, whatever the version of the change.
        let version = self.version.max(CAST_LIKE);
        self.before.push((constant, version));
        self.before.push((op("CastLike", &[&number, like], &name, Vec::new()), version));
        name
    }

    /// Replaces the block of the operator; the replaced block must be a subgraph of the new one.
    pub(super) fn wrap(&mut self, block: Block) {
        self.wrapped = Some(block);
    }

    /// Returns a fresh name for a value of a new block.
    pub(super) fn named(&mut self, what: &str) -> String {
        self.names.fresh(what)
    }
}

/// Creates an operator of ONNX's own domain that writes one value.
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

/// Creates a tensor from a list of integers.
pub(super) fn integers(numbers: &[i64]) -> Tensor {
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Tensor::dense(DType::Int64, vec![numbers.len() as u64], Blob::memory(data))
}

/// Creates a tensor from a list of floats.
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

/// Creates the finding for an attribute with a value of the wrong type.
fn mistyped(name: &str, value: &AttributeValue) -> Finding {
    let found = match value {
        AttributeValue::Reference { .. } => "bound by the caller of the function",
        _ => "of the wrong type",
    };
    Finding::from(format!("attribute `{name}` is {found}")).about_attribute(name)
}

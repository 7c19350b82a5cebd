//! An operator as its rule sees it: the opset version, attributes, inputs, and the outputs to infer.

use lodstone_model::{AttributeValue, DType, Dim, Op, TooDeep, ValueType};

use super::super::attributes::meaning;
use super::super::dtype;
use super::super::scopes::Bindings;
use super::dims::{self, Checked, merged, show, show_type};
use super::value::{Contents, Element, MAX_ELEMENTS, UNDEFINED, ValueInfo};
use crate::Finding;

/// The result of a rule; the outputs are set in the node.
pub(super) type Outcome = Checked<()>;

/// Infers the blocks of operators.
pub trait Bodies {
    /// Infers the outputs of a block from its `inputs`.
    ///
    /// # Errors
    /// If the block does not exist or takes other inputs.
    fn body(&mut self, block: i32, inputs: Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding>;

    /// Visits a block that is never run.
    ///
    /// # Errors
    /// If the block does not exist.
    fn dead(&mut self, _: i32) -> Result<(), Finding> {
        Ok(())
    }
}

/// The [`Bodies`] of an operator without blocks.
#[derive(Clone, Copy, Debug)]
pub struct NoBodies;

impl Bodies for NoBodies {
    fn body(&mut self, block: i32, _: Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding> {
        Err(format!("graph {block} does not exist").into())
    }
}

/// An operator, and the context in which its rule is applied.
pub(super) struct Node<'a> {
    pub(super) op: &'a Op,
    /// The version of its opset.
    pub(super) opset: i64,
    /// The inputs by position, `None` where one is omitted.
    pub(super) inputs: &'a [Option<&'a ValueInfo>],
    pub(super) bindings: &'a Bindings<'a>,
    /// The outputs, as far as the rule has set them.
    pub(super) outputs: Vec<ValueInfo>,
    pub(super) bodies: &'a mut dyn Bodies,
}

impl<'a> Node<'a> {
    /// Returns an input, if it is present.
    pub(super) fn input(&self, index: usize) -> Option<&'a ValueInfo> {
        self.inputs.get(index).copied().flatten()
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.input(index).is_some()
    }

    pub(super) fn dtype(&self, index: usize) -> DType {
        self.input(index).map_or(UNDEFINED, ValueInfo::dtype)
    }

    pub(super) fn shape(&self, index: usize) -> Option<&'a [Dim]> {
        self.input(index)?.shape()
    }

    /// Returns the shape of an input; fails if its rank is another.
    pub(super) fn ranked(&self, index: usize, rank: usize) -> Checked<Option<&'a [Dim]>> {
        match self.shape(index) {
            Some(shape) if shape.len() != rank => {
                let found = show(shape);
                let wrong = format!("expected rank {rank} of input {index}, found {found}");
                Err(Finding::from(wrong).about_input(index))
            }
            shape => Ok(shape),
        }
    }

    /// Returns the shape of an input; fails if its rank is lower.
    pub(super) fn at_least(&self, index: usize, rank: usize) -> Checked<Option<&'a [Dim]>> {
        match self.shape(index) {
            Some(shape) if shape.len() < rank => {
                let found = show(shape);
                let wrong =
                    format!("expected at least rank {rank} of input {index}, found {found}");
                Err(Finding::from(wrong).about_input(index))
            }
            shape => Ok(shape),
        }
    }

    /// Merges the dims of an input into those that other inputs have at the same positions; fails if the rank or a dim
    /// differs.
    pub(super) fn unify(&self, index: usize, dims: &mut [&mut Dim]) -> Outcome {
        let Some(shape) = self.ranked(index, dims.len())? else { return Ok(()) };
        for (dim, found) in dims.iter_mut().zip(shape) {
            **dim = merged(dim, found).ok_or_else(|| {
                let shape = show(shape);
                let wrong = format!("expected {dim} instead of {found} in input {index}, {shape}");
                Finding::from(wrong).about_input(index)
            })?;
        }
        Ok(())
    }

    pub(super) fn ints(&self, index: usize) -> Option<Vec<i64>> {
        self.input(index)?.ints()
    }

    pub(super) fn floats(&self, index: usize) -> Option<Vec<f64>> {
        self.input(index)?.floats()
    }

    pub(super) fn contents(&self, index: usize) -> Option<&'a [Element]> {
        self.input(index)?.contents.as_deref()
    }

    /// Returns the value of an input that is a single integer.
    pub(super) fn int(&self, index: usize) -> Option<i64> {
        match self.contents(index)? {
            [Element::Int(number)] => Some(*number),
            _ => None,
        }
    }

    pub(super) fn has_attribute(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// Returns an attribute, or the value that the function call binds to it.
    pub(super) fn attribute(&self, name: &str) -> Option<&'a AttributeValue> {
        match self.op.attribute(name)? {
            AttributeValue::Reference { name, .. } => self.bindings.get(name.as_str()).copied(),
            value => Some(value),
        }
    }

    pub(super) fn int_attribute(&self, name: &str) -> Option<i64> {
        match self.attribute(name)? {
            AttributeValue::Long(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns an integer attribute, or its default.
    pub(super) fn int_or(&self, name: &str, default: i64) -> i64 {
        self.int_attribute(name).unwrap_or(default)
    }

    /// Whether an integer attribute is present and not 0.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.int_attribute(name).is_some_and(|number| number != 0)
    }

    pub(super) fn float_attribute(&self, name: &str) -> Option<f32> {
        match self.attribute(name)? {
            AttributeValue::Float(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn ints_attribute(&self, name: &str) -> Option<&'a [i64]> {
        match self.attribute(name)? {
            AttributeValue::Longs(numbers) => Some(numbers),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a [u8]> {
        match self.attribute(name)? {
            AttributeValue::String(text) => Some(&text.0),
            _ => None,
        }
    }

    /// Returns what the value of a string attribute stands for: the first if it is absent. Values that the operator does not
    /// define were rejected before.
    pub(super) fn choice<T: Copy>(&self, name: &str, meanings: &[(&str, T)]) -> Checked<T> {
        meaning(self.text(name), name, meanings)
    }

    pub(super) fn block(&self, name: &str) -> Checked<i32> {
        match self.attribute(name) {
            Some(AttributeValue::Block(block)) => Ok(*block),
            _ => {
                let wrong = format!("expected a graph in `{name}`, found none");
                Err(Finding::from(wrong).about_attribute(name))
            }
        }
    }

    /// Returns the element type of an attribute that holds its code.
    pub(super) fn dtype_attribute(&self, name: &str) -> Checked<Option<DType>> {
        if let Some(AttributeValue::String(text)) = self.attribute(name) {
            // `Cast` of version 1 has the name of the type.
            return Ok(Some(dtype::from_name(&text.to_string()).unwrap_or(UNDEFINED)));
        }
        let Some(code) = self.int_attribute(name) else { return Ok(None) };
        let known = i32::try_from(code).ok().and_then(dtype::from_code);
        match known {
            Some(dtype) => Ok(Some(dtype)),
            None => {
                let wrong = format!("expected the code of a type in `{name}`, found {code}");
                Err(Finding::from(wrong).about_attribute(name))
            }
        }
    }

    /// Returns integers that are an attribute in older versions and an input in newer ones.
    pub(super) fn numbers(&self, name: &str, index: usize) -> Numbers {
        if let Some(numbers) = self.ints_attribute(name) {
            return Numbers::Known(numbers.to_vec());
        }
        match (self.input(index), self.ints(index)) {
            (None, _) => Numbers::Absent,
            (_, Some(numbers)) => Numbers::Known(numbers),
            _ => Numbers::Unknown,
        }
    }

    /// Returns the index of the axis of an attribute.
    pub(super) fn axis(&self, name: &str, default: i64, rank: usize) -> Checked<usize> {
        let axis = self.int_attribute(name).unwrap_or(default);
        dims::axis_of(axis, rank)
            .map_err(|finding| finding.within(format!("`{name}`")).about_attribute(name))
    }

    /// Sets an output.
    pub(super) fn set(&mut self, index: usize, info: ValueInfo) {
        if let Some(output) = self.outputs.get_mut(index) {
            *output = info;
        }
    }

    /// Sets an output that is a tensor.
    pub(super) fn tensor(&mut self, index: usize, dtype: DType, shape: Option<Vec<Dim>>) {
        self.set(index, ValueInfo::tensor(dtype, shape));
    }

    /// Sets an output that is a tensor of known dims.
    pub(super) fn known(&mut self, index: usize, dtype: DType, shape: &[u64]) {
        let shape = shape.iter().map(|dim| Dim::Known(*dim)).collect();
        self.tensor(index, dtype, Some(shape));
    }

    /// Sets an output to the type of an input.
    pub(super) fn like(&mut self, index: usize, input: usize) {
        if let Some(input) = self.input(input) {
            self.set(index, input.value.clone().into());
        }
    }

    /// Sets the elements of an output, if there are at most [`MAX_ELEMENTS`].
    pub(super) fn set_contents(&mut self, index: usize, contents: Vec<Element>) {
        let known = contents.iter().any(|element| *element != Element::Unknown);
        if let Some(output) = self.outputs.get_mut(index)
            && contents.len() <= MAX_ELEMENTS
            && (known || contents.is_empty())
        {
            output.contents = Some(Contents::from(contents));
        }
    }

    /// Returns the common element type of some inputs; fails if their known types differ.
    pub(super) fn same_dtype(&self, inputs: impl IntoIterator<Item = usize>) -> Checked<DType> {
        let mut known = UNDEFINED;
        for index in inputs {
            match self.dtype(index) {
                UNDEFINED => {}
                dtype if known == UNDEFINED => known = dtype,
                dtype if known == dtype => {}
                dtype => {
                    let wrong = format!("expected {known} in input {index}, found {dtype}");
                    return Err(Finding::from(wrong).about_input(index));
                }
            }
        }
        Ok(known)
    }

    /// Checks that all inputs of known type are tensors.
    pub(super) fn only_tensors(&self) -> Outcome {
        for (index, input) in self.inputs.iter().enumerate() {
            let Some(input) = input else { continue };
            use ValueType as V;
            if !matches!(input.value, V::Tensor(_) | V::Sparse(_) | V::Unspecified) {
                let found = show_type(&input.value);
                let wrong = format!("expected a tensor in input {index}, found {found}");
                return Err(Finding::from(wrong).about_input(index));
            }
        }
        Ok(())
    }

    /// Returns the element type of an input that must be a sequence, if it is known.
    pub(super) fn sequence(&self, index: usize) -> Checked<Option<ValueType>> {
        let Some(info) = self.input(index).filter(|info| !info.is_unknown()) else {
            return Ok(None);
        };
        match &info.value {
            ValueType::List(element) => Ok(Some((**element).clone())),
            other => {
                let found = show_type(other);
                let wrong = format!("expected a sequence in input {index}, found {found}");
                Err(Finding::from(wrong).about_input(index))
            }
        }
    }
}

/// Integers of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Numbers {
    /// The attribute or input is absent.
    Absent,
    /// It is present, but its value is unknown.
    Unknown,
    /// Its value.
    Known(Vec<i64>),
}

/// Returns the element type of an optional value, if it is known; fails with the type of another value.
pub(super) fn in_optional(info: Option<&ValueInfo>) -> Result<Option<ValueType>, &ValueType> {
    let Some(info) = info.filter(|info| !info.is_unknown()) else { return Ok(None) };
    match &info.value {
        ValueType::Optional(element) => Ok(Some((**element).clone())),
        other => Err(other),
    }
}

/// Returns the type of a sequence.
pub(super) fn sequence_of(element: ValueType) -> Checked<ValueType> {
    ValueType::list(element).map_err(too_deep)
}

/// Returns the type of an optional value.
pub(super) fn optional_of(element: ValueType) -> Checked<ValueType> {
    ValueType::optional(element).map_err(too_deep)
}

fn too_deep(error: TooDeep) -> Finding {
    error.to_string().into()
}

//! An operator as its rule sees it: versions, attributes and inputs asked, outputs told.

use lodstone_model::{AttributeValue, DType, Dim, Op, TooDeep, ValueType};

use super::super::dtype;
use super::super::scopes::Bindings;
use super::dims::{self, Checked, merged, show, show_type};
use super::value::{Contents, Element, MOST_ELEMENTS, UNDEFINED, ValueInfo};
use crate::Finding;

/// What a rule gives: outputs that were told, or what is wrong.
pub(super) type Outcome = Checked<()>;

/// Runs the blocks of operators.
pub trait Bodies {
    /// What comes out of a block when `inputs` go in.
    ///
    /// # Errors
    /// If there is no such block, or it has other inputs.
    fn body(&mut self, block: i32, inputs: Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding>;
}

/// The blocks of operators that have none.
#[derive(Clone, Copy, Debug)]
pub struct NoBodies;

impl Bodies for NoBodies {
    fn body(&mut self, block: i32, _: Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding> {
        Err(format!("there is no graph {block}").into())
    }
}

/// An operator, and what is known around it.
pub(super) struct Node<'a> {
    pub(super) op: &'a Op,
    /// The version of the set of operators that it belongs to.
    pub(super) opset: i64,
    /// Inputs by position; those that are left out are none.
    pub(super) inputs: &'a [Option<&'a ValueInfo>],
    pub(super) bindings: &'a Bindings<'a>,
    /// What is known of the outputs, as far as the rule has told.
    pub(super) outputs: Vec<ValueInfo>,
    pub(super) bodies: &'a mut dyn Bodies,
}

impl<'a> Node<'a> {
    /// An input, if it is there.
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

    /// The extents of an input that has to have so many.
    pub(super) fn ranked(&self, index: usize, rank: usize) -> Checked<Option<&'a [Dim]>> {
        match self.shape(index) {
            Some(shape) if shape.len() != rank => {
                let found = show(shape);
                let wrong = format!("expected {rank} extents of input {index}, found {found}");
                Err(Finding::from(wrong).about_input(index))
            }
            shape => Ok(shape),
        }
    }

    /// The extents of an input that has to have so many or more.
    pub(super) fn at_least(&self, index: usize, rank: usize) -> Checked<Option<&'a [Dim]>> {
        match self.shape(index) {
            Some(shape) if shape.len() < rank => {
                let found = show(shape);
                let wrong =
                    format!("expected {rank} extents or more of input {index}, found {found}");
                Err(Finding::from(wrong).about_input(index))
            }
            shape => Ok(shape),
        }
    }

    /// Merges the extents of an input into what other inputs have in their places; fails if the input has another
    /// rank, or other extents.
    pub(super) fn unify(&self, index: usize, dims: &mut [&mut Dim]) -> Outcome {
        let Some(shape) = self.ranked(index, dims.len())? else { return Ok(()) };
        for (dim, found) in dims.iter_mut().zip(shape) {
            **dim = merged(dim, found).ok_or_else(|| {
                let shape = show(shape);
                let wrong = format!("expected {dim} in place of {found} in input {index}, {shape}");
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

    /// The one integer that an input is.
    pub(super) fn int(&self, index: usize) -> Option<i64> {
        match self.contents(index)? {
            [Element::Int(number)] => Some(*number),
            _ => None,
        }
    }

    pub(super) fn has_attribute(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// An attribute, or what the function that the operator is in was given for it.
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

    /// Whether an integer attribute is there and not 0.
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

    /// The text attribute `name`; fails if it is none of the allowed texts.
    pub(super) fn choice(
        &self,
        name: &str,
        allowed: &[&'static str],
    ) -> Checked<Option<&'static str>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match allowed.iter().find(|allowed| allowed.as_bytes() == text) {
            Some(known) => Ok(Some(*known)),
            None => {
                let found = String::from_utf8_lossy(text);
                let wrong = format!("expected `{name}` of {}, found `{found}`", allowed.join(", "));
                Err(Finding::from(wrong).about_attribute(name))
            }
        }
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

    /// The element type whose code an attribute says.
    pub(super) fn dtype_attribute(&self, name: &str) -> Checked<Option<DType>> {
        if let Some(AttributeValue::String(text)) = self.attribute(name) {
            // Casts of version 1 spelled it.
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

    /// Numbers that are an attribute in older versions and an input in newer ones.
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

    /// An axis that is an attribute, as a place in `rank`.
    pub(super) fn axis(&self, name: &str, otherwise: i64, rank: usize) -> Checked<usize> {
        let axis = self.int_attribute(name).unwrap_or(otherwise);
        dims::axis_of(axis, rank)
            .map_err(|finding| finding.within(format!("`{name}`")).about_attribute(name))
    }

    /// Tells an output.
    pub(super) fn set(&mut self, index: usize, info: ValueInfo) {
        if let Some(output) = self.outputs.get_mut(index) {
            *output = info;
        }
    }

    /// Tells an output that is a tensor.
    pub(super) fn tensor(&mut self, index: usize, dtype: DType, shape: Option<Vec<Dim>>) {
        self.set(index, ValueInfo::tensor(dtype, shape));
    }

    /// Tells an output that is a tensor of known extents.
    pub(super) fn known(&mut self, index: usize, dtype: DType, shape: &[u64]) {
        let shape = shape.iter().map(|extent| Dim::Known(*extent)).collect();
        self.tensor(index, dtype, Some(shape));
    }

    /// Tells an output that has the type of an input.
    pub(super) fn like(&mut self, index: usize, input: usize) {
        if let Some(input) = self.input(input) {
            self.set(index, input.value.clone().into());
        }
    }

    /// Tells elements of an output, if they are few.
    pub(super) fn tell(&mut self, index: usize, contents: Vec<Element>) {
        let known = contents.iter().any(|element| *element != Element::Unknown);
        if let Some(output) = self.outputs.get_mut(index)
            && contents.len() <= MOST_ELEMENTS
            && (known || contents.is_empty())
        {
            output.contents = Some(Contents::from(contents));
        }
    }

    /// Fails unless the elements of some inputs are of one type, as far as it is known.
    pub(super) fn alike(&self, inputs: impl IntoIterator<Item = usize>) -> Checked<DType> {
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

    /// Fails unless all inputs are tensors, as far as it is known.
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

    /// Fails unless an input is a sequence; gives what it is of, if that is known.
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

/// Numbers of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Numbers {
    /// There are none.
    Absent,
    /// There are some.
    Unknown,
    /// There are these.
    Known(Vec<i64>),
}

/// What an optional value is of, if it is known; fails with the type of another value.
pub(super) fn in_optional(info: Option<&ValueInfo>) -> Result<Option<ValueType>, &ValueType> {
    let Some(info) = info.filter(|info| !info.is_unknown()) else { return Ok(None) };
    match &info.value {
        ValueType::Optional(element) => Ok(Some((**element).clone())),
        other => Err(other),
    }
}

/// A sequence of a type.
pub(super) fn sequence_of(element: ValueType) -> Checked<ValueType> {
    ValueType::list(element).map_err(too_deep)
}

/// A value of a type that may not be there.
pub(super) fn optional_of(element: ValueType) -> Checked<ValueType> {
    ValueType::optional(element).map_err(too_deep)
}

fn too_deep(error: TooDeep) -> Finding {
    error.to_string().into()
}

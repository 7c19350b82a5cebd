//! Arrays of tensors, as sequences.

use lodstone_model::{Attribute, DType, Dim, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::numbers::Rank;
use lodstone_schema::onnx::infer::{ValueInfo, common_type};
use lodstone_schema::places::at_mut;

use super::variables::Bound;
use super::walk::{Own, Site, Walk};
use crate::frame::Step;
use crate::onnx::{Value, int};
use crate::paddle::operator::Outcome;

pub(super) const OPERATORS: &[(&str, Own)] = &[
    ("lod_array_length", |walk, site| length(walk, site)),
    ("read_from_array", |walk, site| read(walk, site)),
    ("tensor_array_to_tensor", |walk, site| to_tensor(walk, site)),
    ("write_to_array", |walk, site| write(walk, site)),
];

impl<'p> Walk<'p> {
    /// Returns the array in the variable of an input slot, and the type of its members, if it has any.
    pub(super) fn array(
        &self,
        site: &Site<'_, 'p>,
        slot: &str,
    ) -> Step<(Value, Option<TensorType>)> {
        match self.read(site, slot)? {
            Bound::Array(value, element) => Ok((value, element)),
            _ => Err(format!("expected an array as `{slot}`").into()),
        }
    }

    /// Returns the index in the variable of an input slot, as a scalar.
    fn index(&mut self, site: &Site<'_, 'p>, slot: &str) -> Step<Value> {
        let (index, _) = self.tensor(site, slot)?;
        let index = self.graph.cast(&index, DType::Int64)?;
        Ok(self.graph.reshape(&index, &[])?)
    }

    /// Emits an operator that returns a sequence.
    fn sequence(&mut self, kind: &str, inputs: &[&Value], element: &TensorType) -> Outcome<Value> {
        let inputs: Vec<Option<&Value>> = inputs.iter().copied().map(Some).collect();
        let of = TensorType { shape: None, ..element.clone() };
        let list = ValueType::list(ValueType::Tensor(of)).map_err(|_| "the type is too deep")?;
        self.graph.emit_one(kind, &inputs, [], list)
    }
}

/// Writes a member, or appends one; the array grows by one member at a time.
fn write<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let (x, _) = walk.tensor(site, "X")?;
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let index = walk.index(site, "I")?;
    let mut element = x.value_type().tensor_type().cloned().unwrap_or_default();
    let array = match site.scope.find(name)?.cloned() {
        None => None,
        Some(Bound::Array(array, of)) => {
            if let Some(of) = &of {
                let both = [of, &element].map(|it| ValueType::Tensor(it.clone()));
                let common = common_type(&both[0], &both[1]).filter(|_| of.dtype == element.dtype);
                let common = common.as_ref().and_then(ValueType::tensor_type).cloned();
                element = common.ok_or_else(|| {
                    format!("expected members of {}, found {}", of.dtype, element.dtype)
                })?;
            }
            Some((array, of.is_none()))
        }
        Some(_) => return Err("expected an array as `Out`".into()),
    };
    let made = match array {
        None if index.info().ints().as_deref() == Some(&[0]) => {
            walk.sequence("SequenceConstruct", &[&x], &element)?
        }
        None => {
            let empty = walk.empty_sequence(element.dtype)?;
            walk.sequence("SequenceInsert", &[&empty, &x, &index], &element)?
        }
        Some((array, is_empty)) => {
            let array = match is_empty {
                true => array,
                false => walk.without(&array, &index, &element)?,
            };
            walk.sequence("SequenceInsert", &[&array, &x, &index], &element)?
        }
    };
    walk.set(site, name, Bound::Array(made, Some(element)))
}

impl Walk<'_> {
    /// Returns the array without the member at an index, if it has one.
    fn without(&mut self, array: &Value, index: &Value, element: &TensorType) -> Step<Value> {
        let length = self.graph.call("SequenceLength", &[array], [])?;
        let exists = self.graph.call("Less", &[index, &length], [])?;
        let (ops, erased) = self.apart("block", |walk| {
            Ok(walk.sequence("SequenceErase", &[array, index], element)?)
        })?;
        let made = self.either(&exists, (ops, vec![erased]), (Vec::new(), vec![array.clone()]))?;
        let lost = || Finding::internal("`If` has no result").into();
        made.into_iter().next().ok_or_else(lost)
    }
}

fn read<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let (array, element) = walk.array(site, "X")?;
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let index = walk.index(site, "I")?;
    let element = element.ok_or("the array has no members")?;
    let of = ValueType::Tensor(element);
    let made = walk.graph.emit_one("SequenceAt", &[Some(&array), Some(&index)], [], of)?;
    walk.bind(site, name, &made, Vec::new())
}

fn length<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let variable = site.op.input("X").first().ok_or("input `X` is missing")?;
    let empty = match site.scope.find(variable)? {
        None => walk.declared_array(site.at.block, variable)?,
        Some(_) => None,
    };
    let array = match empty {
        Some(Bound::Array(array, _)) => array,
        _ => walk.array(site, "X")?.0,
    };
    walk.graph.begin("lod_array_length");
    let length = walk.graph.call("SequenceLength", &[&array], [])?;
    let length = walk.graph.reshape(&length, &[1])?;
    walk.bind(site, name, &length, Vec::new())
}

/// Concatenates or stacks the members; the sizes of the members along the axis are a second output.
fn to_tensor<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let (array, element) = walk.array(site, "X")?;
    let axis = match site.op.attribute("axis") {
        Some(lodstone_model::AttributeValue::Int(axis)) => i64::from(*axis),
        _ => 0,
    };
    let stacks = site.op.attribute("use_stack");
    let stacks = matches!(stacks, Some(lodstone_model::AttributeValue::Bool(true)));
    let mut element = element.ok_or("the array has no members")?;
    if let Some(name) = walk.result(site, "OutIndex") {
        let sizes = sizes(walk, &array, &element, axis, stacks)?;
        walk.bind(site, name, &sizes, Vec::new())?;
    }
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    walk.graph.begin("tensor_array_to_tensor");
    let attributes = [int("axis", axis), int("new_axis", i64::from(stacks))];
    if let Some(dims) = &mut element.shape {
        let at = Rank::new(dims.len() + usize::from(stacks)).axis(axis)?.index();
        match stacks {
            true => dims.insert(at, Dim::Unknown),
            false => *at_mut(dims, at)? = Dim::Unknown,
        }
    }
    let of = ValueType::Tensor(element);
    let made = walk.graph.emit_one("ConcatFromSequence", &[Some(&array)], attributes, of)?;
    walk.bind(site, name, &made, Vec::new())
}

/// Returns the sizes of the members of an array along an axis, by a `Loop`.
fn sizes(
    walk: &mut Walk<'_>,
    array: &Value,
    element: &TensorType,
    axis: i64,
    stacks: bool,
) -> Step<Value> {
    let dims = element.shape.as_ref().ok_or("rank must be known")?;
    let at = Rank::new(dims.len() + usize::from(stacks)).axis(axis)?.number();
    let count = walk.graph.call("SequenceLength", &[array], [])?;
    let scalar = |dtype| ValueInfo::tensor(dtype, Some(Vec::new()));
    let number = walk.block_input("member", scalar(DType::Int64));
    let goes_on = walk.block_input("goes_on", scalar(DType::Bool));
    let (ops, results) = walk.apart("block", |walk| {
        let graph = &mut walk.graph;
        let of = ValueType::Tensor(element.clone());
        let member = graph.emit_one("SequenceAt", &[Some(array), Some(&number)], [], of)?;
        let dims = graph.call("Shape", &[&member], [])?;
        // Along an axis behind its last one, a member that is stacked has one element.
        let one = graph.longs(&[1]);
        let dims = graph.concat(&[&dims, &one], 0)?;
        let size = graph.gather_scalar(&dims, at)?;
        Ok([goes_on.clone(), graph.cast(&size, DType::Int32)?])
    })?;
    let block = walk.block("block", &[number, goes_on], ops, &results)?;
    let body = Attribute { name: "body".to_owned(), value: block };
    walk.graph.begin("tensor_array_to_tensor");
    let info = ValueInfo::tensor(DType::Int32, Some(vec![Dim::Unknown]));
    Ok(walk.graph.emit_one("Loop", &[Some(&count), None], [body], info)?)
}

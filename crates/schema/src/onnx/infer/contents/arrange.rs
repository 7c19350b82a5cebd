//! Elements that are moved, repeated or generated, but not computed.

use lodstone_model::{AttributeValue, Dim};

use super::super::dims::{axis_of, product};
use super::super::node::{Node, Numbers};
use super::super::reshape::shape_range;
use super::super::value::{Contents, Element, MAX_ELEMENTS, ValueInfo};
use super::{Array, Fold, count, dims_from};

pub(super) const FOLDS: &[(&str, Fold)] = &[
    ("Concat", concat),
    ("ConstantOfShape", filled),
    ("Expand", expand),
    ("Flatten", same),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("Identity", same),
    ("NonZero", non_zero),
    ("Range", range),
    ("Reshape", same),
    ("ScatterElements", scatter),
    ("ScatterND", scatter_nd),
    ("Shape", shape),
    ("Size", size),
    ("Slice", slice),
    ("Split", split),
    ("Squeeze", same),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Unsqueeze", same),
];

/// The same elements in the same order.
fn same(node: &mut Node<'_>) -> Option<()> {
    let contents = node.input(0)?.contents.clone()?;
    node.outputs.first_mut()?.contents = Some(contents);
    Some(())
}

fn shape(node: &mut Node<'_>) -> Option<()> {
    let shape = node.shape(0)?;
    let range = shape_range(node, shape.len());
    let elements = shape.get(range)?.iter().map(Element::of_dim).collect();
    node.set_contents(0, elements);
    Some(())
}

fn size(node: &mut Node<'_>) -> Option<()> {
    let size = product(node.shape(0)?);
    node.set_contents(0, vec![Element::of_dim(&size)]);
    Some(())
}

/// Returns the dims of an output whose type is set, if it has few elements.
fn output_dims(node: &Node<'_>) -> Option<Vec<usize>> {
    let dims = dims_from(node.outputs.first()?.shape()?)?;
    count(&dims)?;
    Some(dims)
}

fn filled(node: &mut Node<'_>) -> Option<()> {
    let count = count(&output_dims(node)?)?;
    let element = match node.attribute("value") {
        Some(AttributeValue::Tensor(value)) => ValueInfo::of(value).contents?.first()?.clone(),
        None => Element::Float(0.0),
        _ => return None,
    };
    node.set_contents(0, vec![element; count]);
    Some(())
}

fn expand(node: &mut Node<'_>) -> Option<()> {
    let elements = Array::of(node, 0)?.broadcast(&output_dims(node)?)?;
    node.set_contents(0, elements);
    Some(())
}

fn concat(node: &mut Node<'_>) -> Option<()> {
    let target = output_dims(node)?;
    let axis = axis_of(node.int_or("axis", 1), target.len()).ok()?;
    // Each input consists of contiguous chunks, which the output interleaves.
    let stretches = count(target.get(..axis)?)?;
    let mut all = Vec::new();
    for stretch in 0..stretches {
        for index in 0..node.inputs.len() {
            let input = Array::of_or_unknown(node, index)?;
            let length = count(input.dims.get(axis..)?)?;
            let start = stretch.checked_mul(length)?;
            match input.elements {
                [] => all.extend(std::iter::repeat_n(Element::Unknown, length)),
                elements => {
                    all.extend(elements.get(start..start.checked_add(length)?)?.iter().cloned())
                }
            }
        }
        if all.len() > MAX_ELEMENTS {
            return None;
        }
    }
    node.set_contents(0, all);
    Some(())
}

impl<'a> Array<'a> {
    /// Returns an input; its elements are unknown if they are not propagated.
    fn of_or_unknown(node: &Node<'a>, index: usize) -> Option<Self> {
        match Self::of(node, index) {
            Some(array) => Some(array),
            None => {
                let dims = dims_from(node.shape(index)?)?;
                count(&dims)?;
                Some(Self { elements: &[], dims })
            }
        }
    }
}

/// Returns the position of an index, which may count from the end.
fn place(index: i64, dim: usize) -> Option<usize> {
    axis_of(index, dim).ok()
}

fn gather(node: &mut Node<'_>) -> Option<()> {
    let data = Array::of(node, 0)?;
    let axis = axis_of(node.int_or("axis", 0), data.dims.len()).ok()?;
    let dim = *data.dims.get(axis)?;
    let indices = node.ints(1)?;
    let mut places = data.whole();
    *places.get_mut(axis)? =
        indices.into_iter().map(|index| place(index, dim)).collect::<Option<_>>()?;
    let elements = data.pick(&places)?;
    node.set_contents(0, elements);
    Some(())
}

/// Rank 1 only.
fn gather_elements(node: &mut Node<'_>) -> Option<()> {
    let data = Array::of(node, 0)?;
    let [dim] = data.dims.as_slice() else { return None };
    let indices = node.ints(1)?.into_iter().map(|index| place(index, *dim));
    let elements = data.pick(&[indices.collect::<Option<_>>()?])?;
    node.set_contents(0, elements);
    Some(())
}

/// Rank 1 only.
fn scatter(node: &mut Node<'_>) -> Option<()> {
    put(node, 1)
}

/// Rank 1 only: each index is a single value.
fn scatter_nd(node: &mut Node<'_>) -> Option<()> {
    match node.shape(1)? {
        [_, Dim::Known(1)] => put(node, 1),
        _ => None,
    }
}

fn put(node: &mut Node<'_>, indices: usize) -> Option<()> {
    let data = Array::of(node, 0)?;
    if data.dims.len() != 1 || !matches!(node.text("reduction"), None | Some(b"none")) {
        return None;
    }
    let (indices, updates) = (node.ints(indices)?, node.contents(2)?);
    let mut elements = data.elements.to_vec();
    if indices.len() != updates.len() {
        return None;
    }
    for (index, update) in indices.into_iter().zip(updates) {
        let place = place(index, elements.len())?;
        *elements.get_mut(place)? = update.clone();
    }
    node.set_contents(0, elements);
    Some(())
}

fn slice(node: &mut Node<'_>) -> Option<()> {
    let data = Array::of(node, 0)?;
    let list = |name: &str, index: usize| match node.ints_attribute(name) {
        Some(numbers) => Some(numbers.to_vec()),
        None => node.ints(index),
    };
    let (starts, ends) = (list("starts", 1)?, list("ends", 2)?);
    let axes = match node.numbers("axes", 3) {
        Numbers::Known(axes) => axes,
        Numbers::Absent => (0..i64::try_from(starts.len()).ok()?).collect(),
        Numbers::Unknown => return None,
    };
    let steps = if node.has(4) { node.ints(4)? } else { vec![1; starts.len()] };
    let mut places = data.whole();
    for (((axis, start), end), step) in axes.iter().zip(starts).zip(ends).zip(steps) {
        let axis = axis_of(*axis, data.dims.len()).ok()?;
        *places.get_mut(axis)? = steps_of(*data.dims.get(axis)?, start, end, step)?;
    }
    let elements = data.pick(&places)?;
    node.set_contents(0, elements);
    Some(())
}

/// Returns the positions from a start to an end.
fn steps_of(dim: usize, start: i64, end: i64, step: i64) -> Option<Vec<usize>> {
    let whole = i64::try_from(dim).ok()?;
    let from_end = |place: i64| if place < 0 { place.saturating_add(whole) } else { place };
    let (least, most) = if step > 0 { (0, whole) } else { (-1, whole - 1) };
    let mut at = from_end(start).clamp(0.min(most), most);
    let end = from_end(end).clamp(least, most);
    let mut places = Vec::new();
    // Each step is another position of the dim.
    while step != 0 && if step > 0 { at < end } else { at > end } {
        places.push(usize::try_from(at).ok()?);
        at = at.checked_add(step)?;
    }
    Some(places)
}

fn split(node: &mut Node<'_>) -> Option<()> {
    let data = Array::of(node, 0)?;
    let axis = axis_of(node.int_or("axis", 0), data.dims.len()).ok()?;
    let mut start = 0usize;
    for index in 0..node.outputs.len() {
        let size = *dims_from(node.outputs.get(index)?.shape()?)?.get(axis)?;
        let mut places = data.whole();
        let end = start.checked_add(size)?;
        *places.get_mut(axis)? = (start..end).collect();
        start = end;
        let elements = data.pick(&places)?;
        node.set_contents(index, elements);
    }
    Some(())
}

fn tile(node: &mut Node<'_>) -> Option<()> {
    let (data, target) = (Array::of(node, 0)?, output_dims(node)?);
    let places = data.dims.iter().zip(&target);
    let places: Vec<Vec<usize>> =
        places.map(|(own, wanted)| (0..*wanted).map(|at| at % (*own).max(1)).collect()).collect();
    let elements = data.pick(&places)?;
    node.set_contents(0, elements);
    Some(())
}

fn transpose(node: &mut Node<'_>) -> Option<()> {
    let data = Array::of(node, 0)?;
    let rank = data.dims.len();
    let perm: Vec<usize> = match node.ints_attribute("perm") {
        Some(perm) => perm.iter().map(|axis| axis_of(*axis, rank).ok()).collect::<Option<_>>()?,
        None => (0..rank).rev().collect(),
    };
    if perm.len() != rank {
        return None;
    }
    // The stride along each axis.
    let stride = |axis: usize| data.dims.get(axis + 1..).map(|rest| rest.iter().product());
    let mut offsets = vec![0usize];
    for axis in perm {
        let (dim, stride): (usize, usize) = (*data.dims.get(axis)?, stride(axis)?);
        offsets = offsets
            .into_iter()
            .flat_map(|offset| (0..dim).map(move |at| offset + at * stride))
            .collect();
    }
    let elements: Option<Vec<_>> =
        offsets.into_iter().map(|offset| data.elements.get(offset).cloned()).collect();
    node.set_contents(0, elements?);
    Some(())
}

fn range(node: &mut Node<'_>) -> Option<()> {
    let [count] = output_dims(node)?.try_into().ok()?;
    let (start, delta) = (node.int(0)?, node.int(2)?);
    let number = |at: usize| {
        let step = delta.checked_mul(i64::try_from(at).ok()?)?;
        start.checked_add(step).map(Element::Int)
    };
    let elements: Option<Vec<_>> = (0..count).map(number).collect();
    node.set_contents(0, elements?);
    Some(())
}

/// Output: [rank, number of elements that are not zero].
fn non_zero(node: &mut Node<'_>) -> Option<()> {
    let data = Array::of(node, 0)?;
    let mut found: Vec<usize> = Vec::new();
    for (place, element) in data.elements.iter().enumerate() {
        if element.number()? != 0.0 {
            found.push(place);
        }
    }
    if found.len().checked_mul(data.dims.len())? > MAX_ELEMENTS {
        return None;
    }
    let mut all = Vec::new();
    for axis in 0..data.dims.len() {
        let stride: usize = data.dims.get(axis + 1..)?.iter().product();
        let dim = *data.dims.get(axis)?;
        for place in &found {
            let index = place.checked_div(stride)?.checked_rem(dim)?;
            all.push(Element::Int(i64::try_from(index).ok()?));
        }
    }
    node.outputs.first_mut()?.contents = Some(Contents::from(all));
    Some(())
}

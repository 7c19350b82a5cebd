//! Indexing: gathering, scattering, slicing, selecting and sorting elements.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, axes_of, axis_of, merged, product, show};
use super::elementwise::same;
use super::node::{Node, Numbers, Outcome};
use super::value::Element;
use crate::Finding;
use crate::numbers::length;
use crate::places::at_mut;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Compress", compress),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("NonZero", non_zero),
    ("OneHot", one_hot),
    ("ReverseSequence", reverse),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("Slice", slice),
    ("TensorScatter", cache),
    ("TopK", top),
    ("Trilu", triangle),
    ("Unique", unique),
];

/// The dims of the indices replace the axis.
fn gather(node: &mut Node<'_>) -> Outcome {
    let shape = match node.at_least(0, 1)? {
        Some(data) => {
            let axis = node.axis("axis", 0, data.len())?;
            node.shape(1).map(|indices| {
                let (before, after) = data.split_at(axis.min(data.len()));
                let after = after.iter().skip(1);
                before.iter().chain(indices).chain(after).cloned().collect()
            })
        }
        None => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn gather_elements(node: &mut Node<'_>) -> Outcome {
    let indices = node.shape(1);
    if let (Some(data), Some(indices)) = (node.shape(0), indices) {
        node.axis("axis", 0, data.len())?;
        same_rank(data, indices)?;
    }
    node.tensor(0, node.dtype(0), indices.map(<[Dim]>::to_vec));
    Ok(())
}

fn same_rank(data: &[Dim], indices: &[Dim]) -> Outcome {
    match data.len() == indices.len() {
        true => Ok(()),
        false => {
            let (expected, found) = (data.len(), show(indices));
            Err(format!("expected {expected} dims of the indices, found {found}").into())
        }
    }
}

/// The last dim of the indices is the number of leading dims of the data that each of them indexes.
fn gather_nd(node: &mut Node<'_>) -> Outcome {
    let (data, indices) = (node.at_least(0, 1)?, node.at_least(1, 1)?);
    let shape = match (data, indices) {
        (Some(data), Some([rest @ .., Dim::Known(depth)])) => {
            let shared = node.int_or("batch_dims", 0);
            let depth = usize::try_from(*depth).ok();
            let taken = usize::try_from(shared).ok().zip(depth);
            let taken = taken.and_then(|(shared, depth)| shared.checked_add(depth));
            let left = taken.and_then(|taken| data.get(taken..)).ok_or_else(|| {
                format!(
                    "expected indices into {}, found {}",
                    show(data),
                    show(indices.unwrap_or_default())
                )
            })?;
            Some(rest.iter().chain(left).cloned().collect())
        }
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn scatter_elements(node: &mut Node<'_>) -> Outcome {
    node.same_dtype([0, 2])?;
    if let Some(data) = node.shape(0) {
        node.axis("axis", 0, data.len())?;
        if let Some(indices) = node.shape(1) {
            same_rank(data, indices)?;
        }
    }
    same(node)
}

/// The updates are [indices.., remaining dims of the data..].
fn scatter_nd(node: &mut Node<'_>) -> Outcome {
    node.same_dtype([0, 2])?;
    if let (Some(data), Some([rest @ .., Dim::Known(depth)])) = (node.shape(0), node.shape(1)) {
        let left = usize::try_from(*depth).ok().and_then(|depth| data.get(depth..));
        let left = left.ok_or_else(|| {
            format!("expected indices of at most {} values each, found {depth}", data.len())
        })?;
        let expected: Vec<Dim> = rest.iter().chain(left).cloned().collect();
        if let Some(updates) = node.shape(2)
            && super::dims::merged_shapes(&expected, updates).is_none()
        {
            return Err(format!(
                "expected updates of {}, found {}",
                show(&expected),
                show(updates)
            )
            .into());
        }
    }
    same(node)
}

fn cache(node: &mut Node<'_>) -> Outcome {
    node.same_dtype([0, 1])?;
    if let Some(shape) = node.shape(0) {
        let axis = node.axis("axis", -2, shape.len())?;
        if axis == 0 {
            let wrong = "expected an axis other than the batch axis, found the first";
            return Err(Finding::from(wrong).about_attribute("axis"));
        }
        let mut cached = shape.to_vec();
        *at_mut(&mut cached, axis)? = Dim::Unknown;
        node.unify(1, &mut cached.iter_mut().collect::<Vec<_>>())?;
        if let Some(batch) = cached.first_mut() {
            node.unify(2, &mut [batch])?;
        }
    }
    same(node)
}

fn reverse(node: &mut Node<'_>) -> Outcome {
    node.at_least(0, 2)?;
    node.ranked(1, 1)?;
    same(node)
}

fn triangle(node: &mut Node<'_>) -> Outcome {
    node.at_least(0, 2)?;
    same(node)
}

/// Starts, ends, axes and steps are attributes before version 10.
fn slice(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype(0);
    let shape = match node.shape(0) {
        Some(shape) => Some(sliced(node, shape)?),
        None => None,
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

fn sliced(node: &Node<'_>, shape: &[Dim]) -> Checked<Vec<Dim>> {
    let unknown = vec![Dim::Unknown; shape.len()];
    let list = |name: &str, index: usize| -> Option<Vec<Element>> {
        match node.ints_attribute(name) {
            Some(numbers) => Some(numbers.iter().copied().map(Element::Int).collect()),
            None => node.contents(index).map(<[Element]>::to_vec),
        }
    };
    let (starts, ends) = (list("starts", 1), list("ends", 2));
    let count = [&starts, &ends].into_iter().flatten().map(Vec::len).next();
    let count = count.or(match node.shape(1).or(node.shape(2)) {
        Some([Dim::Known(count)]) => usize::try_from(*count).ok(),
        _ => None,
    });
    let axes = match (node.numbers("axes", 3), count) {
        (Numbers::Known(axes), _) => axes,
        (Numbers::Absent, Some(count)) => (0..length(count.min(shape.len()))).collect(),
        _ => return Ok(unknown),
    };
    // Before version 10, repeated axes are sliced one after the other.
    if node.opset >= 10 {
        axes_of(&axes, shape.len())?;
    }
    let lengths = [&starts, &ends].into_iter().flatten().map(Vec::len).chain(count);
    if let Some(found) = lengths.into_iter().find(|count| *count != axes.len()) {
        return Err(
            format!("expected starts and ends for {} axes, found {found}", axes.len()).into()
        );
    }
    let steps = match node.has(4) {
        true => list("steps", 4),
        false => Some(vec![Element::Int(1); axes.len()]),
    };
    let mut result = shape.to_vec();
    for (at, axis) in axes.iter().enumerate() {
        let of = |list: &Option<Vec<Element>>| {
            list.as_ref().and_then(|list| list.get(at)).cloned().unwrap_or(Element::Unknown)
        };
        let place = axis_of(*axis, shape.len())?;
        let dim = at_mut(&mut result, place)?;
        *dim = cut(dim, &of(&starts), &of(&ends), &of(&steps))?;
    }
    Ok(result)
}

/// Returns the size of a slice of a dim.
fn cut(size: &Dim, start: &Element, end: &Element, step: &Element) -> Checked<Dim> {
    use Element as E;
    /// The end that exporters write for "to the end", whatever the dim.
    const FAR: i64 = i32::MAX as i64;
    match (size, start, end, step) {
        (.., E::Int(0)) => Err("expected a step other than 0".into()),
        (Dim::Known(size), E::Int(start), E::Int(end), E::Int(step)) => {
            let whole = i128::from(*size);
            let from_end = |place: i64| {
                let place = i128::from(place);
                if place < 0 { place + whole } else { place }
            };
            let step = i128::from(*step);
            let (least, most) = if step > 0 { (0, whole) } else { (-1, whole - 1) };
            let start = from_end(*start).clamp(least.max(0).min(most), most);
            let end = from_end(*end).clamp(least, most);
            let span = if step > 0 { end - start } else { start - end };
            let count = if span <= 0 { 0 } else { (span + step.abs() - 1) / step.abs() };
            Ok(u64::try_from(count).map_or(Dim::Unknown, Dim::Known))
        }
        (dim, E::Int(0), E::Int(FAR..), E::Int(1)) => Ok(dim.clone()),
        (Dim::Symbol(name), E::Int(0), E::Symbol(end), E::Int(1)) if name == end => {
            Ok(size.clone())
        }
        // The slice may be empty.
        (_, E::Int(start), E::Int(end), E::Int(1)) if start == end => Ok(Dim::Known(0)),
        _ => Ok(Dim::Unknown),
    }
}

/// Selects the elements for which a condition is true.
fn compress(node: &mut Node<'_>) -> Outcome {
    node.ranked(1, 1)?;
    let Some(data) = node.at_least(0, 1)? else {
        let shape = node.int_attribute("axis").is_none().then(|| vec![Dim::Unknown]);
        node.tensor(0, node.dtype(0), shape);
        return Ok(());
    };
    let (mut shape, place) = match node.int_attribute("axis") {
        None => (vec![product(data)], 0),
        Some(axis) => (data.to_vec(), axis_of(axis, data.len())?),
    };
    if let Some(dim) = shape.get_mut(place) {
        let all = match dim {
            Dim::Known(all) => usize::try_from(*all).ok(),
            _ => None,
        };
        // The condition may be longer or shorter than the input.
        let kept = node.ints(1).zip(all).map(|(condition, all)| {
            condition.iter().take(all).filter(|number| **number != 0).count()
        });
        *dim = kept.map_or(Dim::Unknown, |kept| Dim::Known(kept as u64));
    }
    node.tensor(0, node.dtype(0), Some(shape));
    Ok(())
}

/// Output: [rank of the input, number of elements that are not zero].
fn non_zero(node: &mut Node<'_>) -> Outcome {
    let rank = node.shape(0).map_or(Dim::Unknown, |shape| Dim::Known(shape.len() as u64));
    let count = match node.contents(0) {
        Some(elements) => {
            let known: Option<Vec<f64>> = elements.iter().map(Element::number).collect();
            known.map(|numbers| numbers.iter().filter(|number| **number != 0.0).count() as u64)
        }
        None => None,
    };
    let count = count.map_or(Dim::Unknown, Dim::Known);
    node.tensor(0, DType::Int64, Some(vec![rank, count]));
    Ok(())
}

fn one_hot(node: &mut Node<'_>) -> Outcome {
    let several =
        |shape: &&[Dim]| !matches!(shape, [] | [Dim::Known(0 | 1) | Dim::Symbol(_) | Dim::Unknown]);
    if let Some(depth) = node.shape(1).filter(several) {
        return Err(format!("expected a depth of one element, found {}", show(depth)).into());
    }
    if let Some([values]) = node.ranked(2, 1)?
        && merged(values, &Dim::Known(2)).is_none()
    {
        return Err(format!("expected two values, off and on, found {values}").into());
    }
    if let Some(found) = negative(node.contents(0)).filter(|_| node.opset < 11) {
        let wrong = format!("expected indices of at least 0 before version 11, found {found}");
        return Err(Finding::from(wrong).about_input(0));
    }
    let shape = match node.at_least(0, 1)? {
        Some(indices) => {
            let place = node.axis("axis", -1, indices.len().saturating_add(1))?;
            let depth = match node.contents(1) {
                Some([Element::Float(depth)]) => match whole(*depth) {
                    Some(depth) => Element::Int(depth),
                    None => Element::Unknown,
                },
                Some([depth]) => depth.clone(),
                _ => Element::Unknown,
            };
            let depth = depth.dim().ok_or("expected a depth of at least 0")?;
            let mut shape = indices.to_vec();
            shape.insert(place.min(indices.len()), depth);
            Some(shape)
        }
        None => None,
    };
    node.tensor(0, node.dtype(2), shape);
    Ok(())
}

/// Returns the first negative element.
fn negative(elements: Option<&[Element]>) -> Option<f64> {
    elements?.iter().filter_map(Element::number).find(|number| *number < 0.0)
}

/// Converts a float without a fraction to an integer.
#[expect(clippy::cast_possible_truncation, reason = "it is within 52 bits")]
pub(super) fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 4_503_599_627_370_496.0;
    (number.abs() <= EXACT).then_some(number.trunc() as i64)
}

fn top(node: &mut Node<'_>) -> Outcome {
    if let Some([count]) = node.ranked(1, 1)?
        && merged(count, &Dim::Known(1)).is_none()
    {
        return Err(format!("expected one value in `K`, found {count}").into());
    }
    let shape = match node.at_least(0, 1)? {
        Some(shape) => {
            let place = node.axis("axis", -1, shape.len())?;
            let count = match (node.int_attribute("k"), node.contents(1)) {
                (Some(count), _) => Element::Int(count),
                (None, Some([count])) => count.clone(),
                _ => Element::Unknown,
            };
            let count = count.dim().ok_or("expected a number of at least 0 in `k`")?;
            let mut shape = shape.to_vec();
            if let Some(size) = shape.get_mut(place) {
                if let (Dim::Known(all), Dim::Known(count)) = (&*size, &count)
                    && count > all
                {
                    return Err(format!("expected at most {all} in `k`, found {count}").into());
                }
                *size = count;
            }
            Some(shape)
        }
        None => None,
    };
    node.tensor(0, node.dtype(0), shape.clone());
    node.tensor(1, DType::Int64, shape);
    Ok(())
}

fn unique(node: &mut Node<'_>) -> Outcome {
    let shape = match (node.shape(0), node.int_attribute("axis")) {
        (_, None) => Some(vec![Dim::Unknown]),
        (Some(shape), Some(axis)) => {
            let place = axis_of(axis, shape.len())?;
            let dims = shape.iter().enumerate();
            Some(dims.map(|(at, d)| if at == place { Dim::Unknown } else { d.clone() }).collect())
        }
        (None, Some(_)) => None,
    };
    node.tensor(0, node.dtype(0), shape);
    (1..4).for_each(|index| node.tensor(index, DType::Int64, Some(vec![Dim::Unknown])));
    Ok(())
}

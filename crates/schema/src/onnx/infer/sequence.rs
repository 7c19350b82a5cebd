//! Sequences, optional values, and operators on values of any kind.

use lodstone_model::{AttributeValue, DType, Dim, TensorType, ValueType};

use super::Rule;
use super::dims::{axis_of, common_type, merged_types, show_type};
use super::node::{Node, Outcome, in_optional, optional_of, sequence_of};
use super::value::{UNDEFINED, ValueInfo};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ConcatFromSequence", concat),
    ("Identity", identity),
    ("Optional", optional),
    ("OptionalGetElement", get),
    ("OptionalHasElement", has),
    ("SequenceAt", at),
    ("SequenceConstruct", construct),
    ("SequenceEmpty", empty),
    ("SequenceErase", erase),
    ("SequenceInsert", insert),
    ("SequenceLength", length),
    ("SplitToSequence", split),
];

fn identity(node: &mut Node<'_>) -> Outcome {
    node.like(0, 0);
    Ok(())
}

/// A sequence of the common type of several tensors.
fn construct(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let dtype = node.same_dtype(0..node.inputs.len())?;
    let mut common: Option<ValueType> = None;
    for input in node.inputs.iter().flatten() {
        common = match common {
            None => Some(input.value.clone()),
            Some(before) => common_type(&before, &input.value),
        };
        if common.is_none() {
            break;
        }
    }
    let unknown = || ValueInfo::tensor(dtype, None).value;
    let element =
        common.filter(|common| matches!(common, ValueType::Tensor(_))).unwrap_or_else(unknown);
    node.set(0, sequence_of(element)?.into());
    Ok(())
}

fn empty(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype_attribute("dtype")?.unwrap_or(DType::Float32);
    let element = ValueInfo::tensor(dtype, None).value;
    node.set(0, sequence_of(element)?.into());
    Ok(())
}

fn at(node: &mut Node<'_>) -> Outcome {
    if let Some(element) = node.sequence(0)? {
        node.set(0, element.into());
    }
    Ok(())
}

fn erase(node: &mut Node<'_>) -> Outcome {
    node.sequence(0)?;
    node.like(0, 0);
    Ok(())
}

fn insert(node: &mut Node<'_>) -> Outcome {
    let (element, new) = (node.sequence(0)?, node.input(1));
    let Some(new) = new.filter(|new| !new.is_unknown()) else {
        let open = element.map(|mut element| {
            element.tensors_mut().into_iter().for_each(|tensor| tensor.shape = None);
            element
        });
        if let Some(element) = open {
            node.set(0, sequence_of(element)?.into());
        }
        return Ok(());
    };
    let element = match element {
        Some(element) => {
            let dtypes = |value: &ValueType| value.tensor_type().map_or(UNDEFINED, |t| t.dtype);
            let (expected, found) = (dtypes(&element), dtypes(&new.value));
            if expected != found && expected != UNDEFINED && found != UNDEFINED {
                return Err(Finding::from(format!(
                    "expected {expected} in input 1, found {found}"
                ))
                .about_input(1));
            }
            common_type(&element, &new.value).ok_or_else(|| {
                let (expected, found) = (show_type(&element), show_type(&new.value));
                format!("expected {expected} in input 1, found {found}")
            })?
        }
        None => ValueInfo::tensor(new.dtype(), None).value,
    };
    node.set(0, sequence_of(element)?.into());
    Ok(())
}

fn length(node: &mut Node<'_>) -> Outcome {
    node.sequence(0)?;
    node.known(0, DType::Int64, &[]);
    Ok(())
}

/// Concatenates tensors along an axis, or stacks them along a new one.
fn concat(node: &mut Node<'_>) -> Outcome {
    let axis = node.int_attribute("axis").ok_or("expected an `axis`, found none")?;
    if let Some(new) = node.int_attribute("new_axis").filter(|new| !matches!(new, 0 | 1)) {
        let wrong = format!("expected 0 or 1 in `new_axis`, found {new}");
        return Err(Finding::from(wrong).about_attribute("new_axis"));
    }
    let Some(element) = node.sequence(0)? else { return Ok(()) };
    let Some(TensorType { dtype, shape, .. }) = element.tensor_type().cloned() else {
        return Ok(());
    };
    let shape = match shape {
        Some(mut shape) => {
            let new = node.flag("new_axis");
            let place = axis_of(axis, shape.len().saturating_add(usize::from(new)))?;
            match shape.get_mut(place) {
                Some(dim) if !new => *dim = Dim::Unknown,
                _ => shape.insert(place, Dim::Unknown),
            }
            Some(shape)
        }
        None => None,
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

/// Parts along an axis: of given sizes, of one size, or of size 1, whose dim may be removed.
fn split(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let shape = match node.shape(0) {
        Some(shape) => {
            let place = node.axis("axis", 0, shape.len())?;
            let keep = node.int_attribute("keepdims").is_none_or(|keep| keep != 0);
            let whole = shape.get(place).cloned().unwrap_or(Dim::Unknown);
            let mut shape = shape.to_vec();
            let size = match (node.has(1), node.ints(1), node.shape(1)) {
                (false, ..) => Some(Dim::Known(1)),
                // All parts have the same size if it divides the dim.
                (true, Some(sizes), Some([])) => match (sizes.as_slice(), &whole) {
                    ([size], Dim::Known(whole)) if *size > 0 => {
                        let size = u64::try_from(*size).ok();
                        let even = size.filter(|size| whole % size == 0);
                        Some(even.map_or(Dim::Unknown, Dim::Known))
                    }
                    ([size], _) if *size <= 0 => {
                        return Err("expected parts of at least 1".into());
                    }
                    _ => Some(Dim::Unknown),
                },
                (true, Some(sizes), _) if !makes_up(&sizes, &whole) => {
                    return Err(
                        format!("expected sizes with the sum {whole}, found {sizes:?}").into()
                    );
                }
                (true, Some(sizes), _) if sizes.is_empty() => {
                    return Err(Finding::from("expected sizes, found none").about_input(1));
                }
                (true, Some(sizes), _) => match sizes.split_first() {
                    Some((first, rest)) if rest.iter().all(|size| size == first) => {
                        Some(u64::try_from(*first).map_or(Dim::Unknown, Dim::Known))
                    }
                    _ => Some(Dim::Unknown),
                },
                _ => Some(Dim::Unknown),
            };
            if let (Some(dim), Some(size)) = (shape.get_mut(place), size) {
                *dim = size;
            }
            if !keep && !node.has(1) && place < shape.len() {
                shape.remove(place);
            }
            Some(shape)
        }
        None => None,
    };
    let element = ValueInfo::tensor(node.dtype(0), shape).value;
    node.set(0, sequence_of(element)?.into());
    Ok(())
}

/// Whether sizes of parts add up to the whole, as far as it is known.
fn makes_up(sizes: &[i64], whole: &Dim) -> bool {
    let all = sizes.iter().try_fold(0u64, |all, size| all.checked_add(u64::try_from(*size).ok()?));
    match (all, whole) {
        (Some(all), Dim::Known(whole)) => all == *whole,
        (all, _) => all.is_some(),
    }
}

/// An optional value; without an input, its type is an attribute.
fn optional(node: &mut Node<'_>) -> Outcome {
    let declared = match node.attribute("type") {
        Some(AttributeValue::Type(declared)) => Some(declared),
        _ => None,
    };
    let element = match (node.input(0), declared) {
        (Some(input), Some(declared)) => merged_types(declared, &input.value).ok_or_else(|| {
            let (expected, found) = (show_type(declared), show_type(&input.value));
            format!("expected {expected} by `type`, found {found}")
        })?,
        (Some(input), None) => input.value.clone(),
        (None, Some(declared)) => (**declared).clone(),
        (None, None) => return Err("expected an input or a `type`, found neither".into()),
    };
    if element != ValueType::Unspecified {
        node.set(0, optional_of(element)?.into());
    }
    Ok(())
}

/// The element of an optional value; other values are passed through.
fn get(node: &mut Node<'_>) -> Outcome {
    let Some(input) = node.input(0) else { return Err("expected an input".into()) };
    match in_optional(Some(input)) {
        Ok(Some(element)) => node.set(0, element.into()),
        Ok(None) => {}
        Err(found) if node.opset < 18 => {
            let found = show_type(found);
            return Err(format!("expected an optional value, found {found}").into());
        }
        Err(_) => node.like(0, 0),
    }
    Ok(())
}

fn has(node: &mut Node<'_>) -> Outcome {
    node.known(0, DType::Bool, &[]);
    Ok(())
}

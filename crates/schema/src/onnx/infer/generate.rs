//! Tensors that are generated from shapes, ranges and seeds.

use lodstone_model::{AttributeValue, DType, Dim};

use super::Rule;
use super::dims::show;
use super::indexing::whole;
use super::node::{Node, Outcome};
use super::reshape::list_of;
use super::value::{Contents, Element, UNDEFINED, ValueInfo};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Constant", constant),
    ("ConstantOfShape", filled),
    ("EyeLike", eye),
    ("Multinomial", multinomial),
    ("RandomNormal", random),
    ("RandomNormalLike", random_like),
    ("RandomUniform", random),
    ("RandomUniformLike", random_like),
    ("Range", range),
];

/// The value of exactly one of several attributes.
fn constant(node: &mut Node<'_>) -> Outcome {
    use AttributeValue as A;
    const NAMES: [&str; 8] = [
        "value",
        "sparse_value",
        "value_float",
        "value_floats",
        "value_int",
        "value_ints",
        "value_string",
        "value_strings",
    ];
    let mut all = NAMES.iter().filter_map(|name| node.attribute(name));
    let (given, other) = (all.next(), all.next());
    if other.is_some() {
        return Err("expected one value, found several".into());
    }
    let list = |count: usize| vec![Dim::Known(count as u64)];
    let elements = |dtype, elements: Vec<Element>, shape| {
        let mut info = ValueInfo::tensor(dtype, Some(shape));
        let few = elements.len() <= super::value::MAX_ELEMENTS;
        info.contents = few.then(|| Contents::from(elements));
        info
    };
    let info = match given {
        Some(A::Tensor(tensor)) => ValueInfo::of(tensor),
        // Constants are dense, whatever their encoding.
        Some(A::SparseTensor(tensor)) => {
            let shape = tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect();
            ValueInfo::tensor(tensor.dtype, Some(shape))
        }
        Some(A::Float(number)) => {
            elements(DType::Float32, vec![Element::Float(f64::from(*number))], Vec::new())
        }
        Some(A::Floats(numbers)) => {
            let all = numbers.iter().take(super::value::MAX_ELEMENTS + 1);
            let all = all.map(|number| Element::Float(f64::from(*number))).collect();
            let mut info = elements(DType::Float32, all, list(numbers.len()));
            info.contents = info.contents.filter(|all| all.len() == numbers.len());
            info
        }
        Some(A::Long(number)) => elements(DType::Int64, vec![Element::Int(*number)], Vec::new()),
        Some(A::Longs(numbers)) => {
            let all = numbers.iter().take(super::value::MAX_ELEMENTS + 1);
            let all = all.map(|number| Element::Int(*number)).collect();
            let mut info = elements(DType::Int64, all, list(numbers.len()));
            info.contents = info.contents.filter(|all| all.len() == numbers.len());
            info
        }
        Some(A::String(_)) => ValueInfo::tensor(DType::String, Some(Vec::new())),
        Some(A::Strings(texts)) => ValueInfo::tensor(DType::String, Some(list(texts.len()))),
        // In a function, the attribute may be bound by the call.
        _ if node.op.attributes.is_empty() => {
            return Err("expected a value, found none".into());
        }
        _ => ValueInfo::default(),
    };
    node.set(0, info);
    Ok(())
}

/// A tensor whose shape is an input, filled with an attribute; the default is zero.
fn filled(node: &mut Node<'_>) -> Outcome {
    let dtype = match node.attribute("value") {
        Some(AttributeValue::Tensor(tensor)) => match tensor.shape.as_slice() {
            [1] => tensor.dtype,
            found => {
                let wrong = format!("expected `value` of the shape [1], found {found:?}");
                return Err(Finding::from(wrong).about_attribute("value"));
            }
        },
        _ => DType::Float32,
    };
    let shape = dims_from(node, 0)?;
    node.tensor(0, dtype, shape);
    Ok(())
}

/// Reads dims from an input; none may be negative.
pub(super) fn dims_from(node: &Node<'_>, index: usize) -> Result<Option<Vec<Dim>>, Finding> {
    let Some(elements) = list_of(node, index)? else { return Ok(None) };
    let dims: Option<Vec<_>> = elements.iter().map(Element::dim).collect();
    let dims = dims.ok_or_else(|| {
        format!("expected dims of at least 0 in input {index}, found a negative one")
    })?;
    Ok(Some(dims))
}

fn eye(node: &mut Node<'_>) -> Outcome {
    let shape = node.ranked(0, 2)?.map(<[Dim]>::to_vec);
    let dtype = node.dtype_attribute("dtype")?.unwrap_or(node.dtype(0));
    node.tensor(0, dtype, shape);
    Ok(())
}

/// Reads a floating-point type from `dtype`.
fn fractional(node: &Node<'_>, default: DType) -> Result<DType, Finding> {
    match node.dtype_attribute("dtype")? {
        Some(dtype) if !dtype.is_float() => {
            Err(Finding::from(format!("expected a floating-point type in `dtype`, found {dtype}"))
                .about_attribute("dtype"))
        }
        dtype => Ok(dtype.unwrap_or(default)),
    }
}

fn random(node: &mut Node<'_>) -> Outcome {
    let dtype = fractional(node, DType::Float32)?;
    let shape = node.ints_attribute("shape").ok_or("expected a `shape`, found none")?;
    let dims: Option<Vec<_>> =
        shape.iter().map(|dim| u64::try_from(*dim).ok().map(Dim::Known)).collect();
    let dims = dims.ok_or("expected dims of at least 0 in `shape`, found a negative one")?;
    node.tensor(0, dtype, Some(dims));
    Ok(())
}

fn random_like(node: &mut Node<'_>) -> Outcome {
    let dtype = fractional(node, node.dtype(0))?;
    let shape = node.shape(0).map(<[Dim]>::to_vec);
    node.tensor(0, dtype, shape);
    Ok(())
}

/// [batch, classes] to [batch, samples]
fn multinomial(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype_attribute("dtype")?.unwrap_or(DType::Int32);
    let samples = node.int_or("sample_size", 1);
    let samples = u64::try_from(samples)
        .map_err(|_| format!("expected a `sample_size` of at least 0, found {samples}"))?;
    let batch = match node.ranked(0, 2)? {
        Some([batch, _]) => batch.clone(),
        _ => Dim::Unknown,
    };
    node.tensor(0, dtype, Some(vec![batch, Dim::Known(samples)]));
    Ok(())
}

fn range(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..3)?;
    for index in 0..3 {
        if let Some(shape) = node.shape(index)
            && !(shape.is_empty() || shape == [Dim::Known(1)])
        {
            return Err(Finding::from(format!(
                "expected scalars, found {} in input {index}",
                show(shape)
            ))
            .about_input(index));
        }
    }
    let count = match (node.contents(0), node.contents(1), node.contents(2)) {
        (Some([start]), Some([limit]), Some([delta])) => count(start, limit, delta)?,
        _ => Dim::Unknown,
    };
    node.tensor(0, dtype, Some(vec![count]));
    Ok(())
}

/// Returns the number of steps from a start to a limit.
fn count(start: &Element, limit: &Element, delta: &Element) -> Result<Dim, Finding> {
    use Element as E;
    match (start, limit, delta) {
        (.., E::Int(0)) => Err("expected a step other than 0".into()),
        (E::Int(start), E::Int(limit), E::Int(delta)) => {
            let (span, delta) = (i128::from(*limit) - i128::from(*start), i128::from(*delta));
            let count = if span.signum() != delta.signum() {
                0
            } else {
                (span.abs() + delta.abs() - 1) / delta.abs()
            };
            Ok(u64::try_from(count).map_or(Dim::Unknown, Dim::Known))
        }
        (E::Int(0), E::Symbol(_), E::Int(1)) => Ok(limit.dim().unwrap_or(Dim::Unknown)),
        _ => match (start.number(), limit.number(), delta.number()) {
            (Some(start), Some(limit), Some(delta)) => {
                let count = ((limit - start) / delta).ceil().max(0.0);
                let count = whole(count).and_then(|count| u64::try_from(count).ok());
                Ok(count.map_or(Dim::Unknown, Dim::Known))
            }
            _ => Ok(Dim::Unknown),
        },
    }
}

/// Reads an element type from an attribute, or returns the default.
pub(super) fn dtype_or(node: &Node<'_>, name: &str, default: DType) -> Result<DType, Finding> {
    Ok(node.dtype_attribute(name)?.filter(|dtype| *dtype != UNDEFINED).unwrap_or(default))
}

//! Element-wise operators: unary, or broadcast over several inputs.

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{broadcast, merged_shapes, show};
use super::node::{Node, Outcome};
use super::value::UNDEFINED;
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Abs", same),
    ("Acos", same),
    ("Acosh", same),
    ("Asin", same),
    ("Asinh", same),
    ("Atan", same),
    ("Atanh", same),
    ("BitwiseNot", same),
    ("Ceil", same),
    ("Celu", same),
    ("Clip", clip),
    ("Cos", same),
    ("Cosh", same),
    ("Elu", same),
    ("Erf", same),
    ("Exp", same),
    ("Floor", same),
    ("Gelu", same),
    ("HardSigmoid", same),
    ("HardSwish", same),
    ("LeakyRelu", same),
    ("Log", same),
    ("Mish", same),
    ("Neg", same),
    ("Not", same),
    ("Reciprocal", same),
    ("Relu", same),
    ("Round", same),
    ("Selu", same),
    ("Shrink", same),
    ("Sigmoid", same),
    ("Sign", same),
    ("Sin", same),
    ("Sinh", same),
    ("Softplus", same),
    ("Softsign", same),
    ("Sqrt", same),
    ("Swish", same),
    ("Tan", same),
    ("Tanh", same),
    ("ThresholdedRelu", same),
    ("IsInf", truth),
    ("IsNaN", truth),
    ("Bernoulli", typed),
    ("BitCast", bit_cast),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Dropout", dropout),
    ("PRelu", slope),
    ("SwiGLU", gated),
    ("Add", binary),
    ("BitShift", binary),
    ("BitwiseAnd", binary),
    ("BitwiseOr", binary),
    ("BitwiseXor", binary),
    ("Div", binary),
    ("Mod", binary),
    ("Mul", binary),
    ("Pow", power),
    ("Sub", binary),
    ("And", compare),
    ("Equal", compare),
    ("Greater", compare),
    ("GreaterOrEqual", compare),
    ("Less", compare),
    ("LessOrEqual", compare),
    ("Or", compare),
    ("Xor", compare),
    ("Max", variadic),
    ("Mean", variadic),
    ("Min", variadic),
    ("Sum", variadic),
    ("Where", choose),
];

/// The output has the type of the first input.
pub(super) fn same(node: &mut Node<'_>) -> Outcome {
    node.like(0, 0);
    Ok(())
}

fn shape_of(node: &Node<'_>, index: usize) -> Option<Vec<Dim>> {
    node.shape(index).map(<[Dim]>::to_vec)
}

fn clip(node: &mut Node<'_>) -> Outcome {
    node.same_dtype(0..node.inputs.len())?;
    same(node)
}

fn truth(node: &mut Node<'_>) -> Outcome {
    node.tensor(0, DType::Bool, shape_of(node, 0));
    Ok(())
}

/// The output has the shape of the input and the element type of the `dtype` attribute.
fn typed(node: &mut Node<'_>) -> Outcome {
    let dtype = node.dtype_attribute("dtype")?.unwrap_or(node.dtype(0));
    node.tensor(0, dtype, shape_of(node, 0));
    Ok(())
}

fn cast(node: &mut Node<'_>) -> Outcome {
    let to = node.dtype_attribute("to")?.ok_or("expected a type in `to`, found none")?;
    node.tensor(0, to, shape_of(node, 0));
    Ok(())
}

fn bit_cast(node: &mut Node<'_>) -> Outcome {
    let to = node.dtype_attribute("to")?.ok_or("expected a type in `to`, found none")?;
    let from = node.dtype(0);
    if let (Some(bits), Some(wanted)) = (from.bits(), to.bits())
        && bits != wanted
    {
        return Err(Finding::from(format!(
            "expected a type of as many bits as {from} in `to`, found {to}"
        ))
        .about_attribute("to"));
    }
    node.tensor(0, to, shape_of(node, 0));
    Ok(())
}

fn cast_like(node: &mut Node<'_>) -> Outcome {
    node.tensor(0, node.dtype(1), shape_of(node, 0));
    Ok(())
}

/// The second output marks the elements that were kept.
fn dropout(node: &mut Node<'_>) -> Outcome {
    for (index, what) in [(1, "ratio"), (2, "mode")] {
        if let Some(shape) = node.shape(index).filter(|shape| !shape.is_empty()) {
            return Err(format!("expected the {what} to be a scalar, found {}", show(shape)).into());
        }
    }
    let mask = if node.opset < 10 { node.dtype(0) } else { DType::Bool };
    node.tensor(1, mask, shape_of(node, 0));
    same(node)
}

/// The slope is broadcast to the input.
fn slope(node: &mut Node<'_>) -> Outcome {
    node.same_dtype(0..2)?;
    // Before version 9, it could also have one element for each channel.
    if node.opset >= 9 {
        broadcast(&[node.shape(0), node.shape(1)])?;
    }
    same(node)
}

/// Both inputs have the same shape.
fn gated(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..2)?;
    let shape = match (node.shape(0), node.shape(1)) {
        (Some(a), Some(b)) => Some(merged_shapes(a, b).ok_or_else(|| {
            format!("expected inputs of one shape, found {} and {}", show(a), show(b))
        })?),
        (a, b) => a.or(b).map(<[Dim]>::to_vec),
    };
    node.tensor(0, dtype, shape);
    Ok(())
}

/// Returns the broadcast shape of two inputs. Before version 7, the second was broadcast to the first, and only with the
/// attribute `broadcast`.
fn together(node: &Node<'_>) -> Result<Option<Vec<Dim>>, Finding> {
    if node.opset >= 7 {
        return broadcast(&[node.shape(0), node.shape(1)]);
    }
    match (node.shape(0), node.shape(1)) {
        (Some(a), Some(b)) if !node.flag("broadcast") => {
            let equal = merged_shapes(a, b).map(Some);
            equal.ok_or_else(|| {
                format!("expected inputs of one shape, found {} and {}", show(a), show(b)).into()
            })
        }
        (a, _) => Ok(a.map(<[Dim]>::to_vec)),
    }
}

fn binary(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..2)?;
    let shape = together(node)?;
    node.tensor(0, dtype, shape);
    Ok(())
}

/// The output has the type of the base.
fn power(node: &mut Node<'_>) -> Outcome {
    let shape = together(node)?;
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

fn compare(node: &mut Node<'_>) -> Outcome {
    node.same_dtype(0..2)?;
    let shape = together(node)?;
    node.tensor(0, DType::Bool, shape);
    Ok(())
}

/// Any number of inputs; before version 8, all of the same shape.
fn variadic(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..node.inputs.len())?;
    let shapes: Vec<_> = (0..node.inputs.len()).map(|index| node.shape(index)).collect();
    if node.opset >= 8 {
        let shape = broadcast(&shapes)?;
        node.tensor(0, dtype, shape);
        return Ok(());
    }
    let mut known = shapes.into_iter().flatten();
    let mut shape = match known.next() {
        Some(first) => first.to_vec(),
        None => {
            node.tensor(0, dtype, None);
            return Ok(());
        }
    };
    for other in known {
        shape = merged_shapes(&shape, other).ok_or_else(|| {
            format!("expected inputs of one shape, found {} and {}", show(&shape), show(other))
        })?;
    }
    node.tensor(0, dtype, Some(shape));
    Ok(())
}

fn choose(node: &mut Node<'_>) -> Outcome {
    let condition = node.dtype(0);
    if !matches!(condition, DType::Bool | UNDEFINED) {
        return Err(format!("expected a condition of bool, found {condition}").into());
    }
    let dtype = node.same_dtype(1..3)?;
    let shape = broadcast(&[node.shape(0), node.shape(1), node.shape(2)])?;
    node.tensor(0, dtype, shape);
    Ok(())
}

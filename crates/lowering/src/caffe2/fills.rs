//! Operators that fill a blob.

use half::f16;
use lodstone_model::{AttributeValue, DType, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_store::Blob;

use super::node::{Node, Outcome, Rule};
use crate::onnx::required::product;
use crate::onnx::{Size, float, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ConstantFill", Rule::One(constant)),
    (
        "GaussianFill",
        Rule::One(|node| {
            let (mean, scale) = (node.float("mean", 0.0)?, node.float("std", 1.0)?);
            if !(scale.is_finite() && scale >= 0.0) {
                return Err(format!("expected a finite `std` of at least 0, found {scale}").into());
            }
            // ONNX Runtime aborts without a deviation.
            if scale == 0.0 {
                let dims = dims(node)?;
                return node.filled_as(DType::Float32, mean.into(), &dims);
            }
            random(node, "RandomNormalLike", [("mean", mean), ("scale", scale)])
        }),
    ),
    ("GivenTensorBoolFill", Rule::One(|node| given(node, DType::Bool))),
    ("GivenTensorFill", Rule::One(|node| given(node, DType::Float32))),
    ("GivenTensorFp16Fill", Rule::One(|node| given(node, DType::Float16))),
    ("GivenTensorInt64Fill", Rule::One(|node| given(node, DType::Int64))),
    ("GivenTensorIntFill", Rule::One(|node| given(node, DType::Int32))),
    (
        "UniformFill",
        Rule::One(|node| {
            let (least, most) = (node.float("min", 0.0)?, node.float("max", 1.0)?);
            if !(least.is_finite() && most.is_finite() && least < most) {
                return Err(
                    format!("expected a `min` below `max`, found {least} and {most}").into()
                );
            }
            random(node, "RandomUniformLike", [("low", least), ("high", most)])
        }),
    ),
];

/// Returns the dims of a fill as a list: an argument, the shape of an operand, or its elements.
fn dims(node: &mut Node<'_>) -> Outcome {
    if let Some(dims) = node.ints("shape")?
        && (node.count() == 0 || !dims.is_empty())
    {
        return Ok(node.graph.longs(&checked(dims)?));
    }
    if node.count() == 0 {
        return Err("expected a `shape` or an operand, found neither".into());
    }
    let extra = checked(node.ints("extra_shape")?.unwrap_or_else(Vec::new))?;
    let like = node.input(0)?;
    let mut sizes = match (node.flag("input_as_shape", false)?, like.info().ints()) {
        (false, _) => node.sizes_of(&like)?,
        (true, Some(dims)) => checked(dims)?.into_iter().map(Size::Known).collect(),
        (true, None) => {
            let extra = node.longs(&extra);
            let dims = node.cast(&like, DType::Int64)?;
            return node.graph.concat(&[&dims, &extra], 0);
        }
    };
    sizes.extend(extra.into_iter().map(Size::Known));
    node.list_of(&sizes)
}

fn checked(dims: Vec<i64>) -> Outcome<Vec<i64>> {
    if dims.iter().any(|dim| *dim < 0) {
        return Err(format!("expected dims of at least 0, found {dims:?}").into());
    }
    product(&dims)?;
    Ok(dims)
}

fn constant(node: &mut Node<'_>) -> Outcome {
    let dtype = match node.int("dtype", 1)? {
        1 => DType::Float32,
        2 => DType::Int32,
        5 => DType::Bool,
        10 => DType::Int64,
        other => return Err(format!("fills of the type {other} are not supported").into()),
    };
    let value = match (dtype, node.op.attribute("value")) {
        (_, None) => 0.0,
        (DType::Float32, Some(AttributeValue::Float(value))) => f64::from(*value),
        (DType::Float32, Some(_)) => return Err("expected a float as `value`".into()),
        (_, Some(AttributeValue::Long(value))) => whole(*value)?,
        (_, Some(_)) => return Err("expected an integer as `value`".into()),
    };
    let dims = dims(node)?;
    node.filled_as(dtype, value, &dims)
}

/// Returns an integer as a float that is equal.
fn whole(value: i64) -> Outcome<f64> {
    #[expect(clippy::cast_precision_loss, reason = "large values are rejected")]
    let float = value as f64;
    match value.unsigned_abs() <= 1 << 53 {
        true => Ok(float),
        false => Err(format!("integers of fills are supported up to 2^53, found {value}").into()),
    }
}

/// Adds a constant of the values in the argument.
fn given(node: &mut Node<'_>, dtype: DType) -> Outcome {
    let dims = checked(node.required_ints("shape")?)?;
    let bytes: Vec<u8> = match (dtype, node.op.attribute("values")) {
        (_, None | Some(AttributeValue::None)) => Vec::new(),
        (DType::Float32, Some(AttributeValue::Floats(all))) => {
            all.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        (DType::Float16, Some(AttributeValue::Floats(all))) => {
            all.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()
        }
        (DType::Int64, Some(AttributeValue::Longs(all))) => {
            all.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        (DType::Int32, Some(AttributeValue::Longs(all))) => {
            let narrow = all.iter().map(|value| i32::try_from(*value));
            let narrow: Result<Vec<_>, _> = narrow.collect();
            let narrow = narrow.map_err(|_| "expected 32-bit integers as `values`")?;
            narrow.into_iter().flat_map(i32::to_le_bytes).collect()
        }
        (DType::Bool, Some(AttributeValue::Longs(all))) => {
            all.iter().map(|value| u8::from(*value != 0)).collect()
        }
        _ => {
            return Err(Finding::from("expected a list of numbers").about_attribute("values"));
        }
    };
    let bits = dtype.bits().ok_or_else(|| format!("the size of {dtype} is unknown"))?;
    let count: usize = exact(product(&dims)?)?;
    if count.checked_mul(exact(bits / 8)?) != Some(bytes.len()) {
        return Err(format!("the number of `values` does not match {dims:?}").into());
    }
    let shape = dims.into_iter().map(exact).collect::<Outcome<Vec<u64>>>()?;
    let name = node.op.output("").first().map_or("values", String::as_str);
    Ok(node.graph.tensor(Tensor::dense(dtype, shape, Blob::memory(bytes)), name))
}

/// Draws numbers, other ones at each run.
fn random(node: &mut Node<'_>, kind: &str, parameters: [(&str, f32); 2]) -> Outcome {
    let dims = dims(node)?;
    let like = node.filled_as(DType::Float32, 0.0, &dims)?;
    let [first, second] = parameters.map(|(name, value)| float(name, value));
    node.call(kind, &[&like], [int("dtype", 1), first, second])
}

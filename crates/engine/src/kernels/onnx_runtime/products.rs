//! Convolutions and matrix products with an activation, or of quantized matrices.

use lodstone_model::{Attribute, AttributeValue, DType, Op};
use lodstone_schema::Finding;

use super::quantized::{centred, requantized, single_value};
use crate::budget::Memory;
use crate::call::{Call, Outputs, one};
use crate::error::Outcome;
use crate::fast::{IntegerKind, Packing};
use crate::kernels::convolution::convolved;
use crate::kernels::quantize::by_range;
use crate::kernels::{activation, elementwise, linear};
use crate::operator::{Kernel, Operator, RUNTIME};
use crate::tensor::{Dense, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("DynamicQuantizeMatMul", dynamic_product).domain(RUNTIME).working(12, 12),
    Operator::dense("FusedConv", conv).domain(RUNTIME).working(0, 4),
    Operator::dense("FusedGemm", gemm).domain(RUNTIME).working(8, 2),
    Operator::dense("FusedMatMul", |call| one(fused(call)?)).domain(RUNTIME).working(2, 2),
    Operator::dense("MatMulIntegerToFloat", integer_product).domain(RUNTIME).working(16, 8),
    Operator::dense("NhwcConv", channels_last_conv).domain(RUNTIME).working(0, 2),
    Operator::dense("QGemm", quantized_gemm)
        .domain(RUNTIME)
        .packed(Packing::Integers(IntegerKind::QGemm))
        .working(16, 40),
    Operator::dense("TransposeMatMul", |call| one(fused(call)?)).domain(RUNTIME),
];

/// Applies an activation with its parameters in order.
fn activated(x: Dense, name: &str, parameters: &[f32]) -> Outcome<Dense> {
    if name == "Clip" {
        let &[least, greatest] = parameters else { return Err("expected 2 parameters".into()) };
        return x.clamped(least.into(), greatest.into());
    }
    let names: &[&str] = match name {
        "Celu" | "Elu" | "LeakyRelu" | "ThresholdedRelu" => &["alpha"],
        "HardSigmoid" => &["alpha", "beta"],
        "Selu" => &["alpha", "gamma"],
        "Gelu" | "HardSwish" | "Relu" | "Sigmoid" | "Softplus" | "Softsign" | "Tanh" => &[],
        _ => return Err(format!("activation `{name}` is not supported").into()),
    };
    let attribute = |(name, value): (&&str, &f32)| Attribute {
        name: (*name).to_owned(),
        value: AttributeValue::Float(*value),
    };
    let attributes = names.iter().zip(parameters).map(attribute).collect();
    let op = Op { kind: name.to_owned(), attributes, ..Op::default() };
    let mut rows = activation::OPERATORS.iter().chain(elementwise::OPERATORS);
    let Some(Kernel::Dense(of)) = rows.find(|row| row.kind == name).map(|row| row.kernel) else {
        return Err(Finding::internal(format!("there is no `{name}`")));
    };
    let made = of(&Call::of(&op, vec![Some(x)], Memory::default()))?;
    made.first().ok_or_else(|| Finding::internal("there is no result"))?.dense().cloned()
}

/// Returns the bias of a convolution, one number for each filter.
fn bias<'c>(call: &'c Call<'_>) -> Outcome<Option<&'c Dense>> {
    let filters = call.input(1)?.shape().first().copied();
    match call.optional(2) {
        Some(bias) if bias.shape().as_slice() != filters.as_slice() => {
            Err(Finding::from("expected one number for each filter").about_input(2))
        }
        bias => Ok(bias),
    }
}

/// Adds the fourth input to the result of a convolution, before the activation.
fn conv(call: &Call<'_>) -> Outputs {
    let bias = bias(call)?;
    let mut y = convolved(call, call.input(0)?, call.input(1)?, bias)?;
    if let Some(sum) = call.optional(3) {
        y = y.plus(sum)?;
    }
    match call.text("activation") {
        Some(name) => one(activated(y, &name, call.floats("activation_params"))?),
        None => one(y),
    }
}

/// Channels are the last axis of the input, of the filter and of the result.
fn channels_last_conv(call: &Call<'_>) -> Outputs {
    let front = |x: &Dense| -> Outcome<Dense> {
        let rank = x.shape().len();
        let last = rank.checked_sub(1).filter(|last| *last > 1).ok_or("expected spatial dims")?;
        x.permuted(&[&[0, last][..], &(1..last).collect::<Vec<_>>()].concat())
    };
    let bias = bias(call)?;
    let y = convolved(call, &front(call.input(0)?)?, &front(call.input(1)?)?, bias)?;
    let rank = y.shape().len();
    one(y.permuted(&[&[0][..], &(2..rank).collect::<Vec<_>>(), &[1]].concat())?)
}

fn gemm(call: &Call<'_>) -> Outputs {
    let made = linear::gemm(call)?;
    let y = made.first().ok_or_else(|| Finding::internal("there is no result"))?;
    let y = y.dense()?.clone();
    let Some(name) = call.text("activation") else { return one(y) };
    let named = |name: &str| match call.op.attribute(name) {
        Some(AttributeValue::Float(value)) => Some(*value),
        _ => None,
    };
    let names = ["activation_alpha", "activation_beta", "activation_gamma"];
    let parameters: Vec<f32> = names.into_iter().filter_map(named).collect();
    one(activated(y, &name, &parameters)?)
}

/// Multiplies batches of matrices that are stored in another order.
fn fused(call: &Call<'_>) -> Outcome<Dense> {
    let side = |number: usize, last: &str, batch: &str| -> Outcome<Dense> {
        let mut x = call.input(number)?.clone();
        let rank = x.shape().len();
        if rank > 2 && call.int(batch, 0) != 0 {
            x = x.permuted(&[&(1..rank - 1).collect::<Vec<_>>()[..], &[0, rank - 1]].concat())?;
        }
        if rank > 1 && call.int(last, 0) != 0 {
            let front: Vec<usize> = (0..rank - 2).collect();
            x = x.permuted(&[&front[..], &[rank - 1, rank - 2]].concat())?;
        }
        Ok(x)
    };
    let (a, b) = (side(0, "transA", "transBatchA")?, side(1, "transB", "transBatchB")?);
    let y = product(&a, &b)?;
    match call.float("alpha", 1.0) {
        1.0 => Ok(y),
        alpha => y.scaled(alpha.into()),
    }
}

/// Turns the last two axes of a matrix if the attribute is set.
fn turned(call: &Call<'_>, x: Dense, name: &str) -> Outcome<Dense> {
    match (call.int(name, 0) != 0, x.dims().len()) {
        (true, 2) => x.permuted(&[1, 0]),
        _ => Ok(x),
    }
}

/// Inputs: A, its scale and zero point, B, its scale and zero point, C, and the scale and zero point of the result, which
/// is in single precision without them.
fn quantized_gemm(call: &Call<'_>) -> Outputs {
    let wide = |number: usize, name: &str| -> Outcome<Dense> {
        turned(call, call.input(number)?.cast_to(DType::Float64)?, name)
    };
    let a = centred(call, wide(0, "transA")?, 2)?;
    let b = centred(call, wide(3, "transB")?, 5)?;
    let mut y = product(&a, &b)?;
    if let Some(bias) = call.optional(6) {
        y = y.plus(&bias.cast_to(DType::Float64)?.fitted(&y.shape())?)?;
    }
    let scales = single_value(call.input(1)?.cast_to(DType::Float64)?)?
        .times(&single_value(call.input(4)?.cast_to(DType::Float64)?)?)?;
    let y = y.times(&scales.scaled(call.float("alpha", 1.0).into())?)?;
    match call.optional(7) {
        Some(_) => {
            let like = call.optional(8).map_or_else(|| call.input(0), Ok)?;
            one(requantized(call, &y, 7, like.dtype())?)
        }
        None => one(y.cast_to(DType::Float32)?),
    }
}

/// Inputs: A, B, their scales, their zero points, and a bias.
fn integer_product(call: &Call<'_>) -> Outputs {
    let wide = |number: usize| call.input(number)?.cast_to(DType::Float64);
    let y = product(&centred(call, wide(0)?, 4)?, &centred(call, wide(1)?, 5)?)?;
    let scales = single_value(wide(2)?)?.times(&single_value(wide(3)?)?)?;
    with_bias(call, &y.times(&scales)?.cast_to(DType::Float32)?, 6)
}

/// Inputs: A in single precision, which is quantized by its range, B, its scale and zero point, and a bias.
fn dynamic_product(call: &Call<'_>) -> Outputs {
    let (a, scale) = by_range(call.input(0)?)?;
    let b = centred(call, call.input(1)?.cast_to(DType::Float64)?, 3)?;
    let scales = single_value(call.input(2)?.cast_to(DType::Float64)?)?.scaled(scale.into())?;
    let y = product(&a.cast_to(DType::Float64)?, &b)?.times(&scales)?;
    with_bias(call, &y.cast_to(DType::Float32)?, 4)
}

fn with_bias(call: &Call<'_>, y: &Dense, number: usize) -> Outputs {
    match call.optional(number) {
        Some(bias) => one(y.plus(bias)?),
        None => one(y.clone()),
    }
}

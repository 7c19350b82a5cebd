//! Activation functions.

use burn_backend::ops::{ActivationOps, BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType as BurnType, IntDType, Scalar};
use burn_flex::{Flex, FlexTensor};

use super::elementwise::float;
use super::tensor::converted;
use super::{Call, Made, Run, at_mut, axis, dim_at, one};
use crate::item::Item;

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "Elu" => elu,
        "Gelu" => gelu,
        "HardSigmoid" => |call| {
            let (alpha, beta) = (call.float("alpha", 0.2), call.float("beta", 0.5));
            float(call, |x| {
                let line = Flex::float_add_scalar(
                    Flex::float_mul_scalar(x, Scalar::Float(alpha.into())),
                    Scalar::Float(beta.into()),
                );
                Flex::float_clamp(line, Scalar::Float(0.0), Scalar::Float(1.0))
            })
        },
        "LeakyRelu" => |call| {
            let alpha = call.float("alpha", 0.01);
            float(call, |x| Flex::leaky_relu(x, Scalar::Float(alpha.into())))
        },
        "Relu" => |call| match call.input(0)? {
            Item::Int(x) => one(Item::Int(Flex::int_clamp_min(x.clone(), Scalar::Int(0)))),
            _ => float(call, Flex::relu),
        },
        "Sigmoid" => |call| float(call, Flex::sigmoid),
        "Softplus" => |call| float(call, softplus),
        "Softsign" => |call| {
            float(call, |x| {
                let below = Flex::float_add_scalar(Flex::float_abs(x.clone()), Scalar::Float(1.0));
                Flex::float_div(x, below)
            })
        },
        "ThresholdedRelu" => |call| {
            let alpha = Scalar::Float(call.float("alpha", 1.0).into());
            float(call, |x| {
                let below = Flex::float_lower_equal_elem(x.clone(), alpha, BoolStore::Native);
                Flex::float_mask_fill(x, below, Scalar::Float(0.0))
            })
        },
        "Celu" => |call| {
            let alpha = call.float("alpha", 1.0).into();
            float(call, |x| {
                let curve = exponential(Flex::float_div_scalar(x.clone(), Scalar::Float(alpha)));
                let curve = Flex::float_mul_scalar(curve, Scalar::Float(alpha));
                Flex::float_add(Flex::float_clamp_min(x, Scalar::Float(0.0)), curve)
            })
        },
        "Hardmax" => hardmax,
        "HardSwish" => |call| {
            float(call, |x| {
                let line = Flex::float_mul_scalar(x.clone(), Scalar::Float(1.0 / 6.0));
                let line = Flex::float_add_scalar(line, Scalar::Float(0.5));
                Flex::float_mul(x, Flex::float_clamp(line, Scalar::Float(0.0), Scalar::Float(1.0)))
            })
        },
        "Mish" => |call| float(call, |x| Flex::float_mul(x.clone(), Flex::float_tanh(softplus(x)))),
        "PRelu" => |call| {
            let (x, slope) = (call.input(0)?, call.input(1)?);
            let slope = slope.clone().fitted(&x.shape())?;
            let below = x.times(&slope)?;
            one(match x {
                Item::Float(x) => {
                    let mask =
                        Flex::float_lower_elem(x.clone(), Scalar::Float(0.0), BoolStore::Native);
                    Item::Float(Flex::float_mask_where(x.clone(), mask, below.float()?))
                }
                x => {
                    let x = x.int()?;
                    let mask = Flex::int_lower_elem(x.clone(), Scalar::Int(0), BoolStore::Native);
                    Item::Int(Flex::int_mask_where(x, mask, below.int()?))
                }
            })
        },
        "Selu" => |call| {
            let alpha = call.float("alpha", 1.673_263_2).into();
            let gamma = call.float("gamma", 1.050_701).into();
            float(call, |x| {
                let curve = Flex::float_mul_scalar(exponential(x.clone()), Scalar::Float(alpha));
                let sum = Flex::float_add(Flex::float_clamp_min(x, Scalar::Float(0.0)), curve);
                Flex::float_mul_scalar(sum, Scalar::Float(gamma))
            })
        },
        "Shrink" => shrink,
        "Swish" => |call| {
            let alpha = call.float("alpha", 1.0).into();
            float(call, |x| {
                let gate = Flex::sigmoid(Flex::float_mul_scalar(x.clone(), Scalar::Float(alpha)));
                Flex::float_mul(x, gate)
            })
        },
        _ => return None,
    })
}

fn elu(call: &Call<'_>) -> Made {
    let alpha = call.float("alpha", 1.0);
    float(call, |x| {
        let negative = Flex::float_clamp_max(x.clone(), Scalar::Float(0.0));
        let curve = Flex::float_sub_scalar(Flex::float_exp(negative), Scalar::Float(1.0));
        let curve = Flex::float_mul_scalar(curve, Scalar::Float(alpha.into()));
        let below = Flex::float_lower_elem(x.clone(), Scalar::Float(0.0), BoolStore::Native);
        Flex::float_mask_where(x, below, curve)
    })
}

fn gelu(call: &Call<'_>) -> Made {
    let by_tanh = call.choice("approximate", &[("none", false), ("tanh", true)])?;
    float(call, |x| {
        let half = Flex::float_mul_scalar(x.clone(), Scalar::Float(0.5));
        let curve = if by_tanh {
            let cube = Flex::float_mul(Flex::float_mul(x.clone(), x.clone()), x.clone());
            let sum = Flex::float_add(x, Flex::float_mul_scalar(cube, Scalar::Float(0.044_715)));
            let factor = (2.0 / std::f64::consts::PI).sqrt();
            Flex::float_tanh(Flex::float_mul_scalar(sum, Scalar::Float(factor)))
        } else {
            let factor = std::f64::consts::FRAC_1_SQRT_2;
            Flex::float_erf(Flex::float_mul_scalar(x, Scalar::Float(factor)))
        };
        Flex::float_mul(half, Flex::float_add_scalar(curve, Scalar::Float(1.0)))
    })
}

/// `log(1 + exp(x))` without overflow.
fn softplus(x: FlexTensor) -> FlexTensor {
    let small = Flex::float_neg(Flex::float_abs(x.clone()));
    let rest = Flex::float_log1p(Flex::float_exp(small));
    Flex::float_add(Flex::float_clamp_min(x, Scalar::Float(0.0)), rest)
}

/// `exp(x) - 1` below 0, and 0 above.
fn exponential(x: FlexTensor) -> FlexTensor {
    let negative = Flex::float_clamp_max(x, Scalar::Float(0.0));
    Flex::float_sub_scalar(Flex::float_exp(negative), Scalar::Float(1.0))
}

/// Returns 1 at the first maximum along an axis, and 0 elsewhere.
fn hardmax(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", -1), shape.len())?;
    if shape.contains(&0) {
        return one(x.clone());
    }
    let dim = dim_at(&shape, at)?;
    let best = Item::Int(Flex::float_argmax(x.float()?, at, IntDType::I64)).expanded(&shape);
    let mut line = vec![1; shape.len()];
    *at_mut(&mut line, at)? = dim;
    let places: Vec<i64> = (0..).take(dim).collect();
    let places = Item::longs(&places).reshaped(line).expanded(&shape);
    let same = Flex::int_equal(places.int()?, best.int()?, BoolStore::Native);
    one(converted(Item::Bool(same), x.kind()?)?)
}

/// Returns 0 between `-lambd` and `lambd`, and shrinks other values towards 0.
fn shrink(call: &Call<'_>) -> Made {
    let (bias, edge) = (call.float("bias", 0.0).into(), f64::from(call.float("lambd", 0.5)));
    let x = call.input(0)?;
    let kind = x.kind()?;
    let x = x.cast(if kind.is_float() { kind } else { BurnType::F64 })?.float()?;
    let above = Flex::float_greater_elem(x.clone(), Scalar::Float(edge), BoolStore::Native);
    let below = Flex::float_lower_elem(x.clone(), Scalar::Float(-edge), BoolStore::Native);
    let less = Flex::float_sub_scalar(x.clone(), Scalar::Float(bias));
    let more = Flex::float_add_scalar(x.clone(), Scalar::Float(bias));
    let zero =
        Flex::float_mask_fill(x, Flex::bool_or(above.clone(), below.clone()), Scalar::Float(0.0));
    let zero = Flex::float_mul_scalar(zero, Scalar::Float(0.0));
    let y = Flex::float_mask_where(Flex::float_mask_where(zero, above, less), below, more);
    one(converted(Item::Float(y), kind)?)
}

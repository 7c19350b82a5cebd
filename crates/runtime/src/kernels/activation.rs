//! Activations: curves of each element.

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, BoolStore, DType as BurnType, IntDType, Scalar};

use super::elementwise::float;
use super::tensor::converted;
use super::{Call, Run, axis};
use crate::item::{Item, Outcome};

type One<B> = Outcome<Vec<Item<B>>>;

pub(super) fn kernel<B: Backend>(kind: &str) -> Option<Run<B>> {
    Some(match kind {
        "Elu" => elu,
        "Gelu" => gelu,
        "HardSigmoid" => |call| {
            let (alpha, beta) = (call.float("alpha", 0.2), call.float("beta", 0.5));
            float(call, |x| {
                let line = B::float_add_scalar(
                    B::float_mul_scalar(x, Scalar::Float(alpha.into())),
                    Scalar::Float(beta.into()),
                );
                B::float_clamp(line, Scalar::Float(0.0), Scalar::Float(1.0))
            })
        },
        "LeakyRelu" => |call| {
            let alpha = call.float("alpha", 0.01);
            float(call, |x| B::leaky_relu(x, Scalar::Float(alpha.into())))
        },
        "Relu" => |call| match call.input(0)? {
            Item::Int(x) => Ok(vec![Item::Int(B::int_clamp_min(x.clone(), Scalar::Int(0)))]),
            _ => float(call, B::relu),
        },
        "Sigmoid" => |call| float(call, B::sigmoid),
        "Softplus" => |call| float(call, softplus::<B>),
        "Softsign" => |call| {
            float(call, |x| {
                let below = B::float_add_scalar(B::float_abs(x.clone()), Scalar::Float(1.0));
                B::float_div(x, below)
            })
        },
        "ThresholdedRelu" => |call| {
            let alpha = Scalar::Float(call.float("alpha", 1.0).into());
            float(call, |x| {
                let below = B::float_lower_equal_elem(x.clone(), alpha, BoolStore::Native);
                B::float_mask_fill(x, below, Scalar::Float(0.0))
            })
        },
        "Celu" => |call| {
            let alpha = call.float("alpha", 1.0).into();
            float(call, |x| {
                let curve = exponential::<B>(B::float_div_scalar(x.clone(), Scalar::Float(alpha)));
                let curve = B::float_mul_scalar(curve, Scalar::Float(alpha));
                B::float_add(B::float_clamp_min(x, Scalar::Float(0.0)), curve)
            })
        },
        "Hardmax" => hardmax,
        "HardSwish" => |call| {
            float(call, |x| {
                let line = B::float_mul_scalar(x.clone(), Scalar::Float(1.0 / 6.0));
                let line = B::float_add_scalar(line, Scalar::Float(0.5));
                B::float_mul(x, B::float_clamp(line, Scalar::Float(0.0), Scalar::Float(1.0)))
            })
        },
        "Mish" => |call| float(call, |x| B::float_mul(x.clone(), B::float_tanh(softplus::<B>(x)))),
        "PRelu" => |call| {
            let (x, slope) = (call.input(0)?, call.input(1)?);
            let slope = slope.clone().expanded(&x.shape());
            let below = x.times(&slope)?;
            Ok(vec![match x {
                Item::Float(x) => {
                    let mask =
                        B::float_lower_elem(x.clone(), Scalar::Float(0.0), BoolStore::Native);
                    Item::Float(B::float_mask_where(x.clone(), mask, below.float()?))
                }
                x => {
                    let x = x.int()?;
                    let mask = B::int_lower_elem(x.clone(), Scalar::Int(0), BoolStore::Native);
                    Item::Int(B::int_mask_where(x, mask, below.int()?))
                }
            }])
        },
        "Selu" => |call| {
            let alpha = call.float("alpha", 1.673_263_2).into();
            let gamma = call.float("gamma", 1.050_701).into();
            float(call, |x| {
                let curve = B::float_mul_scalar(exponential::<B>(x.clone()), Scalar::Float(alpha));
                let sum = B::float_add(B::float_clamp_min(x, Scalar::Float(0.0)), curve);
                B::float_mul_scalar(sum, Scalar::Float(gamma))
            })
        },
        "Shrink" => shrink,
        "Swish" => |call| {
            let alpha = call.float("alpha", 1.0).into();
            float(call, |x| {
                let gate = B::sigmoid(B::float_mul_scalar(x.clone(), Scalar::Float(alpha)));
                B::float_mul(x, gate)
            })
        },
        _ => return None,
    })
}

fn elu<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let alpha = call.float("alpha", 1.0);
    float(call, |x| {
        let negative = B::float_clamp_max(x.clone(), Scalar::Float(0.0));
        let curve = B::float_sub_scalar(B::float_exp(negative), Scalar::Float(1.0));
        let curve = B::float_mul_scalar(curve, Scalar::Float(alpha.into()));
        let below = B::float_lower_elem(x.clone(), Scalar::Float(0.0), BoolStore::Native);
        B::float_mask_where(x, below, curve)
    })
}

fn gelu<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let by_tanh = call.text("approximate").is_some_and(|how| how == "tanh");
    float(call, |x| {
        let half = B::float_mul_scalar(x.clone(), Scalar::Float(0.5));
        let curve = if by_tanh {
            let cube = B::float_mul(B::float_mul(x.clone(), x.clone()), x.clone());
            let sum = B::float_add(x, B::float_mul_scalar(cube, Scalar::Float(0.044_715)));
            let factor = (2.0 / std::f64::consts::PI).sqrt();
            B::float_tanh(B::float_mul_scalar(sum, Scalar::Float(factor)))
        } else {
            let factor = std::f64::consts::FRAC_1_SQRT_2;
            B::float_erf(B::float_mul_scalar(x, Scalar::Float(factor)))
        };
        B::float_mul(half, B::float_add_scalar(curve, Scalar::Float(1.0)))
    })
}

/// `log(1 + exp(x))`, of which nothing overflows.
fn softplus<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let small = B::float_neg(B::float_abs(x.clone()));
    let rest = B::float_log1p(B::float_exp(small));
    B::float_add(B::float_clamp_min(x, Scalar::Float(0.0)), rest)
}

/// `exp(x) - 1` below 0, and 0 above.
fn exponential<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let negative = B::float_clamp_max(x, Scalar::Float(0.0));
    B::float_sub_scalar(B::float_exp(negative), Scalar::Float(1.0))
}

/// 1 at the first of the greatest along an axis, 0 elsewhere.
fn hardmax<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", -1), shape.len())?;
    if shape.contains(&0) {
        return Ok(vec![x.clone()]);
    }
    let dim = shape.get(at).copied().unwrap_or(1);
    let best = Item::<B>::Int(B::float_argmax(x.float()?, at, IntDType::I64)).expanded(&shape);
    let mut line = vec![1; shape.len()];
    if let Some(extent) = line.get_mut(at) {
        *extent = dim;
    }
    let places: Vec<i64> = (0..).take(dim).collect();
    let places = Item::<B>::longs(&places).reshaped(line).expanded(&shape);
    let same = B::int_equal(places.int()?, best.int()?, BoolStore::Native);
    Ok(vec![converted(Item::Bool(same), x.kind()?)?])
}

/// Nothing between `-lambd` and `lambd`, and what is beyond them moved towards 0.
fn shrink<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let (bias, edge) = (call.float("bias", 0.0).into(), f64::from(call.float("lambd", 0.5)));
    let x = call.input(0)?;
    let kind = x.kind()?;
    let x = x.cast(if kind.is_float() { kind } else { BurnType::F64 })?.float()?;
    let above = B::float_greater_elem(x.clone(), Scalar::Float(edge), BoolStore::Native);
    let below = B::float_lower_elem(x.clone(), Scalar::Float(-edge), BoolStore::Native);
    let less = B::float_sub_scalar(x.clone(), Scalar::Float(bias));
    let more = B::float_add_scalar(x.clone(), Scalar::Float(bias));
    let zero = B::float_mask_fill(x, B::bool_or(above.clone(), below.clone()), Scalar::Float(0.0));
    let zero = B::float_mul_scalar(zero, Scalar::Float(0.0));
    let y = B::float_mask_where(B::float_mask_where(zero, above, less), below, more);
    Ok(vec![converted(Item::Float(y), kind)?])
}

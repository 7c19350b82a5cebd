//! Normalization, and shares of a whole.

use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::{Backend, Scalar};

use super::{Call, Run, axis};
use crate::item::{Item, Outcome};

type One<B> = Outcome<Vec<Item<B>>>;

pub(super) fn kernel<B: Backend>(kind: &str) -> Option<Run<B>> {
    Some(match kind {
        "BatchNormalization" => batch_normalization,
        "LogSoftmax" => |call| shares(call, B::log_softmax),
        "Softmax" => |call| shares(call, B::softmax),
        _ => return None,
    })
}

fn shares<B: Backend>(
    call: &Call<'_, B>,
    of: fn(B::FloatTensorPrimitive, usize) -> B::FloatTensorPrimitive,
) -> One<B> {
    let x = call.input(0)?;
    let shape = x.shape();
    if shape.is_empty() || shape.contains(&0) {
        // Of nothing there are no shares; of one number, all.
        return Ok(vec![x.clone()]);
    }
    let at = axis(call.int("axis", -1), shape.len())?;
    Ok(vec![Item::Float(of(x.float()?, at))])
}

/// With statistics that are given.
fn batch_normalization<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let channels = shape.get(1).copied().unwrap_or(1);
    let over = |item: &Item<B>| {
        let dims = (0..shape.len()).map(|at| if at == 1 { channels } else { 1 }).collect();
        Ok::<_, String>(item.clone().reshaped(dims))
    };
    let parts = (1..5).map(|number| over(call.input(number)?)).collect::<Outcome<Vec<_>>>()?;
    let [scale, bias, mean, variance] = parts.as_slice() else {
        return Err("expected scale, bias, mean and variance".to_owned());
    };
    let epsilon = Scalar::Float(call.float("epsilon", 1e-5).into());
    let deviation = B::float_sqrt(B::float_add_scalar(variance.float()?, epsilon));
    let factor = B::float_div(scale.float()?, deviation);
    let moved = B::float_mul(mean.float()?, factor.clone());
    let offset = Item::<B>::Float(B::float_sub(bias.float()?, moved)).expanded(&shape);
    let factor = Item::<B>::Float(factor).expanded(&shape);
    let scaled = B::float_mul(x.float()?, factor.float()?);
    Ok(vec![Item::Float(B::float_add(scaled, offset.float()?))])
}

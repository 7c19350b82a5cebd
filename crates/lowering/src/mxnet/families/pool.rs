//! Pooling.
//!
//! A mean divides by the number of elements of its window, padding included, but not by those beyond the padding, where
//! the last window of the convention `full` may reach. Norms by odd exponents are roots of sums with signs (`pool_utils.h`).

use lodstone_schema::numbers::length;

use super::functions::cbrt;
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, rank};
use crate::onnx::pools::Pool;
use crate::onnx::windows::{Divisor, Pads, Rounding, Windows, spatial_dims};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] =
    &[("Pooling", Rule::One(pooling)), ("Pooling_v1", Rule::One(pooling_v1))];

/// Reads the windows of a pool. Kernels fit.
fn pool(node: &Node<'_>, x: &Value, conventions: &[&'static str]) -> Outcome<Pool> {
    let kernel = node.kernel()?;
    let count = kernel.len();
    let convention = node.attributes.word("pooling_convention", conventions, "valid")?;
    let rounding = match convention {
        "valid" => Rounding::Down,
        "full" => Rounding::Up,
        _ => Rounding::Steps,
    };
    let pads = Pads::both(&node.each("pad", count, 0, 0)?);
    let windows = Windows::of_pool(&kernel, &node.each("stride", count, 1, 1)?, &pads)?;
    if rank(x)? != length(count).saturating_add(2) {
        return Err(format!("expected data of rank {}, found {}", count + 2, x.rank()?).into());
    }
    if rounding == Rounding::Steps && count != 1 {
        return Err(wrong("pooling_convention", "`same` with one spatial dim", "more"));
    }
    if let Some(dims) = spatial_dims(x).filter(|_| rounding != Rounding::Steps) {
        for (window, dim) in windows.over(&dims)? {
            if !window.fits(dim)? {
                let kernel = window.kernel();
                return Err(format!("the kernel {kernel} exceeds the padded dim of {dim}").into());
            }
        }
    }
    Pool::new(x, windows, rounding)
}

pub(super) fn pooling(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let kind = node.attributes.word("pool_type", &["max", "avg", "sum", "lp"], "max")?;
    let p = node.attributes.int_or_none("p_value")?;
    let divisor = match node.attributes.flag_or_none("count_include_pad")?.unwrap_or(true) {
        true => Divisor::Padded,
        false => Divisor::Inside,
    };
    let layout = node.layout(None)?;
    let x = node.channels_first(&x, layout)?;
    let y = if node.attributes.flag("global_pool", false)? {
        node.attributes.ignore(&["kernel", "stride", "pad", "pooling_convention"]);
        global(node, &x, kind, p)?
    } else {
        let pool = pool(node, &x, &["valid", "full", "same"])?;
        match kind {
            "max" => node.max_pool(&x, &pool)?,
            "avg" => node.mean_pool(&x, &pool, divisor)?,
            "sum" => sums(node, &x, &pool)?,
            _ => match exponent(p)? {
                2 => node.norm_pool(&x, &pool, 2)?,
                p => signed_norm(node, &x, p, |node, powers| sums(node, powers, &pool))?,
            },
        }
    };
    node.in_layout(&y, layout)
}

fn sums(node: &mut Node<'_>, x: &Value, pool: &Pool) -> Outcome {
    let y = node.padded_mean_pool(x, pool)?;
    node.times(&y, pool.size()?)
}

fn global_sum(node: &mut Node<'_>, x: &Value) -> Outcome {
    let axes: Vec<i64> = (2..rank(x)?).collect();
    node.reduce("ReduceSum", x, &axes, true)
}

/// Returns the root of sums of powers by 1 or 3, which keep the signs of the elements in MXNet.
fn signed_norm(
    node: &mut Node<'_>,
    x: &Value,
    p: i64,
    sum: impl FnOnce(&mut Node<'_>, &Value) -> Outcome,
) -> Outcome {
    if p == 1 {
        return sum(node, x);
    }
    let square = node.mul(x, x)?;
    let cube = node.mul(&square, x)?;
    let sum = sum(node, &cube)?;
    cbrt(node, &sum)
}

fn exponent(p: Option<i64>) -> Outcome<i64> {
    match p {
        Some(p @ 1..=3) => Ok(p),
        None => Err("the attribute `p_value` is missing".into()),
        Some(p) => Err(wrong("p_value", "1, 2 or 3", &p.to_string())),
    }
}

fn global(node: &mut Node<'_>, x: &Value, kind: &str, p: Option<i64>) -> Outcome {
    match kind {
        "max" => node.call("GlobalMaxPool", &[x], []),
        "avg" => node.call("GlobalAveragePool", &[x], []),
        "sum" => global_sum(node, x),
        _ => match exponent(p)? {
            2 => node.call("GlobalLpPool", &[x], [int("p", 2)]),
            p => signed_norm(node, x, p, global_sum),
        },
    }
}

/// The pool of old releases, which pads with zeros first.
fn pooling_v1(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let kind = node.attributes.word("pool_type", &["max", "avg", "sum"], "max")?;
    if node.attributes.flag("global_pool", false)? {
        node.attributes.ignore(&["kernel", "stride", "pad", "pooling_convention"]);
        return global(node, &x, kind, None);
    }
    let pool = pool(node, &x, &["valid", "full"])?;
    match kind {
        "max" => node.max_pool_of_zeros(&x, &pool),
        "sum" => sums(node, &x, &pool),
        _ => node.padded_mean_pool(&x, &pool),
    }
}

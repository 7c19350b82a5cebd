//! Pooling.

use super::conv::batched;
use crate::onnx::adaptive::Pooled;
use crate::onnx::pools::Pool;
use crate::onnx::windows::{Divisor, Pads, Rounding, Windows};
use crate::onnx::{Size, Value};
use crate::torch::arguments::wrong;
use crate::torch::node::{BEYOND, Node, Outcome, Rule};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::_adaptive_avg_pool2d", Rule::One(|node| adaptive_average(node, 2))),
    ("aten::_adaptive_avg_pool3d", Rule::One(|node| adaptive_average(node, 3))),
    ("aten::adaptive_avg_pool1d", Rule::One(|node| adaptive_average(node, 1))),
    ("aten::adaptive_avg_pool2d", Rule::One(|node| adaptive_average(node, 2))),
    ("aten::adaptive_avg_pool3d", Rule::One(|node| adaptive_average(node, 3))),
    ("aten::adaptive_max_pool1d", Rule::Many(|node| adaptive_maximum(node, 1))),
    ("aten::adaptive_max_pool2d", Rule::Many(|node| adaptive_maximum(node, 2))),
    ("aten::adaptive_max_pool3d", Rule::Many(|node| adaptive_maximum(node, 3))),
    ("aten::avg_pool1d", Rule::One(|node| average(node, 1))),
    ("aten::avg_pool2d", Rule::One(|node| average(node, 2))),
    ("aten::avg_pool3d", Rule::One(|node| average(node, 3))),
    ("aten::max_pool1d", Rule::One(|node| maximum(node, 1))),
    ("aten::max_pool1d_with_indices", Rule::Many(|node| with_indices(node, 1))),
    ("aten::max_pool2d", Rule::One(|node| maximum(node, 2))),
    ("aten::max_pool2d_with_indices", Rule::Many(|node| with_indices(node, 2))),
    ("aten::max_pool3d", Rule::One(|node| maximum(node, 3))),
    ("aten::max_pool3d_with_indices", Rule::Many(|node| with_indices(node, 3))),
];

/// Reads a pool.
fn pool_of(node: &Node<'_>, x: &Value, count: usize) -> Outcome<Pool> {
    let kernel = node.arguments.each("kernel_size", count, None)?;
    let stride = match node.arguments.ints("stride")?.is_empty() {
        true => kernel.clone(),
        false => node.arguments.each("stride", count, None)?,
    };
    let padding = node.arguments.each("padding", count, Some(0))?;
    let dilation = match node.arguments.has("dilation") {
        true => node.arguments.each("dilation", count, Some(1))?,
        false => vec![1; count],
    };
    let ceil = node.arguments.flag("ceil_mode")?;
    let all = [("kernel_size", &kernel, 1), ("stride", &stride, 1), ("dilation", &dilation, 1)];
    for (name, values, least) in all.into_iter().chain([("padding", &padding, 0)]) {
        if !values.iter().all(|value| (least..=BEYOND).contains(value)) {
            return Err(wrong(name, "positive numbers", &format!("{values:?}")));
        }
    }
    if padding.iter().zip(&kernel).any(|(padding, kernel)| padding * 2 > *kernel) {
        return Err(wrong("padding", "at most half of the kernel", &format!("{padding:?}")));
    }
    let windows = Windows::new(&kernel, &stride, &dilation, &Pads::both(&padding))?;
    Pool::new(x, windows, if ceil { Rounding::UpInside } else { Rounding::Down })
}

fn maximum(node: &mut Node<'_>, count: usize) -> Outcome {
    let x = node.tensor("self")?;
    let [y] = batched(node, &x, count, |node, x| {
        let pool = pool_of(node, x, count)?;
        node.max_pool(x, &pool).map(|y| [y])
    })?;
    Ok(y)
}

fn with_indices(node: &mut Node<'_>, count: usize) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let results = batched(node, &x, count, |node, x| {
        let pool = pool_of(node, x, count)?;
        node.max_pool_with_places(x, &pool)
    })?;
    Ok(results.into())
}

fn average(node: &mut Node<'_>, count: usize) -> Outcome {
    let x = node.tensor("self")?;
    let counts = node.arguments.flag("count_include_pad")?;
    let divisor = match node.arguments.has("divisor_override") {
        true => node.arguments.optional_int("divisor_override")?,
        false => None,
    };
    let [y] = batched(node, &x, count, |node, x| {
        let pool = pool_of(node, x, count)?;
        let y = match divisor {
            None if counts => node.mean_pool(x, &pool, Divisor::Padded),
            None => node.mean_pool(x, &pool, Divisor::Inside),
            Some(0) => return Err(wrong("divisor_override", "a number other than 0", "0")),
            Some(divisor) => {
                let mean = node.padded_mean_pool(x, &pool)?;
                #[expect(clippy::cast_precision_loss, reason = "sizes of windows are small")]
                node.times(&mean, pool.size()? / divisor as f64)
            }
        };
        y.map(|y| [y])
    })?;
    Ok(y)
}

/// Returns the numbers of windows of an adaptive pool.
fn adaptive_counts(node: &Node<'_>, count: usize) -> Outcome<Vec<Size>> {
    let sizes = node.arguments.sizes("output_size")?;
    match sizes.as_slice() {
        [size] => Ok(vec![size.clone(); count]),
        all if all.len() == count => Ok(sizes),
        all => Err(wrong("output_size", &format!("{count} sizes"), &all.len().to_string())),
    }
}

fn adaptive_average(node: &mut Node<'_>, count: usize) -> Outcome {
    let x = node.tensor("self")?;
    let counts = adaptive_counts(node, count)?;
    let mean =
        |node: &mut Node<'_>, x: &Value| node.adaptive_pool(x, &counts, Pooled::Mean).map(|y| [y]);
    let [y] = batched(node, &x, count, mean)?;
    Ok(y)
}

fn adaptive_maximum(node: &mut Node<'_>, count: usize) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let counts = adaptive_counts(node, count)?;
    let results = batched(node, &x, count, |node, x| node.adaptive_maxima(x, &counts))?;
    Ok(results.into())
}

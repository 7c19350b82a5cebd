//! Pooling.

use std::ops::Range;

use lodstone_model::DType;
use lodstone_schema::numbers::length;

use super::conv::batched;
use crate::onnx::windows::{Pads, Rounding, Windows, bins, spatial_dims};
use crate::onnx::{Value, int, ints};
use crate::torch::arguments::wrong;
use crate::torch::node::{BEYOND, MAX_PARTS, Node, Outcome, Rule, dim_of, rank, required_dim};

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

/// The windows of a pool.
struct Pool {
    windows: Windows,
    ceil: bool,
}

impl Pool {
    fn of(node: &Node<'_>, count: usize) -> Outcome<Self> {
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
        Ok(Self { windows, ceil })
    }

    /// Returns the windows over images. With `ceil_mode`, a kernel that exceeds the padded image by less than a stride has a
    /// window.
    fn over(&self, x: &Value) -> Outcome<Windows> {
        match spatial_dims(x) {
            Some(dims) if self.ceil => self.windows.extended(&dims),
            _ => Ok(self.windows.clone()),
        }
    }

    /// Returns the maximum of each window, and others of `N` results.
    fn maxima<const N: usize>(&self, node: &mut Node<'_>, x: &Value) -> Outcome<[Value; N]> {
        let windows = self.over(x)?;
        let dilations = ints("dilations", &windows.dilations());
        let attributes = windows.of_pools(self.ceil).into_iter().chain([dilations]);
        node.emit_all("MaxPool", &[Some(x)], attributes)
    }
}

fn maximum(node: &mut Node<'_>, count: usize) -> Outcome {
    let x = node.tensor("self")?;
    let pool = Pool::of(node, count)?;
    batched(node, &x, count, |node, x| {
        let [y] = pool.maxima(node, x)?;
        Ok(y)
    })
}

/// Indices count in the plane of an image, those of ONNX in the whole tensor.
fn with_indices(node: &mut Node<'_>, count: usize) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let pool = Pool::of(node, count)?;
    let mut places = None;
    let y = batched(node, &x, count, |node, x| {
        let [y, indices] = pool.maxima(node, x)?;
        let mut plane = node.long(1);
        for axis in (2..).take(count) {
            let size = node.extent(x, axis)?;
            plane = node.mul(&plane, &size)?;
        }
        places = Some(node.call("Mod", &[&indices, &plane], [])?);
        Ok(y)
    })?;
    let places = places.ok_or("the places were not computed")?;
    let places = node.reshape_as(&places, &y)?;
    Ok(vec![y, places])
}

/// Averages windows. PyTorch counts the padding, but not what `ceil_mode` adds beyond it; so does ONNX since 19.
fn average(node: &mut Node<'_>, count: usize) -> Outcome {
    let x = node.tensor("self")?;
    let pool = Pool::of(node, count)?;
    let counts = node.arguments.flag("count_include_pad")?;
    let divisor = match node.arguments.has("divisor_override") {
        true => node.arguments.optional_int("divisor_override")?,
        false => None,
    };
    batched(node, &x, count, |node, x| {
        let Some(divisor) = divisor else {
            return mean(node, x, &pool, counts);
        };
        if divisor == 0 {
            return Err(wrong("divisor_override", "a number other than 0", "0"));
        }
        // The sum of a window is the mean with the padding, times the size of the window.
        let mean = match pool.ceil {
            false => mean(node, x, &pool, true)?,
            true => {
                let dims =
                    spatial_dims(x).ok_or("the dims must be known for `divisor_override`")?;
                let windows = pool.windows.whole(&dims, Rounding::UpInside)?;
                let x = padded(node, x, &windows.pads())?;
                let [y] =
                    node.emit_all("AveragePool", &[Some(&x)], windows.bare().of_pools(false))?;
                y
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "sizes of windows are small")]
        node.times(&mean, pool.windows.size()? as f64 / divisor as f64)
    })
}

/// The mean of each window, with or without its padding.
fn mean(node: &mut Node<'_>, x: &Value, pool: &Pool, counts_padding: bool) -> Outcome {
    let (own, windows) = (pool.windows.pads(), pool.over(x)?);
    let is_extended = windows.pads() != own;
    let (x, mut attributes) = match spatial_dims(x).filter(|_| counts_padding && is_extended) {
        None => (x.clone(), windows.of_pools(pool.ceil)),
        // The padding counts, and what windows exceed it by does not.
        Some(dims) => {
            let whole = pool.windows.whole(&dims, Rounding::UpInside)?;
            let windows = whole.with_pads(&whole.pads().beyond(&own))?;
            (padded(node, x, &own)?, windows.of_pools(false))
        }
    };
    attributes.push(int("count_include_pad", i64::from(counts_padding && !is_extended)));
    let [y] = node.emit_all("AveragePool", &[Some(&x)], attributes)?;
    Ok(y)
}

fn padded(node: &mut Node<'_>, x: &Value, pads: &Pads) -> Outcome {
    let pads = node.longs(&pads.of_images());
    node.call("Pad", &[x, &pads], [])
}

/// Returns the output dims of an adaptive pooling: `None` keeps a dim.
fn adaptive_sizes(node: &Node<'_>, x: &Value, count: usize) -> Outcome<Vec<i64>> {
    let sizes = node.arguments.each("output_size", count, None)?;
    if sizes.iter().any(|size| !(0..=MAX_PARTS).contains(size)) {
        return Err(wrong("output_size", "dims", &format!("{sizes:?}")));
    }
    let rank = rank(x)?;
    if rank <= length(count) {
        return Err(format!("expected images, found a tensor of rank {rank}").into());
    }
    Ok(sizes)
}

/// Pools along one axis into `size` bins.
fn binned(node: &mut Node<'_>, x: &Value, axis: i64, size: i64, kind: &str) -> Outcome {
    if size == 1 {
        return node.reduce(kind, x, &[axis], true);
    }
    if dim_of(x, axis) == Some(size) {
        return Ok(x.clone());
    }
    let dim = required_dim(x, axis)?;
    let mut parts = Vec::new();
    for bin in bins(size, dim)? {
        let part = node.slice(x, axis, bin.start, bin.end)?;
        parts.push(node.reduce(kind, &part, &[axis], true)?);
    }
    node.concat(&parts.iter().collect::<Vec<_>>(), axis)
}

fn adaptive_average(node: &mut Node<'_>, count: usize) -> Outcome {
    let x = node.tensor("self")?;
    let sizes = adaptive_sizes(node, &x, count)?;
    let first = rank(&x)? - length(count);
    let axes: Vec<i64> = (first..rank(&x)?).collect();
    if sizes.iter().all(|size| *size == 1) {
        return node.reduce("ReduceMean", &x, &axes, true);
    }
    // Windows of one size, if the bins divide the image.
    let dims: Option<Vec<i64>> = axes.iter().map(|axis| dim_of(&x, *axis)).collect();
    if let Some(dims) = dims
        && dims.iter().zip(&sizes).all(|(dim, size)| *size > 0 && dim % size == 0)
    {
        let kernel: Vec<i64> = dims.iter().zip(&sizes).map(|(dim, size)| dim / size).collect();
        return batched(node, &x, count, |node, x| {
            let attributes = [ints("kernel_shape", &kernel), ints("strides", &kernel)];
            node.call("AveragePool", &[x], attributes)
        });
    }
    let mut y = x;
    for (axis, size) in axes.into_iter().zip(sizes) {
        y = binned(node, &y, axis, size, "ReduceMean")?;
    }
    Ok(y)
}

/// The maximum of each bin, and its place in the plane.
fn adaptive_maximum(node: &mut Node<'_>, count: usize) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let sizes = adaptive_sizes(node, &x, count)?;
    let first = rank(&x)? - length(count);
    let axes: Vec<i64> = (first..rank(&x)?).collect();
    let dims = axes.iter().map(|axis| required_dim(&x, *axis)).collect::<Outcome<Vec<_>>>()?;
    // All bins, as boxes.
    let mut boxes: Vec<Vec<Range<i64>>> = vec![Vec::new()];
    for (size, dim) in sizes.iter().zip(&dims) {
        let bins = bins(*size, *dim)?;
        let each = |found: &Vec<Range<i64>>| {
            let found = found.clone();
            bins.iter().map(move |bin| [&found[..], std::slice::from_ref(bin)].concat())
        };
        boxes = boxes.iter().flat_map(each).collect();
        if length(boxes.len()) > MAX_PARTS {
            return Err(wrong("output_size", "fewer bins", &format!("{sizes:?}")));
        }
    }
    // The places of elements in the plane, of the rank of the plane.
    let plane = crate::torch::node::product(&dims)?;
    let places = node.range(plane)?;
    let places = node.reshape(&places, &dims)?;
    let lead: Vec<i64> = (0..first).collect();
    let (mut maxima, mut found) = (Vec::new(), Vec::new());
    for bounds in boxes {
        let (starts, ends): (Vec<i64>, Vec<i64>) =
            bounds.into_iter().map(|bin| (bin.start, bin.end)).unzip();
        let part = node.slices(&x, &axes, &starts, &ends)?;
        let own = node.slices(&places, &(0..).take(count).collect::<Vec<i64>>(), &starts, &ends)?;
        let own = node.reshape(&own, &[-1])?;
        let mut shape = node.sizes_of(&x)?;
        shape.truncate(lead.len());
        shape.push(crate::torch::arguments::Size::Known(-1));
        let part = node.reshape_to(&part, &shape)?;
        let best = node.call("ArgMax", &[&part], [int("axis", -1), int("keepdims", 0)])?;
        let best_place = node.gather(&own, &best, 0)?;
        let value = node.reduce("ReduceMax", &part, &[first], false)?;
        maxima.push(value);
        found.push(node.cast(&best_place, DType::Int64)?);
    }
    let mut results = Vec::new();
    for parts in [maxima, found] {
        let joined = node.stacked(&parts.iter().collect::<Vec<_>>())?;
        let mut shape = node.sizes_of(&x)?;
        shape.truncate(lead.len());
        shape.extend(sizes.iter().map(|size| crate::torch::arguments::Size::Known(*size)));
        results.push(node.reshape_to(&joined, &shape)?);
    }
    Ok(results)
}

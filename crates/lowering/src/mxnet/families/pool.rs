//! Pooling.
//!
//! A mean divides by the number of elements of its window, padding included, but not by those beyond the padding, where
//! the last window of the convention `full` may reach. A window without elements of the image has the mean 0 and the
//! lowest number as its maximum.
//!
//! ONNX's pools have neither padding as large as a window nor windows behind the image, so that images are padded before
//! where windows may reach that far.

use lodstone_model::{Attribute, DType, Tensor};
use lodstone_schema::numbers::length;
use lodstone_store::Blob;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{MAX_PARTS, Node, Outcome, Rule, rank};
use crate::onnx::{Value, int, ints, tensor, text};

pub(super) const RULES: &[(&str, Rule)] =
    &[("Pooling", Rule::One(pooling)), ("Pooling_v1", Rule::One(pooling_v1))];

/// The windows of a pool.
#[derive(Clone)]
struct Windows {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    pads: Vec<i64>,
    /// The number of windows along each dim, and the dims, if they are known.
    counts: Option<Vec<(i64, i64)>>,
    convention: &'static str,
}

impl Windows {
    fn of(node: &Node<'_>, x: &Value, conventions: &[&'static str]) -> Outcome<Self> {
        let kernel = node.kernel()?;
        let count = kernel.len();
        let convention = node.attributes.word("pooling_convention", conventions, "valid")?;
        let mut windows = Self {
            strides: node.each("stride", count, 1, 1)?,
            pads: node.each("pad", count, 0, 0)?,
            kernel,
            counts: None,
            convention,
        };
        if rank(x)? != length(count).saturating_add(2) {
            return Err(format!("expected data of rank {}, found {}", count + 2, x.rank()?).into());
        }
        if convention == "same" && count != 1 {
            return Err(wrong("pooling_convention", "`same` with one spatial dim", "more"));
        }
        if let Some(dims) = x.known_dims().as_deref().and_then(|dims| dims.get(2..)) {
            windows.counts = Some(windows.counted(dims)?);
        }
        Ok(windows)
    }

    fn counted(&self, dims: &[i64]) -> Outcome<Vec<(i64, i64)>> {
        let mut counts = Vec::new();
        for (((dim, kernel), stride), pad) in
            dims.iter().zip(&self.kernel).zip(&self.strides).zip(&self.pads)
        {
            let all = dim.saturating_add(pad.saturating_mul(2));
            let rest = all.saturating_sub(*kernel);
            if rest < 0 && self.convention != "same" {
                return Err(format!("the kernel {kernel} exceeds the padded dim {all}").into());
            }
            let count = match self.convention {
                "valid" => rest / stride + 1,
                "full" => rest.saturating_add(stride - 1) / stride + 1,
                _ => all.saturating_add(stride - 1) / stride,
            };
            counts.push((count, *dim));
        }
        Ok(counts)
    }

    /// Returns the padding at the ends with which all windows fit, and no more: of known dims, or of any.
    fn ends(&self) -> Vec<i64> {
        let sizes = self.kernel.iter().zip(self.strides.iter().zip(&self.pads));
        match &self.counts {
            Some(counts) => {
                let ends =
                    counts.iter().zip(sizes).map(|((count, dim), (kernel, (stride, pad)))| {
                        let begin = count.saturating_sub(1).saturating_mul(*stride);
                        let reach = begin.saturating_add(*kernel);
                        reach.saturating_sub(dim.saturating_add(*pad)).max(*pad)
                    });
                ends.collect()
            }
            None => {
                let ends = sizes.map(|(kernel, (stride, pad))| match self.convention {
                    "full" => pad.saturating_add(stride - 1),
                    "same" => pad.saturating_add(kernel - 1),
                    _ => *pad,
                });
                ends.collect()
            }
        }
    }

    /// Returns the padding at both ends, and whether the runtime rounds the number of windows up: where dims are unknown
    /// and no window begins behind the image, whatever they are.
    fn padding(&self) -> (Vec<i64>, bool) {
        let reach =
            self.strides.iter().zip(&self.pads).map(|(stride, pad)| stride.saturating_add(*pad));
        let are_inside = reach.zip(&self.kernel).all(|(reach, kernel)| reach <= *kernel);
        match self.counts.is_none() && self.convention == "full" && are_inside {
            true => ([self.pads.clone(), self.pads.clone()].concat(), true),
            false => (self.whole_padding(), false),
        }
    }

    /// Returns the padding at both ends with which all windows are whole.
    fn whole_padding(&self) -> Vec<i64> {
        [self.pads.clone(), self.ends()].concat()
    }

    /// Whether ONNX's pools have this padding: less than a window, so that each window has elements of the image.
    fn has_native(&self, pads: &[i64]) -> bool {
        pads.iter().zip(self.kernel.iter().cycle()).all(|(pad, kernel)| pad < kernel)
    }

    fn attributes(&self, pads: &[i64], is_ceil: bool) -> Vec<Attribute> {
        vec![
            ints("kernel_shape", &self.kernel),
            ints("strides", &self.strides),
            ints("pads", pads),
            int("ceil_mode", i64::from(is_ceil)),
        ]
    }

    /// Returns, along each dim, the size of a whole window divided by the size of each window: up to the end of the
    /// padding, or without padding. Returns `None` if all are whole.
    fn factors(&self, counts_padding: bool) -> Outcome<Option<Vec<Vec<f32>>>> {
        let Some(counts) = &self.counts else { return Ok(None) };
        let mut factors = Vec::new();
        let mut are_whole = true;
        for (((count, dim), kernel), (stride, pad)) in
            counts.iter().zip(&self.kernel).zip(self.strides.iter().zip(&self.pads))
        {
            if *count > MAX_PARTS {
                return Err(format!("{count} windows are too many").into());
            }
            let size = |at: i64| {
                let begin = at * stride - pad;
                let (first, last) =
                    if counts_padding { (begin, dim + pad) } else { (begin.max(0), *dim) };
                ((begin + kernel).min(last) - first).max(0)
            };
            are_whole &= (0..*count).all(|at| size(at) == *kernel);
            factors.push((0..*count).map(|at| share(*kernel, size(at))).collect());
        }
        Ok((!are_whole).then_some(factors))
    }
}

pub(super) fn pooling(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let kind = node.attributes.word("pool_type", &["max", "avg", "sum", "lp"], "max")?;
    let p = node.attributes.int_or_none("p_value")?;
    let counts_padding = node.attributes.flag_or_none("count_include_pad")?.unwrap_or(true);
    let is_last = node.channels_last(None)?;
    let x = if is_last { node.channels_to_front(&x)? } else { x };
    let y = if node.attributes.flag("global_pool", false)? {
        node.attributes.ignore(&["kernel", "stride", "pad", "pooling_convention"]);
        global(node, &x, kind, p)?
    } else {
        let windows = Windows::of(node, &x, &["valid", "full", "same"])?;
        match kind {
            "max" => maxima(node, &x, &windows)?,
            "avg" => means(node, &x, &windows, counts_padding)?,
            "sum" => {
                let y = padded_means(node, &x, &windows)?;
                #[expect(clippy::cast_precision_loss, reason = "windows are small")]
                let size = windows.kernel.iter().map(|it| *it as f64).product::<f64>();
                node.times(&y, size)?
            }
            _ => norms(node, &x, &windows, p)?,
        }
    };
    if is_last { node.channels_to_back(&y) } else { Ok(y) }
}

/// Returns the size of a whole window divided by that of a part; an empty part has the mean 0.
#[expect(clippy::cast_precision_loss, reason = "windows are small")]
fn share(whole: i64, part: i64) -> f32 {
    if part == 0 { 0.0 } else { whole as f32 / part as f32 }
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
        "sum" => {
            let axes: Vec<i64> = (2..rank(x)?).collect();
            node.reduce("ReduceSum", x, &axes, true)
        }
        _ => node.call("GlobalLpPool", &[x], [int("p", exponent(p)?)]),
    }
}

/// The maximum of each window. Padding is lower than any number.
fn maxima(node: &mut Node<'_>, x: &Value, windows: &Windows) -> Outcome {
    let (pads, is_ceil) = windows.padding();
    if windows.has_native(&pads) {
        let [y] = node.emit_all("MaxPool", &[Some(x)], windows.attributes(&pads, is_ceil))?;
        return Ok(y);
    }
    let x = padded(node, x, &pads, lowest(x.dtype()))?;
    whole_maxima(node, &x, windows)
}

/// The maximum of each window of data that are already padded.
fn whole_maxima(node: &mut Node<'_>, x: &Value, windows: &Windows) -> Outcome {
    let none = vec![0; windows.kernel.len() * 2];
    let [y] = node.emit_all("MaxPool", &[Some(x)], windows.attributes(&none, false))?;
    Ok(y)
}

/// Returns the lowest finite number of a type.
fn lowest(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => -65504.0,
        DType::BFloat16 => half::bf16::MIN.into(),
        DType::Float64 => f64::MIN,
        _ => f64::from(f32::MIN),
    }
}

/// Pads the spatial dims.
fn padded(node: &mut Node<'_>, x: &Value, pads: &[i64], number: f64) -> Outcome {
    if pads.iter().all(|pad| *pad == 0) {
        return Ok(x.clone());
    }
    let (begins, ends) = pads.split_at(pads.len() / 2);
    let pads = [&[0, 0], begins, &[0, 0], ends].concat();
    let (pads, number) = (node.longs(&pads), node.number(x.dtype(), number)?);
    node.call("Pad", &[x, &pads, &number], [text("mode", "constant")])
}

/// The mean of each window, with or without its padding.
fn means(node: &mut Node<'_>, x: &Value, windows: &Windows, counts_padding: bool) -> Outcome {
    let (pads, is_ceil) = windows.padding();
    let has_native = windows.has_native(&pads);
    let factors = windows.factors(counts_padding)?;
    // Of known dims, a mean over whole windows is corrected by factors, unless the runtime divides by the same numbers.
    let is_uncorrected = match (&factors, counts_padding) {
        (None, true) => true,
        (Some(_), true) => false,
        (_, false) => has_native,
    };
    match (&windows.counts, factors) {
        (Some(_), Some(factors)) if !is_uncorrected => scaled_means(node, x, windows, &factors),
        (None, _)
            if !(has_native && (is_ceil || !counts_padding || windows.convention == "valid")) =>
        {
            counted_means(node, x, windows, counts_padding)
        }
        _ if !has_native => padded_means(node, x, windows),
        _ => {
            let mut attributes = windows.attributes(&pads, is_ceil);
            if counts_padding {
                attributes.push(int("count_include_pad", 1));
            }
            let [y] = node.emit_all("AveragePool", &[Some(x)], attributes)?;
            Ok(y)
        }
    }
}

/// The mean of each whole window, divided by the share of it that counts, for dims that are unknown.
fn counted_means(
    node: &mut Node<'_>,
    x: &Value,
    windows: &Windows,
    counts_padding: bool,
) -> Outcome {
    let shape = node.call("Shape", &[x], [int("start", 2)])?;
    let single = node.longs(&[1, 1]);
    let shape = node.concat(&[&single, &shape], 0)?;
    let one = tensor("value", node.one_number(x.dtype(), 1.0)?);
    let mut ones = node.call("ConstantOfShape", &[&shape], [one])?;
    let mut beyond = windows.whole_padding();
    if counts_padding {
        let pads = [windows.pads.clone(), windows.pads.clone()].concat();
        ones = padded(node, &ones, &pads, 1.0)?;
        beyond.iter_mut().zip(&pads).for_each(|(all, pad)| *all -= pad);
    }
    let ones = padded(node, &ones, &beyond, 0.0)?;
    let shares = whole_means(node, &ones, windows)?;
    // Empty windows have the mean 0; others have at least one element.
    #[expect(clippy::cast_precision_loss, reason = "windows are small")]
    let size = windows.kernel.iter().map(|it| *it as f64).product::<f64>();
    let least = node.number(x.dtype(), 0.5 / size)?;
    let shares = node.call("Max", &[&shares, &least], [])?;
    let y = padded_means(node, x, windows)?;
    node.div(&y, &shares)
}

/// The mean of each whole window, multiplied by factors along each dim.
fn scaled_means(
    node: &mut Node<'_>,
    x: &Value,
    windows: &Windows,
    factors: &[Vec<f32>],
) -> Outcome {
    let mut y = padded_means(node, x, windows)?;
    for (axis, factors) in factors.iter().enumerate() {
        let mut shape = vec![1; windows.kernel.len()];
        if let Some(dim) = shape.get_mut(axis) {
            *dim = factors.len() as u64;
        }
        let bytes: Vec<u8> = factors.iter().flat_map(|it| it.to_le_bytes()).collect();
        let factor =
            node.tensor(Tensor::dense(DType::Float32, shape, Blob::memory(bytes)), "factors");
        let factor = node.cast(&factor, x.dtype())?;
        y = node.mul(&y, &factor)?;
    }
    Ok(y)
}

/// The mean of each whole window, where everything beyond the data is 0.
fn padded_means(node: &mut Node<'_>, x: &Value, windows: &Windows) -> Outcome {
    let pads = windows.whole_padding();
    let x = padded(node, x, &pads, 0.0)?;
    whole_means(node, &x, windows)
}

/// The mean of each window of data that are already padded.
fn whole_means(node: &mut Node<'_>, x: &Value, windows: &Windows) -> Outcome {
    let means = |node: &mut Node<'_>, x: &Value, windows: &Windows| {
        let none = vec![0; windows.kernel.len() * 2];
        let mut attributes = windows.attributes(&none, false);
        attributes.push(int("count_include_pad", 1));
        let [y] = node.emit_all("AveragePool", &[Some(x)], attributes)?;
        Ok(y)
    };
    match windows.has_native(&windows.whole_padding()) {
        true => means(node, x, windows),
        false => apart(node, x, windows, means),
    }
}

/// Applies a pool to padded data in a form in which ONNX Runtime does not make the padding part of the pool: it rejects
/// padding as large as a window then, and pads with another number.
fn apart(
    node: &mut Node<'_>,
    x: &Value,
    windows: &Windows,
    pool: impl Fn(&mut Node<'_>, &Value, &Windows) -> Outcome,
) -> Outcome {
    if windows.kernel.len() < 3 {
        let single = |sizes: &[i64]| [&[1], sizes].concat();
        let (kernel, strides) = (single(&windows.kernel), single(&windows.strides));
        let windows = Windows { kernel, strides, ..windows.clone() };
        let images = node.unsqueeze(x, &[2])?;
        let y = pool(node, &images, &windows)?;
        let axes = node.longs(&[2]);
        return node.call("Squeeze", &[&y, &axes], []);
    }
    let kept = vec![0; windows.kernel.len()];
    let shape = node.longs(&[&[-1, 1], kept.as_slice()].concat());
    let images = node.call("Reshape", &[x, &shape], [])?;
    let y = pool(node, &images, windows)?;
    let (outer, kept) = (node.call("Shape", &[x], [int("end", 2)])?, node.longs(&kept));
    let shape = node.concat(&[&outer, &kept], 0)?;
    node.call("Reshape", &[&y, &shape], [])
}

fn norms(node: &mut Node<'_>, x: &Value, windows: &Windows, p: Option<i64>) -> Outcome {
    let p = exponent(p)?;
    let pads = windows.whole_padding();
    let x = padded(node, x, &pads, 0.0)?;
    let none = vec![0; pads.len()];
    let mut attributes = windows.attributes(&none, false);
    attributes.push(int("p", p));
    let [y] = node.emit_all("LpPool", &[Some(&x)], attributes)?;
    Ok(y)
}

/// The pool of old releases, which pads with zeros first.
fn pooling_v1(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let kind = node.attributes.word("pool_type", &["max", "avg", "sum"], "max")?;
    if node.attributes.flag("global_pool", false)? {
        node.attributes.ignore(&["kernel", "stride", "pad", "pooling_convention"]);
        return global(node, &x, kind, None);
    }
    let windows = Windows::of(node, &x, &["valid", "full"])?;
    if kind == "max" {
        let pads = [windows.pads.clone(), windows.pads.clone()].concat();
        let x = padded(node, &x, &pads, 0.0)?;
        // The last windows of the convention `full` reach further; one that begins there has no maximum.
        let beyond = windows.whole_padding().into_iter().zip(&pads).map(|(all, pad)| all - pad);
        let x = padded(node, &x, &beyond.collect::<Vec<_>>(), f64::NEG_INFINITY)?;
        return match pads.iter().all(|pad| *pad == 0) {
            true => whole_maxima(node, &x, &windows),
            false => apart(node, &x, &windows, whole_maxima),
        };
    }
    let y = padded_means(node, &x, &windows)?;
    #[expect(clippy::cast_precision_loss, reason = "windows are small")]
    let size = windows.kernel.iter().map(|it| *it as f64).product::<f64>();
    if kind == "sum" { node.times(&y, size) } else { Ok(y) }
}

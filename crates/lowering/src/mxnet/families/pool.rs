//! Pooling.
//!
//! A mean divides by the number of elements of its window, padding included, but not by those beyond the padding, where
//! the last window of the convention `full` may reach.

use lodstone_model::{Attribute, DType, Tensor};
use lodstone_store::Blob;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{MAX_PARTS, Node, Outcome, Rule, rank};
use crate::onnx::{Value, int, ints, text};

pub(super) const RULES: &[(&str, Rule)] =
    &[("Pooling", Rule::One(pooling)), ("Pooling_v1", Rule::One(pooling_v1))];

/// The windows of a pool.
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
        if rank(x)? != i64::try_from(count).unwrap_or(0).saturating_add(2) {
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

    /// Returns the padding at the ends with which all windows fit.
    fn ends(&self) -> Option<Vec<i64>> {
        let counts = self.counts.as_ref()?.iter();
        let windows = counts.zip(&self.kernel).zip(self.strides.iter().zip(&self.pads));
        let ends = windows.map(|(((count, dim), kernel), (stride, pad))| {
            let reach = count.saturating_sub(1).saturating_mul(*stride).saturating_add(*kernel);
            reach.saturating_sub(dim.saturating_add(*pad)).max(*pad)
        });
        Some(ends.collect())
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
            "avg" if !counts_padding => own_means(node, &x, &windows)?,
            "avg" => means(node, &x, &windows)?,
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

/// Returns the padding of a pool that does not count it, and whether the runtime adds the last window.
fn native_pads(windows: &Windows) -> (Vec<i64>, bool) {
    match windows.ends() {
        Some(ends) => ([windows.pads.clone(), ends].concat(), false),
        None => {
            ([windows.pads.clone(), windows.pads.clone()].concat(), windows.convention == "full")
        }
    }
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
    let (pads, is_ceil) = native_pads(windows);
    let kernels = windows.kernel.iter().chain(&windows.kernel);
    // Runtimes reject padding that is as large as a window.
    if pads.iter().zip(kernels).all(|(pad, kernel)| pad < kernel) {
        let [y] = node.emit_all("MaxPool", &[Some(x)], windows.attributes(&pads, is_ceil))?;
        return Ok(y);
    }
    let lowest = if x.dtype() == DType::Float16 { -65504.0 } else { f64::from(f32::MIN) };
    let x = padded(node, x, &pads, lowest)?;
    let none = vec![0; pads.len()];
    let [y] = node.emit_all("MaxPool", &[Some(&x)], windows.attributes(&none, is_ceil))?;
    Ok(y)
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

/// The mean of each window without its padding.
fn own_means(node: &mut Node<'_>, x: &Value, windows: &Windows) -> Outcome {
    match windows.factors(false)? {
        Some(factors) if factors.iter().flatten().any(|factor| *factor == 0.0) => {
            scaled_means(node, x, windows, &factors)
        }
        _ => {
            let (pads, is_ceil) = native_pads(windows);
            let attributes = windows.attributes(&pads, is_ceil);
            let [y] = node.emit_all("AveragePool", &[Some(x)], attributes)?;
            Ok(y)
        }
    }
}

/// The mean of each window, where padding counts.
fn means(node: &mut Node<'_>, x: &Value, windows: &Windows) -> Outcome {
    let factors = windows.factors(true)?;
    if windows.counts.is_none() || factors.is_none() {
        let pads = [windows.pads.clone(), windows.pads.clone()].concat();
        let is_ceil = windows.convention == "full";
        let ends = windows.ends();
        // Without partial windows, no window ends beyond the padding.
        let is_ceil = is_ceil && ends.is_none_or(|ends| ends != windows.pads);
        let mut attributes = windows.attributes(&pads, is_ceil);
        attributes.push(int("count_include_pad", 1));
        let [y] = node.emit_all("AveragePool", &[Some(x)], attributes)?;
        return Ok(y);
    }
    scaled_means(node, x, windows, &factors.unwrap_or_default())
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
    let (pads, is_ceil) = native_pads(windows);
    let x = padded(node, x, &pads, 0.0)?;
    let none = vec![0; pads.len()];
    let mut attributes = windows.attributes(&none, is_ceil);
    attributes.push(int("count_include_pad", 1));
    let [y] = node.emit_all("AveragePool", &[Some(&x)], attributes)?;
    Ok(y)
}

fn norms(node: &mut Node<'_>, x: &Value, windows: &Windows, p: Option<i64>) -> Outcome {
    let p = exponent(p)?;
    let (pads, is_ceil) = native_pads(windows);
    let x = padded(node, x, &pads, 0.0)?;
    let none = vec![0; pads.len()];
    let mut attributes = windows.attributes(&none, is_ceil);
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
        let windows = Windows { pads: vec![0; windows.pads.len()], ..windows };
        let windows = match x.known_dims().as_deref().and_then(|dims| dims.get(2..)) {
            Some(dims) => Windows { counts: Some(windows.counted(dims)?), ..windows },
            None => windows,
        };
        return maxima(node, &x, &windows);
    }
    let y = padded_means(node, &x, &windows)?;
    #[expect(clippy::cast_precision_loss, reason = "windows are small")]
    let size = windows.kernel.iter().map(|it| *it as f64).product::<f64>();
    if kind == "sum" { node.times(&y, size) } else { Ok(y) }
}

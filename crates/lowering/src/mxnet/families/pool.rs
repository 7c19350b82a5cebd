//! Pooling.
//!
//! A mean divides by the number of elements of its window, padding included, but not by those beyond the padding, where
//! the last window of the convention `full` may reach. A window without elements of the image has the mean 0 and the
//! lowest number as its maximum.
//!
//! ONNX's pools have neither padding as large as a window nor windows behind the image, so that images are padded before
//! where windows may reach that far.

use lodstone_model::{DType, Tensor};
use lodstone_schema::numbers::length;
use lodstone_store::Blob;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, rank};
use crate::onnx::windows::{Divisor, Pads, Rounding, Windows, spatial_dims};
use crate::onnx::{Value, int, tensor, text};

pub(super) const RULES: &[(&str, Rule)] =
    &[("Pooling", Rule::One(pooling)), ("Pooling_v1", Rule::One(pooling_v1))];

/// The windows of a pool.
struct Pool {
    windows: Windows,
    /// The windows with padding at the ends that all of them fit into: of known dims no more than that.
    whole: Windows,
    /// The spatial dims, if they are known.
    dims: Option<Vec<i64>>,
    rounding: Rounding,
}

impl Pool {
    fn of(node: &Node<'_>, x: &Value, conventions: &[&'static str]) -> Outcome<Self> {
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
        let dims = spatial_dims(x);
        let whole = match &dims {
            Some(dims) => {
                for (window, dim) in windows.over(dims)? {
                    if rounding != Rounding::Steps && !window.fits(dim)? {
                        let kernel = window.kernel();
                        return Err(
                            format!("the kernel {kernel} exceeds the padded dim of {dim}").into()
                        );
                    }
                }
                windows.whole(dims, rounding)?
            }
            None => windows.whole_of_any(rounding),
        };
        Ok(Self { windows, whole, dims, rounding })
    }

    /// Returns windows as ONNX may have them, and whether the runtime rounds their number up: where dims are unknown and no
    /// window begins behind the image, whatever they are.
    fn fitted(&self) -> (&Windows, bool) {
        let is_ceil = self.rounding == Rounding::Up && self.windows.begin_inside();
        match self.dims.is_none() && is_ceil {
            true => (&self.windows, true),
            false => (&self.whole, false),
        }
    }

    /// Returns, along each dim, the size of a whole window divided by the size of each window: up to the end of the
    /// padding, or without padding. Returns `None` if all are whole.
    fn factors(&self, counts_padding: bool) -> Outcome<Option<Vec<Vec<f32>>>> {
        let Some(dims) = &self.dims else { return Ok(None) };
        let divisor = if counts_padding { Divisor::Padded } else { Divisor::Inside };
        let mut factors = Vec::new();
        let mut are_whole = true;
        for (window, dim) in self.windows.over(dims)? {
            let kernel = window.kernel();
            let sizes = window.divisors(dim, window.count(dim, self.rounding)?, divisor)?;
            are_whole &= sizes.iter().all(|size| *size == kernel);
            factors.push(sizes.iter().map(|size| share(kernel, *size)).collect());
        }
        Ok((!are_whole).then_some(factors))
    }

    /// Returns the number of elements of a window.
    #[expect(clippy::cast_precision_loss, reason = "windows are small")]
    fn size(&self) -> Outcome<f64> {
        Ok(self.windows.size()? as f64)
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
        let pool = Pool::of(node, &x, &["valid", "full", "same"])?;
        match kind {
            "max" => maxima(node, &x, &pool)?,
            "avg" => means(node, &x, &pool, counts_padding)?,
            "sum" => {
                let y = padded_means(node, &x, &pool)?;
                node.times(&y, pool.size()?)?
            }
            _ => norms(node, &x, &pool, p)?,
        }
    };
    if is_last { node.channels_to_back(&y) } else { Ok(y) }
}

/// Returns the size of a whole window divided by that of a part; an empty part has the mean 0.
#[expect(clippy::cast_precision_loss, reason = "windows are small")]
fn share(whole: i64, part: i64) -> f32 {
    if part < 1 { 0.0 } else { whole as f32 / part as f32 }
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
fn maxima(node: &mut Node<'_>, x: &Value, pool: &Pool) -> Outcome {
    let (windows, is_ceil) = pool.fitted();
    if windows.is_native() {
        let [y] = node.emit_all("MaxPool", &[Some(x)], windows.of_pools(is_ceil))?;
        return Ok(y);
    }
    let x = padded(node, x, &windows.pads(), lowest(x.dtype()))?;
    whole_maxima(node, &x, windows)
}

/// The maximum of each window of data that are already padded.
fn whole_maxima(node: &mut Node<'_>, x: &Value, windows: &Windows) -> Outcome {
    let [y] = node.emit_all("MaxPool", &[Some(x)], windows.bare().of_pools(false))?;
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
fn padded(node: &mut Node<'_>, x: &Value, pads: &Pads, number: f64) -> Outcome {
    if pads.is_none() {
        return Ok(x.clone());
    }
    let (pads, number) = (node.longs(&pads.of_images()), node.number(x.dtype(), number)?);
    node.call("Pad", &[x, &pads, &number], [text("mode", "constant")])
}

/// The mean of each window, with or without its padding.
fn means(node: &mut Node<'_>, x: &Value, pool: &Pool, counts_padding: bool) -> Outcome {
    let (windows, is_ceil) = pool.fitted();
    let is_native = windows.is_native();
    // Of known dims, a mean over whole windows is corrected by factors, unless the runtime divides by the same numbers.
    let is_corrected = counts_padding || !is_native;
    let divides_alike = is_ceil || !counts_padding || pool.rounding == Rounding::Down;
    match pool.factors(counts_padding)? {
        Some(factors) if is_corrected => scaled_means(node, x, pool, &factors),
        _ if pool.dims.is_none() && !(is_native && divides_alike) => {
            counted_means(node, x, pool, counts_padding)
        }
        _ if !is_native => padded_means(node, x, pool),
        _ => {
            let mut attributes = windows.of_pools(is_ceil);
            if counts_padding {
                attributes.push(int("count_include_pad", 1));
            }
            let [y] = node.emit_all("AveragePool", &[Some(x)], attributes)?;
            Ok(y)
        }
    }
}

/// The mean of each whole window, divided by the share of it that counts, for dims that are unknown.
fn counted_means(node: &mut Node<'_>, x: &Value, pool: &Pool, counts_padding: bool) -> Outcome {
    let shape = node.call("Shape", &[x], [int("start", 2)])?;
    let single = node.longs(&[1, 1]);
    let shape = node.concat(&[&single, &shape], 0)?;
    let one = tensor("value", node.one_number(x.dtype(), 1.0)?);
    let mut ones = node.call("ConstantOfShape", &[&shape], [one])?;
    let mut beyond = pool.whole.pads();
    if counts_padding {
        let pads = pool.windows.pads();
        ones = padded(node, &ones, &pads, 1.0)?;
        beyond = beyond.beyond(&pads);
    }
    let ones = padded(node, &ones, &beyond, 0.0)?;
    let shares = whole_means(node, &ones, &pool.whole)?;
    // Empty windows have the mean 0; others have at least one element.
    let least = node.number(x.dtype(), 0.5 / pool.size()?)?;
    let shares = node.call("Max", &[&shares, &least], [])?;
    let y = padded_means(node, x, pool)?;
    node.div(&y, &shares)
}

/// The mean of each whole window, multiplied by factors along each dim.
fn scaled_means(node: &mut Node<'_>, x: &Value, pool: &Pool, factors: &[Vec<f32>]) -> Outcome {
    let mut y = padded_means(node, x, pool)?;
    for (axis, factors) in factors.iter().enumerate() {
        let mut shape = vec![1; pool.windows.rank()];
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
fn padded_means(node: &mut Node<'_>, x: &Value, pool: &Pool) -> Outcome {
    let x = padded(node, x, &pool.whole.pads(), 0.0)?;
    whole_means(node, &x, &pool.whole)
}

/// The mean of each window of data that are already padded.
fn whole_means(node: &mut Node<'_>, x: &Value, windows: &Windows) -> Outcome {
    let means = |node: &mut Node<'_>, x: &Value, windows: &Windows| {
        let mut attributes = windows.bare().of_pools(false);
        attributes.push(int("count_include_pad", 1));
        let [y] = node.emit_all("AveragePool", &[Some(x)], attributes)?;
        Ok(y)
    };
    match windows.is_native() {
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
    if windows.rank() < 3 {
        let images = node.unsqueeze(x, &[2])?;
        let y = pool(node, &images, &windows.with_axis())?;
        let axes = node.longs(&[2]);
        return node.call("Squeeze", &[&y, &axes], []);
    }
    let kept = vec![0; windows.rank()];
    let shape = node.longs(&[&[-1, 1], kept.as_slice()].concat());
    let images = node.call("Reshape", &[x, &shape], [])?;
    let y = pool(node, &images, windows)?;
    let (outer, kept) = (node.call("Shape", &[x], [int("end", 2)])?, node.longs(&kept));
    let shape = node.concat(&[&outer, &kept], 0)?;
    node.call("Reshape", &[&y, &shape], [])
}

fn norms(node: &mut Node<'_>, x: &Value, pool: &Pool, p: Option<i64>) -> Outcome {
    let p = exponent(p)?;
    let x = padded(node, x, &pool.whole.pads(), 0.0)?;
    let mut attributes = pool.whole.bare().of_pools(false);
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
    let pool = Pool::of(node, &x, &["valid", "full"])?;
    if kind == "max" {
        let pads = pool.windows.pads();
        let x = padded(node, &x, &pads, 0.0)?;
        // The last windows of the convention `full` reach further; one that begins there has no maximum.
        let x = padded(node, &x, &pool.whole.pads().beyond(&pads), f64::NEG_INFINITY)?;
        return match pads.is_none() {
            true => whole_maxima(node, &x, &pool.whole),
            false => apart(node, &x, &pool.whole, whole_maxima),
        };
    }
    let y = padded_means(node, &x, &pool)?;
    if kind == "sum" { node.times(&y, pool.size()?) } else { Ok(y) }
}

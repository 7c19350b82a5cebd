//! Pools: the maximum, mean or norm of each window.
//!
//! A window without elements of the image has the mean 0 and the lowest number as its maximum. ONNX's pools have neither
//! padding as large as a window nor windows behind the image, so that images are padded before where windows may reach that
//! far. The conventions of frameworks are those of [`windows`](super::windows).

use lodstone_model::{DType, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use super::windows::{Divisor, Pads, Rounding, Windows, spatial_dims};
use super::{Graph, Value, int, text};

type Outcome<T = Value> = Result<T, Finding>;

/// The windows of a pool over an image.
pub(crate) struct Pool {
    pub(crate) windows: Windows,
    /// The windows with padding at the ends that all of them fit into: of known dims no more than that.
    pub(crate) whole: Windows,
    /// The spatial dims, if they are known.
    dims: Option<Vec<i64>>,
    rounding: Rounding,
}

impl Pool {
    /// Creates a pool over an image.
    ///
    /// # Errors
    /// If the image has another number of spatial dims, or there is no window.
    pub(crate) fn new(x: &Value, windows: Windows, rounding: Rounding) -> Outcome<Self> {
        let dims = spatial_dims(x);
        let whole = match &dims {
            Some(dims) => windows.whole(dims, rounding)?,
            None => windows.whole_of_any(rounding),
        };
        Ok(Self { windows, whole, dims, rounding })
    }

    /// Returns windows as ONNX may have them, and whether the runtime rounds their number up: where dims are unknown and no
    /// window begins behind the image, whatever they are, or ONNX leaves out those that do.
    fn fitted(&self) -> (&Windows, bool) {
        let is_ceil = match self.rounding {
            Rounding::Up => self.windows.begin_inside(),
            Rounding::UpInside => true,
            Rounding::Down | Rounding::Steps => false,
        };
        match self.dims.is_none() && is_ceil {
            true => (&self.windows, true),
            false => (&self.whole, false),
        }
    }

    /// Returns, along each dim, the size of a whole window divided by what the sum of each window is divided by. Returns
    /// `None` if all are whole.
    fn factors(&self, divisor: Divisor) -> Outcome<Option<Vec<Vec<f32>>>> {
        let Some(dims) = &self.dims else { return Ok(None) };
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
    pub(crate) fn size(&self) -> Outcome<f64> {
        Ok(self.windows.size()? as f64)
    }
}

/// Returns the size of a whole window divided by that of a part; an empty part has the mean 0.
#[expect(clippy::cast_precision_loss, reason = "windows are small")]
fn share(whole: i64, part: i64) -> f32 {
    if part < 1 { 0.0 } else { whole as f32 / part as f32 }
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

impl Graph {
    /// Pads the spatial dims.
    pub(crate) fn pad_images(&mut self, x: &Value, pads: &Pads, number: f64) -> Outcome {
        if pads.is_none() {
            return Ok(x.clone());
        }
        let (pads, number) = (self.longs(&pads.of_images()), self.number(x.dtype(), number)?);
        self.call("Pad", &[x, &pads, &number], [text("mode", "constant")])
    }

    /// Returns the maximum of each window. Padding is lower than any number.
    pub(crate) fn max_pool(&mut self, x: &Value, pool: &Pool) -> Outcome {
        let (windows, is_ceil) = pool.fitted();
        if windows.is_native() {
            let [y] = self.emit_all("MaxPool", &[Some(x)], windows.of_pools(is_ceil))?;
            return Ok(y);
        }
        let x = self.pad_images(x, &windows.pads(), lowest(x.dtype()))?;
        self.whole_maxima(&x, windows)
    }

    /// Returns the maximum of each window where the padding is zeros. Windows that reach further have no elements there.
    pub(crate) fn max_pool_of_zeros(&mut self, x: &Value, pool: &Pool) -> Outcome {
        let pads = pool.windows.pads();
        let x = self.pad_images(x, &pads, 0.0)?;
        let x = self.pad_images(&x, &pool.whole.pads().beyond(&pads), f64::NEG_INFINITY)?;
        match pads.is_none() {
            true => self.whole_maxima(&x, &pool.whole),
            false => self.apart(&x, &pool.whole, Self::whole_maxima),
        }
    }

    /// Returns the maximum of each window of data that are already padded.
    fn whole_maxima(&mut self, x: &Value, windows: &Windows) -> Outcome {
        let [y] = self.emit_all("MaxPool", &[Some(x)], windows.bare().of_pools(false))?;
        Ok(y)
    }

    /// Returns the mean of each window.
    pub(crate) fn mean_pool(&mut self, x: &Value, pool: &Pool, divisor: Divisor) -> Outcome {
        let counts_padding = match divisor {
            Divisor::Padded => true,
            Divisor::Inside => false,
            Divisor::Whole => return self.padded_mean_pool(x, pool),
        };
        let (windows, is_ceil) = pool.fitted();
        let is_native = windows.is_native();
        // Of known dims, a mean over whole windows is corrected by factors, unless the runtime divides by the same numbers.
        let is_corrected = counts_padding || !is_native;
        let divides_alike = is_ceil || !counts_padding || pool.rounding == Rounding::Down;
        match pool.factors(divisor)? {
            Some(factors) if is_corrected => self.scaled_means(x, pool, &factors),
            _ if pool.dims.is_none() && !(is_native && divides_alike) => {
                self.counted_means(x, pool, counts_padding)
            }
            _ if !is_native => self.padded_mean_pool(x, pool),
            _ => {
                let mut attributes = windows.of_pools(is_ceil);
                if counts_padding {
                    attributes.push(int("count_include_pad", 1));
                }
                let [y] = self.emit_all("AveragePool", &[Some(x)], attributes)?;
                Ok(y)
            }
        }
    }

    /// The mean of each whole window, divided by the share of it that counts, for dims that are unknown.
    fn counted_means(&mut self, x: &Value, pool: &Pool, counts_padding: bool) -> Outcome {
        let shape = self.call("Shape", &[x], [int("start", 2)])?;
        let single = self.longs(&[1, 1]);
        let shape = self.concat(&[&single, &shape], 0)?;
        let mut ones = self.filled_as(x.dtype(), 1.0, &shape)?;
        let mut beyond = pool.whole.pads();
        if counts_padding {
            let pads = pool.windows.pads();
            ones = self.pad_images(&ones, &pads, 1.0)?;
            beyond = beyond.beyond(&pads);
        }
        let ones = self.pad_images(&ones, &beyond, 0.0)?;
        let shares = self.whole_means(&ones, &pool.whole)?;
        // Empty windows have the mean 0; others have at least one element.
        let least = self.number(x.dtype(), 0.5 / pool.size()?)?;
        let shares = self.call("Max", &[&shares, &least], [])?;
        let y = self.padded_mean_pool(x, pool)?;
        self.div(&y, &shares)
    }

    /// The mean of each whole window, multiplied by factors along each dim.
    fn scaled_means(&mut self, x: &Value, pool: &Pool, factors: &[Vec<f32>]) -> Outcome {
        let mut y = self.padded_mean_pool(x, pool)?;
        for (axis, factors) in factors.iter().enumerate() {
            let mut shape = vec![1; pool.windows.rank()];
            if let Some(dim) = shape.get_mut(axis) {
                *dim = factors.len() as u64;
            }
            let bytes: Vec<u8> = factors.iter().flat_map(|it| it.to_le_bytes()).collect();
            let factor =
                self.tensor(Tensor::dense(DType::Float32, shape, Blob::memory(bytes)), "factors");
            let factor = self.cast(&factor, x.dtype())?;
            y = self.mul(&y, &factor)?;
        }
        Ok(y)
    }

    /// Returns the mean of each whole window, where everything beyond the data is 0.
    pub(crate) fn padded_mean_pool(&mut self, x: &Value, pool: &Pool) -> Outcome {
        let x = self.pad_images(x, &pool.whole.pads(), 0.0)?;
        self.whole_means(&x, &pool.whole)
    }

    /// The mean of each window of data that are already padded.
    fn whole_means(&mut self, x: &Value, windows: &Windows) -> Outcome {
        let means = |graph: &mut Self, x: &Value, windows: &Windows| {
            let mut attributes = windows.bare().of_pools(false);
            attributes.push(int("count_include_pad", 1));
            let [y] = graph.emit_all("AveragePool", &[Some(x)], attributes)?;
            Ok(y)
        };
        match windows.is_native() {
            true => means(self, x, windows),
            false => self.apart(x, windows, means),
        }
    }

    /// Applies a pool to padded data in a form in which ONNX Runtime does not make the padding part of the pool: it rejects
    /// padding as large as a window then, and pads with another number.
    fn apart(
        &mut self,
        x: &Value,
        windows: &Windows,
        pool: impl Fn(&mut Self, &Value, &Windows) -> Outcome,
    ) -> Outcome {
        if windows.rank() < 3 {
            let images = self.unsqueeze(x, &[2])?;
            let y = pool(self, &images, &windows.with_axis())?;
            let axes = self.longs(&[2]);
            return self.call("Squeeze", &[&y, &axes], []);
        }
        let kept = vec![0; windows.rank()];
        let shape = self.longs(&[&[-1, 1], kept.as_slice()].concat());
        let images = self.call("Reshape", &[x, &shape], [])?;
        let y = pool(self, &images, windows)?;
        let (outer, kept) = (self.call("Shape", &[x], [int("end", 2)])?, self.longs(&kept));
        let shape = self.concat(&[&outer, &kept], 0)?;
        self.call("Reshape", &[&y, &shape], [])
    }

    /// Returns the norm of each window, `(sum of |x|^p)^(1/p)`, where everything beyond the data is 0.
    pub(crate) fn norm_pool(&mut self, x: &Value, pool: &Pool, p: i64) -> Outcome {
        let x = self.pad_images(x, &pool.whole.pads(), 0.0)?;
        let mut attributes = pool.whole.bare().of_pools(false);
        attributes.push(int("p", p));
        let [y] = self.emit_all("LpPool", &[Some(&x)], attributes)?;
        Ok(y)
    }
}

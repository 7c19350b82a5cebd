//! Pools: the maximum, mean or norm of each window.
//!
//! A window without elements of the image has the maximum and the mean that [`Empty`] says. ONNX's pools have neither padding
//! as large as a window nor windows behind the image, so that images are padded before where windows may reach that far. The
//! conventions of frameworks are those of [`windows`](super::windows).

use lodstone_model::{Attribute, DType, Tensor};
use lodstone_schema::{Code, Finding};
use lodstone_store::Blob;

use super::bins::Bins;
use super::windows::{Divisor, Padding, Pads, Rounding, Windows, spatial_dims};
use super::{Graph, Value, int, ints, text};

type Outcome<T = Value> = Result<T, Finding>;

/// The windows of a pool over an image.
pub(crate) struct Pool {
    pub(crate) windows: Windows,
    /// The windows with padding at the ends that all of them fit into: of known dims no more than that.
    whole: Windows,
    /// The windows as ONNX may have them, and whether the runtime rounds their number up.
    native: Option<(Windows, bool)>,
    /// The spatial dims, if they are known.
    dims: Option<Vec<i64>>,
    rounding: Rounding,
    /// What a window without elements has.
    empty: Empty,
    /// Whether the runtime adds padding for one window in each stride, because it depends on unknown dims.
    is_same: bool,
    /// The elements along each axis of unknown dims that the windows cover, if that does not depend on these dims.
    cover: Option<Vec<i64>>,
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
        let mut pool = Self::of(whole, windows, dims, rounding);
        if let Some(dims) = &pool.dims
            && rounding == Rounding::UpInside
            && pool.native.is_none()
        {
            let extended = Some((pool.windows.extended(dims)?, true));
            pool.native = extended.filter(|(windows, _)| windows.is_native());
        }
        Ok(pool)
    }

    fn of(whole: Windows, windows: Windows, dims: Option<Vec<i64>>, rounding: Rounding) -> Self {
        // No window begins behind the image, or ONNX leaves out those that do.
        let is_ceil = match rounding {
            Rounding::Up => dims.is_none() && windows.begin_inside(),
            Rounding::UpInside => dims.is_none(),
            Rounding::Down | Rounding::Steps => false,
        };
        let native = if is_ceil { windows.clone() } else { whole.clone() };
        let native = native.is_native().then_some((native, is_ceil));
        let empty = Empty::Zero;
        Self { windows, whole, native, dims, rounding, empty, is_same: false, cover: None }
    }

    /// Returns the pool with another convention of windows without elements.
    pub(crate) fn with_empty(self, empty: Empty) -> Self {
        Self { empty, ..self }
    }

    /// Creates a pool with declared padding.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and if the number of windows depends on unknown dims in a way that ONNX does not have.
    pub(crate) fn padded(
        x: &Value,
        [kernel, strides]: [&[i64]; 2],
        padding: &Padding,
        rounding: Rounding,
    ) -> Outcome<Self> {
        let (dims, ones) = (spatial_dims(x), vec![1; kernel.len()]);
        let depends = matches!(padding, Padding::Same) && strides != ones;
        if dims.is_some() || !depends {
            let windows = Windows::padded(kernel, strides, &ones, padding, dims.as_deref())?;
            return Self::new(x, windows, rounding);
        }
        if rounding == Rounding::Up
            && kernel.iter().zip(strides).any(|(size, stride)| size < stride)
        {
            let what = "the dims must be known: `ceil_mode` adds windows between strides";
            return Err(Finding::new(Code::UnknownDims, what));
        }
        // The padding makes the windows fit.
        let windows = Windows::of_pool(kernel, strides, &Pads::none(kernel.len()))?;
        Ok(Self { is_same: true, ..Self::new(x, windows, Rounding::Down)? })
    }

    /// Creates a pool of [as many windows as they have elements](Windows::as_many_as_elements).
    pub(crate) fn as_many_as_elements(x: &Value, windows: Windows) -> Outcome<Self> {
        if let Some(dims) = spatial_dims(x) {
            let whole = windows.as_many_as_elements(&dims)?;
            return Ok(Self::of(whole, windows, Some(dims), Rounding::Down));
        }
        let (cover, whole) = windows.as_many_of_any()?;
        let pool = Self::of(whole, windows, None, Rounding::Down);
        Ok(Self { native: None, cover: Some(cover), ..pool })
    }

    /// Returns the windows with padding at the ends that all of them fit into.
    ///
    /// # Errors
    /// If the padding, or the number of windows, depends on unknown dims.
    pub(crate) fn whole(&self) -> Outcome<&Windows> {
        let is_counted = self.rounding == Rounding::UpInside && !self.windows.begin_inside();
        match self.is_same || self.cover.is_some() || is_counted && self.dims.is_none() {
            true => Err(unknown()),
            false => Ok(&self.whole),
        }
    }

    /// Returns the attributes of a pool for which the runtime adds padding.
    fn of_same(&self) -> [Attribute; 3] {
        let [kernel, strides] = [self.windows.kernel(), self.windows.strides()];
        [ints("kernel_shape", &kernel), ints("strides", &strides), Padding::Same.attribute()]
    }

    /// Whether a window has no elements of the image, as far as the dims are known.
    fn has_empty(&self) -> Outcome<bool> {
        let Some(dims) = &self.dims else {
            return Ok(!self.windows.is_native() || !self.windows.begin_inside());
        };
        for (window, dim) in self.windows.over(dims)? {
            // The first ones may lie before the image, and the last ones behind it.
            let last = window.count(dim, self.rounding)? - 1;
            if [0, last].into_iter().any(|number| window.inside(number, dim).is_empty()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether windows over unknown dims count the same padding as those of ONNX.
    fn counts_as_onnx(&self, is_ceil: bool) -> bool {
        let Pads { begins, ends } = self.windows.pads();
        begins == ends && (is_ceil || self.rounding == Rounding::Down)
    }

    /// Returns, along each dim, the places of the elements of the image in each window.
    fn places(&self) -> Outcome<Vec<Vec<Vec<i64>>>> {
        let each = self.windows.over(self.dims.as_ref().ok_or_else(unknown)?)?;
        let each = each.map(|(window, dim)| {
            let places = |number: i64| {
                let places = (0..window.kernel()).map(|tap| window.place(number, tap));
                places.filter(|place| (0..dim).contains(place)).collect()
            };
            Ok(window.numbers(dim, self.rounding)?.map(places).collect())
        });
        each.collect()
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
            factors.push(sizes.iter().map(|size| self.empty.share(kernel, *size)).collect());
        }
        Ok((!are_whole).then_some(factors))
    }

    /// Returns the number of elements of a window.
    #[expect(clippy::cast_precision_loss, reason = "windows are small")]
    pub(crate) fn size(&self) -> Outcome<f64> {
        Ok(self.windows.size()? as f64)
    }
}

/// The finding of windows that follow from dims.
fn unknown() -> Finding {
    Finding::new(Code::UnknownDims, "the dims must be known for these windows")
}

/// What the mean and the maximum of a window without elements of the image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empty {
    /// 0, and the lowest number of the type.
    Zero,
    /// 0, divided by the number of its elements, which is NaN unless that is negative; and the lowest number of 32 bits,
    /// whatever the type.
    Quotient,
}

impl Empty {
    /// Returns the size of a whole window divided by that of a part.
    #[expect(clippy::cast_precision_loss, reason = "windows are small")]
    fn share(self, whole: i64, part: i64) -> f32 {
        match self {
            Self::Zero if part < 1 => 0.0,
            Self::Zero | Self::Quotient => whole as f32 / part as f32,
        }
    }
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
        if pool.is_same {
            return self.call("MaxPool", &[x], pool.of_same());
        }
        if let Some((windows, is_ceil)) = &pool.native {
            let [y] = self.emit_all("MaxPool", &[Some(x)], windows.of_pools(*is_ceil))?;
            return Ok(y);
        }
        let lowest = match pool.empty {
            Empty::Zero => lowest(x.dtype()),
            Empty::Quotient => f32::MIN.into(),
        };
        if let Some(cover) = &pool.cover {
            let x = self.pad_images(x, &pool.whole.pads(), lowest)?;
            let axes: Vec<i64> = (2..).take(cover.len()).collect();
            let x = self.slices(&x, &axes, &vec![0; cover.len()], cover)?;
            return self.whole_maxima(&x, &pool.whole);
        }
        let windows = pool.whole()?;
        let x = self.pad_images(x, &windows.pads(), lowest)?;
        self.whole_maxima(&x, windows)
    }

    /// Returns the maximum of each window, and its place in the plane of the image.
    ///
    /// # Errors
    /// If a window may consist of padding, or ONNX does not have windows over unknown dims.
    pub(crate) fn max_pool_with_places(&mut self, x: &Value, pool: &Pool) -> Outcome<[Value; 2]> {
        let Some((windows, is_ceil)) = pool.native.as_ref().filter(|_| !pool.is_same) else {
            let bins = pool.places()?;
            let bins = bins.iter().map(|windows| Bins::listed(self, windows));
            let bins = bins.collect::<Outcome<Vec<_>>>()?;
            return self.maxima_of(x, &bins);
        };
        let [y, places] = self.emit_all("MaxPool", &[Some(x)], windows.of_pools(*is_ceil))?;
        // ONNX's places count through all images.
        let plane = self.sizes_of(x)?.split_off(2);
        let plane = self.product_of_all(&plane)?;
        let plane = self.scalar_of(&plane)?;
        let places = self.call("Mod", &[&places, &plane], [])?;
        Ok([y, places])
    }

    /// Returns the maximum of each window where the padding is zeros. Windows that reach further have no elements there.
    pub(crate) fn max_pool_of_zeros(&mut self, x: &Value, pool: &Pool) -> Outcome {
        let pads = pool.windows.pads();
        let x = self.pad_images(x, &pads, 0.0)?;
        let x = self.pad_images(&x, &pool.whole()?.pads().beyond(&pads), f64::NEG_INFINITY)?;
        match pads.is_none() {
            true => self.whole_maxima(&x, pool.whole()?),
            false => self.apart(&x, pool.whole()?, Self::whole_maxima),
        }
    }

    /// Returns the maximum of each window of data that are already padded.
    fn whole_maxima(&mut self, x: &Value, windows: &Windows) -> Outcome {
        let [y] = self.emit_all("MaxPool", &[Some(x)], windows.bare().of_pools(false))?;
        Ok(y)
    }

    /// Returns the mean of each window.
    pub(crate) fn mean_pool(&mut self, x: &Value, pool: &Pool, divisor: Divisor) -> Outcome {
        if pool.is_same {
            return match divisor {
                Divisor::Inside => self.call("AveragePool", &[x], pool.of_same()),
                Divisor::Whole => {
                    let [kernel, strides, padding] = pool.of_same();
                    let counted = int("count_include_pad", 1);
                    self.call("AveragePool", &[x], [kernel, strides, padding, counted])
                }
                Divisor::Padded => {
                    let what = "the dims must be known: means count padding that depends on them";
                    Err(Finding::new(Code::UnknownDims, what))
                }
            };
        }
        let counts_padding = match divisor {
            Divisor::Padded => true,
            Divisor::Inside => false,
            // All windows are inside of the padding.
            Divisor::Whole if pool.rounding == Rounding::Down && pool.native.is_some() => true,
            Divisor::Whole => return self.padded_mean_pool(x, pool),
        };
        let has_empty = pool.empty == Empty::Quotient && pool.has_empty()?;
        // Of known dims, a mean over whole windows is corrected by factors, unless the runtime divides by the same numbers.
        if let Some(factors) = pool.factors(divisor)?
            && (counts_padding || has_empty || pool.native.is_none())
        {
            return self.scaled_means(x, pool, &factors);
        }
        match &pool.native {
            _ if pool.dims.is_none() && has_empty => {
                let what = "the dims must be known: windows may have no elements";
                Err(Finding::new(Code::UnknownDims, what))
            }
            Some((windows, is_ceil))
                if divisor != Divisor::Padded
                    || pool.dims.is_some()
                    || pool.counts_as_onnx(*is_ceil) =>
            {
                let mut attributes = windows.of_pools(*is_ceil);
                if counts_padding {
                    attributes.push(int("count_include_pad", 1));
                }
                let [y] = self.emit_all("AveragePool", &[Some(x)], attributes)?;
                Ok(y)
            }
            _ if pool.dims.is_none() => self.counted_means(x, pool, counts_padding),
            _ => self.padded_mean_pool(x, pool),
        }
    }

    /// The mean of each whole window, divided by the share of it that counts, for dims that are unknown.
    fn counted_means(&mut self, x: &Value, pool: &Pool, counts_padding: bool) -> Outcome {
        let shape = self.call("Shape", &[x], [int("start", 2)])?;
        let single = self.longs(&[1, 1]);
        let shape = self.concat(&[&single, &shape], 0)?;
        let mut ones = self.filled_as(x.dtype(), 1.0, &shape)?;
        let mut beyond = pool.whole()?.pads();
        if counts_padding {
            // There is as much at the end as at the begin.
            let pads = Pads::both(&pool.windows.pads().begins);
            ones = self.pad_images(&ones, &pads, 1.0)?;
            beyond = beyond.beyond(&pads);
        }
        let ones = self.pad_images(&ones, &beyond, 0.0)?;
        let shares = self.whole_means(&ones, pool.whole()?)?;
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
        let x = self.pad_images(x, &pool.whole()?.pads(), 0.0)?;
        self.whole_means(&x, pool.whole()?)
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
        let x = self.pad_images(x, &pool.whole()?.pads(), 0.0)?;
        let mut attributes = pool.whole()?.bare().of_pools(false);
        attributes.push(int("p", p));
        let [y] = self.emit_all("LpPool", &[Some(&x)], attributes)?;
        Ok(y)
    }
}

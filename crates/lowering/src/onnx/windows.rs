//! Windows that slide over images: those of convolutions, pools and patches.
//!
//! A window has a size, a stride and a dilation along each spatial axis, and the image has padding at the begin and the end.
//! Frameworks differ in what follows from that:
//!
//! | framework | number of windows | means divide by | proof |
//! |---|---|---|---|
//! | PaddlePaddle from 2.0 | [`Down`](Rounding::Down); `ceil_mode`: [`Up`](Rounding::Up) | `exclusive`: [`Inside`](Divisor::Inside), else [`Padded`](Divisor::Padded), with as much padding at the end as at the begin | `phi/kernels/funcs/pooling.cc`; recorded `pool2d-49`, `pool2d-62`, `pool3d-5` |
//! | PaddlePaddle up to 1.x | the same | not `exclusive`: [`Whole`](Divisor::Whole) | `operators/math/pooling.cc` |
//! | PaddlePaddle, `SAME` | [`Window::same`], without dilation | | `UpdatePadding` in `conv_util.h`; recorded `conv2d-6`, `pool2d-49`, `conv2d_transpose-9` |
//! | MXNet 1.9, `valid`, `full`, `same` | [`Down`](Rounding::Down), [`Up`](Rounding::Up), [`Steps`](Rounding::Steps); kernels [fit](Window::fits) | `count_include_pad`: [`Padded`](Divisor::Padded), else [`Inside`](Divisor::Inside); 0 of nothing | `nn/pooling.cc`, `nn/pool.h`; recorded `pool_445`, `poolx_444` |
//! | MXNet, `Pooling_v1` | the same | [`Whole`](Divisor::Whole) | `pooling_v1-inl.h` |
//! | MXNet, `target_shape` | [`Window::shrunk`] | | `InferPad` in `nn/deconvolution-inl.h` |
//! | PyTorch | [`Down`](Rounding::Down); `ceil_mode`: [`UpInside`](Rounding::UpInside) | `count_include_pad`: [`Padded`](Divisor::Padded), else [`Inside`](Divisor::Inside) | `native/Pool.h`, `AvgPoolKernel.cpp`; recorded `avg_pool2d_ceil`, `max_pool3d_ceil` |
//! | PyTorch, `padding='same'` | [`Window::same`], with stride 1 | | `_convolution_same` in `native/Convolution.cpp`; recorded `conv2d_same` |
//! | Caffe2, `legacy_pad` 2 | one for each stride, from [`Window::lack`] | | `ComputeSizeAndPad` in `conv_pool_op_base.h`; recorded `conv_legacy_same`, `max_pool_same` |
//! | Caffe2, `legacy_pad` 3 | [`Up`](Rounding::Up); with padding [`UpInside`](Rounding::UpInside) | | the same; recorded `conv_legacy_caffe`, `average_pool_caffe` |
//! | ONNX since 19 | [`Down`](Rounding::Down); `ceil_mode`: [`UpInside`](Rounding::UpInside); kernels [fit](Window::fits) | `count_include_pad`: all up to the end of the padding, else [`Inside`](Divisor::Inside) | the schema of `AveragePool` |
//!
//! Numbers of windows are divided as in C, towards 0, except that MXNet rejects kernels that do not fit before. ONNX rejects
//! such kernels, too, and padding as large as a kernel.

use std::ops::Range;

use lodstone_model::Attribute;
use lodstone_schema::numbers::{exact, known_dims};
use lodstone_schema::places::at;
use lodstone_schema::{Code, Finding};

use super::{Graph, Value, int, ints, text};

type Outcome<T> = Result<T, Finding>;

/// The largest number of a window: frameworks hold them in 32 bits.
const LARGEST: i64 = i32::MAX as i64;

/// The maximum number of windows along an axis that are computed one by one.
const MAX_WINDOWS: i64 = 1 << 20;

/// How many windows there are where the last one does not end with the padded image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Those that are inside.
    Down,
    /// One more, which exceeds it.
    Up,
    /// One more, unless it begins in the padding at the end.
    UpInside,
    /// One for each stride that begins inside.
    Steps,
}

/// What the sum of a window is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Divisor {
    /// The size of the window.
    Whole,
    /// The elements of the image and its padding, which is as large at the end as at the begin. There may be none.
    Padded,
    /// The elements of the image. There may be none.
    Inside,
}

/// Padding as a program declares it.
#[derive(Clone, Debug)]
pub(crate) enum Padding {
    Explicit(Pads),
    /// As much as there are [windows](Window::same) for, which depends on the image.
    Same,
}

/// The padding of the spatial axes; a negative number crops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pads {
    pub(crate) begins: Vec<i64>,
    pub(crate) ends: Vec<i64>,
}

/// The windows along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    kernel: i64,
    stride: i64,
    dilation: i64,
    begin: i64,
    end: i64,
}

/// The windows along all spatial axes.
#[derive(Clone, Debug)]
pub(crate) struct Windows(Vec<Window>);

/// The finding of dims with which the arithmetic of windows overflows.
fn too_large() -> Finding {
    Finding::new(Code::Limit, "the windows are too large")
}

impl Padding {
    /// Returns the attribute of ONNX's operators.
    pub(crate) fn attribute(&self) -> Attribute {
        match self {
            Self::Explicit(pads) => pads.attribute(),
            Self::Same => text("auto_pad", "SAME_UPPER"),
        }
    }
}

impl Pads {
    /// No padding of `count` axes.
    pub(crate) fn none(count: usize) -> Self {
        Self::both(&vec![0; count])
    }

    /// The same padding at both ends.
    pub(crate) fn both(pads: &[i64]) -> Self {
        Self { begins: pads.to_vec(), ends: pads.to_vec() }
    }

    /// Returns the padding that is listed as in ONNX: the begins, then the ends.
    pub(crate) fn listed(pads: &[i64]) -> Outcome<Self> {
        let (begins, ends) = pads.split_at(pads.len() / 2);
        match begins.len() == ends.len() {
            true => Ok(Self { begins: begins.to_vec(), ends: ends.to_vec() }),
            false => Err(format!("expected pads of begins and ends, found {pads:?}").into()),
        }
    }

    /// Lists the padding as in ONNX.
    pub(crate) fn list(&self) -> Vec<i64> {
        [self.begins.as_slice(), &self.ends].concat()
    }

    /// Lists the padding of all axes of images, with batch and channels.
    pub(crate) fn of_images(&self) -> Vec<i64> {
        [&[0, 0], self.begins.as_slice(), &[0, 0], &self.ends].concat()
    }

    pub(crate) fn attribute(&self) -> Attribute {
        ints("pads", &self.list())
    }

    pub(crate) fn is_none(&self) -> bool {
        self.begins.iter().chain(&self.ends).all(|pad| *pad == 0)
    }

    /// Returns the padding with a function applied to each pair with one of another padding.
    fn with(&self, other: &Self, act: impl Fn(i64, i64) -> i64) -> Self {
        let each = |own: &[i64], other: &[i64]| {
            own.iter().zip(other).map(|(own, other)| act(*own, *other)).collect()
        };
        Self { begins: each(&self.begins, &other.begins), ends: each(&self.ends, &other.ends) }
    }

    /// Returns what this padding has more than another.
    pub(crate) fn beyond(&self, other: &Self) -> Self {
        self.with(other, i64::saturating_sub)
    }

    /// Returns what undoes the padding.
    pub(crate) fn undone(&self) -> Self {
        Self::none(self.begins.len()).beyond(self)
    }

    /// Returns the padding without what it crops, and what it crops.
    pub(crate) fn parts(&self) -> (Self, Self) {
        let zeros = Self::none(self.begins.len());
        (self.with(&zeros, i64::max), self.with(&zeros, i64::min))
    }
}

impl Window {
    pub(crate) fn kernel(self) -> i64 {
        self.kernel
    }

    pub(crate) fn stride(self) -> i64 {
        self.stride
    }

    /// Returns the padding at the begin.
    pub(crate) fn begin(self) -> i64 {
        self.begin
    }

    /// Returns the padding at the end.
    pub(crate) fn end(self) -> i64 {
        self.end
    }

    /// Returns the number of elements from the first to the last of a window.
    fn reach(self) -> i64 {
        (self.kernel - 1) * self.dilation + 1
    }

    /// Returns by how many elements the padded image exceeds a window; negative if it is smaller.
    fn room(self, dim: i64) -> Outcome<i64> {
        dim.checked_add(self.begin + self.end - self.reach()).ok_or_else(too_large)
    }

    /// Whether the padded image is not smaller than a window.
    pub(crate) fn fits(self, dim: i64) -> Outcome<bool> {
        Ok(self.room(dim)? >= 0)
    }

    /// Returns the number of windows, at least 1.
    pub(crate) fn count(self, dim: i64, rounding: Rounding) -> Outcome<i64> {
        let room = self.room(dim)?;
        let up = |room: i64| room.checked_add(self.stride - 1).map(|room| room / self.stride);
        let count = match rounding {
            Rounding::Down => (room / self.stride).checked_add(1),
            Rounding::Up => up(room).and_then(|steps| steps.checked_add(1)),
            Rounding::UpInside => {
                let begins_behind = |last: &i64| {
                    let begin = last.checked_mul(self.stride);
                    begin.is_some_and(|begin| begin - self.begin >= dim)
                };
                up(room).map(|last| if begins_behind(&last) { last } else { last + 1 })
            }
            Rounding::Steps => room.checked_add(self.reach()).and_then(up),
        };
        match count.ok_or_else(too_large)? {
            count @ 1.. => Ok(count),
            _ => Err(format!(
                "expected windows of at most {} elements, found {}",
                room.saturating_add(self.reach()),
                self.reach()
            )
            .into()),
        }
    }

    /// Returns the numbers of the windows, which are computed one by one.
    pub(crate) fn numbers(self, dim: i64, rounding: Rounding) -> Outcome<Range<i64>> {
        all(self.count(dim, rounding)?)
    }

    /// Returns the element that a tap of a window meets: in the padding, it is negative, or at least the dim. The numbers of
    /// windows are small.
    pub(crate) fn place(self, number: i64, tap: i64) -> i64 {
        number * self.stride - self.begin + tap * self.dilation
    }

    /// Returns the elements from the first to the last of a window.
    fn elements(self, number: i64) -> Range<i64> {
        let begin = self.place(number, 0);
        begin..begin + self.reach()
    }

    /// Returns the elements of the image that a window covers.
    pub(crate) fn inside(self, number: i64, dim: i64) -> Range<i64> {
        let elements = self.elements(number);
        elements.start.max(0)..elements.end.min(dim)
    }

    /// Returns, for each window, what its sum is divided by; 0 or less if there is nothing to divide.
    pub(crate) fn divisors(self, dim: i64, count: i64, divisor: Divisor) -> Outcome<Vec<i64>> {
        let one = |number: i64| {
            let elements = match divisor {
                Divisor::Whole => self.elements(number),
                Divisor::Inside => self.inside(number, dim),
                Divisor::Padded => {
                    let elements = self.elements(number);
                    elements.start..elements.end.min(dim.saturating_add(self.begin))
                }
            };
            elements.end - elements.start
        };
        Ok(all(count)?.map(one).collect())
    }

    /// Returns the padding at the end with which the last of some windows ends with the image; negative if it ends before.
    pub(crate) fn end_of(self, dim: i64, count: i64) -> Outcome<i64> {
        let last = count.checked_sub(1).and_then(|last| last.checked_mul(self.stride));
        let reach = last.and_then(|last| last.checked_add(self.reach()));
        let end = reach.and_then(|reach| reach.checked_sub(dim)?.checked_sub(self.begin));
        end.ok_or_else(too_large)
    }

    /// Returns the window with padding at the end with which a window fits, if it exceeds the image by less than a stride.
    fn extended(self, dim: i64) -> Outcome<Self> {
        let lack = -self.room(dim)?;
        let end = if (1..self.stride).contains(&lack) { self.end + lack } else { self.end };
        Ok(Self { end, ..self })
    }

    /// Returns the padding at the end with which there is a window in each stride; negative if none is needed.
    pub(crate) fn lack(self, dim: i64) -> Outcome<i64> {
        self.end_of(dim, self.count(dim, Rounding::Steps)?)
    }

    /// Returns the window over an image that has been padded.
    pub(crate) fn bare(self) -> Self {
        Self { begin: 0, end: 0, ..self }
    }

    /// Returns the window with padding for one window in each stride, the larger half at the end. With stride 1, that does
    /// not depend on the dim.
    fn same(self, dim: Option<i64>) -> Outcome<Self> {
        let total = match (self.stride, dim) {
            (1, _) => self.reach() - 1,
            (_, Some(dim)) => self.bare().lack(dim)?.max(0),
            (_, None) => return Err(Finding::new(Code::UnknownDims, "the dims must be known")),
        };
        Ok(Self { begin: total / 2, end: total - total / 2, ..self })
    }

    /// Returns the dim that a transposed convolution has.
    fn transposed(self, dim: i64) -> Outcome<i64> {
        let steps = dim.checked_sub(1).and_then(|steps| steps.checked_mul(self.stride));
        let dim = steps.and_then(|steps| steps.checked_add(self.reach() - self.begin - self.end));
        dim.ok_or_else(too_large)
    }

    /// Returns the window with padding at both ends with which a transposed convolution has a dim, and the elements that it
    /// adds at the end.
    fn shrunk(self, dim: i64, wanted: i64) -> Outcome<(Self, i64)> {
        let whole = self.bare().transposed(dim)?;
        let total = whole.checked_sub(wanted).ok_or_else(too_large)?;
        if total < 0 {
            return Err(format!("expected a dim of at most {whole}, found {wanted}").into());
        }
        let pad = (total + 1) / 2;
        Ok((Self { begin: pad, end: pad, ..self }, total % 2))
    }

    /// Returns the smallest dim that the window fits into with its padding.
    pub(crate) fn least(self) -> i64 {
        self.reach() - self.begin - self.end
    }

    /// Whether no window begins behind the image, whatever its dim.
    pub(crate) fn begins_inside(self) -> bool {
        self.end + self.stride <= self.reach()
    }
}

impl Windows {
    /// Creates windows: a number for each axis in every list.
    pub(crate) fn new(
        kernel: &[i64],
        strides: &[i64],
        dilations: &[i64],
        pads: &Pads,
    ) -> Outcome<Self> {
        let lists = [kernel, strides, dilations, &pads.begins, &pads.ends];
        if lists.iter().any(|list| list.len() != kernel.len()) {
            return Err(format!("expected {} numbers in each of {lists:?}", kernel.len()).into());
        }
        let least = [1, 1, 1, -LARGEST, -LARGEST];
        for (list, least) in lists.iter().zip(least) {
            if list.iter().any(|number| !(least..=LARGEST).contains(number)) {
                return Err(
                    format!("expected numbers from {least} to {LARGEST}, found {list:?}").into()
                );
            }
        }
        let sizes = kernel.iter().zip(strides).zip(dilations);
        let windows = sizes.zip(pads.begins.iter().zip(&pads.ends));
        let window = |(((kernel, stride), dilation), (begin, end)): (((&i64, &i64), &i64), _)| {
            let (begin, end): (&i64, &i64) = (begin, end);
            let (kernel, stride, dilation) = (*kernel, *stride, *dilation);
            Window { kernel, stride, dilation, begin: *begin, end: *end }
        };
        Ok(Self(windows.map(window).collect()))
    }

    /// Creates windows without dilation.
    pub(crate) fn of_pool(kernel: &[i64], strides: &[i64], pads: &Pads) -> Outcome<Self> {
        Self::new(kernel, strides, &vec![1; kernel.len()], pads)
    }

    /// Creates windows with declared padding; dims must be known if it depends on them, and then there is no dilation.
    pub(crate) fn padded(
        kernel: &[i64],
        strides: &[i64],
        dilations: &[i64],
        padding: &Padding,
        dims: Option<&[i64]>,
    ) -> Outcome<Self> {
        match padding {
            Padding::Explicit(pads) => Self::new(kernel, strides, dilations, pads),
            Padding::Same => Self::of_pool(kernel, strides, &Pads::none(kernel.len()))?.same(dims),
        }
    }

    fn each(&self, number: impl Fn(&Window) -> i64) -> Vec<i64> {
        self.0.iter().map(number).collect()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Window> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Returns the number of axes.
    pub(crate) fn rank(&self) -> usize {
        self.0.len()
    }

    /// Returns the windows along an axis.
    pub(crate) fn along(&self, axis: usize) -> Outcome<Window> {
        at(&self.0, axis)
    }

    /// Returns the windows with the dims that they slide over.
    ///
    /// # Errors
    /// If their number differs.
    pub(crate) fn over<'d>(
        &'d self,
        dims: &'d [i64],
    ) -> Outcome<impl ExactSizeIterator<Item = (Window, i64)> + Clone + 'd> {
        match dims.len() == self.0.len() {
            true => Ok(self.iter().zip(dims.iter().copied())),
            false => {
                Err(format!("expected {} spatial dims, found {}", self.0.len(), dims.len()).into())
            }
        }
    }

    pub(crate) fn kernel(&self) -> Vec<i64> {
        self.each(|window| window.kernel)
    }

    pub(crate) fn strides(&self) -> Vec<i64> {
        self.each(|window| window.stride)
    }

    pub(crate) fn dilations(&self) -> Vec<i64> {
        self.each(|window| window.dilation)
    }

    pub(crate) fn pads(&self) -> Pads {
        Pads { begins: self.each(|window| window.begin), ends: self.each(|window| window.end) }
    }

    /// Returns the windows over images that have been padded.
    pub(crate) fn bare(&self) -> Self {
        Self(self.iter().map(Window::bare).collect())
    }

    /// Returns the windows with other padding.
    pub(crate) fn with_pads(&self, pads: &Pads) -> Outcome<Self> {
        Self::new(&self.kernel(), &self.strides(), &self.dilations(), pads)
    }

    /// Returns windows that also slide over an axis of one element before the others.
    pub(crate) fn with_axis(&self) -> Self {
        let single = Window { kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0 };
        Self([&[single], self.0.as_slice()].concat())
    }

    /// Returns the number of elements of a window.
    pub(crate) fn size(&self) -> Outcome<i64> {
        let size = self.0.iter().try_fold(1_i64, |size, window| size.checked_mul(window.kernel));
        size.ok_or_else(too_large)
    }

    /// Fails if the padded image is smaller than a window.
    pub(crate) fn check_fit(&self, dims: &[i64]) -> Outcome<()> {
        for (window, dim) in self.over(dims)? {
            if !window.fits(dim)? {
                let (kernel, pads) = (self.kernel(), self.pads().list());
                let window = (kernel, pads);
                return Err(
                    format!("the window {window:?} does not fit an image of {dims:?}").into()
                );
            }
        }
        Ok(())
    }

    /// Returns the number of windows along each axis.
    pub(crate) fn counts(&self, dims: &[i64], rounding: Rounding) -> Outcome<Vec<i64>> {
        self.over(dims)?.map(|(window, dim)| window.count(dim, rounding)).collect()
    }

    /// Returns the dims that a transposed convolution has.
    pub(crate) fn transposed(&self, dims: &[i64]) -> Outcome<Vec<i64>> {
        self.over(dims)?.map(|(window, dim)| window.transposed(dim)).collect()
    }

    /// Returns the windows with [padding](Window::extended) for those that exceed the image by less than a stride.
    pub(crate) fn extended(&self, dims: &[i64]) -> Outcome<Self> {
        self.over(dims)?.map(|(window, dim)| window.extended(dim)).collect::<Outcome<_>>().map(Self)
    }

    /// Returns the windows with padding for [one in each stride](Window::same).
    pub(crate) fn same(&self, dims: Option<&[i64]>) -> Outcome<Self> {
        let padded: Outcome<Vec<Window>> = match dims {
            Some(dims) => self.over(dims)?.map(|(window, dim)| window.same(Some(dim))).collect(),
            None => self.iter().map(|window| window.same(None)).collect(),
        };
        padded.map(Self)
    }

    /// Returns the windows with padding with which a transposed convolution has these dims, and what it adds at the ends.
    pub(crate) fn shrunk(&self, dims: &[i64], wanted: &[i64]) -> Outcome<(Self, Vec<i64>)> {
        let each = self.over(dims)?.zip(wanted);
        let each = each.map(|((window, dim), wanted)| window.shrunk(dim, *wanted));
        let (windows, more): (Vec<Window>, Vec<i64>) =
            each.collect::<Outcome<Vec<_>>>()?.into_iter().unzip();
        Ok((Self(windows), more))
    }

    /// Returns the windows with padding at the ends that all of them fit into, and at least their own.
    pub(crate) fn whole(&self, dims: &[i64], rounding: Rounding) -> Outcome<Self> {
        let each = self.over(dims)?.map(|(window, dim)| {
            let end = window.end_of(dim, window.count(dim, rounding)?)?;
            Ok(Window { end: end.max(window.end), ..window })
        });
        each.collect::<Outcome<_>>().map(Self)
    }

    /// Returns windows over images of which as many fit as they have elements along each axis: those of PaddlePaddle's
    /// adaptive maxima. The padding at the ends may crop.
    pub(crate) fn as_many_as_elements(&self, dims: &[i64]) -> Outcome<Self> {
        let each = self
            .over(dims)?
            .map(|(window, dim)| Ok(Window { end: window.end_of(dim, window.kernel)?, ..window }));
        each.collect::<Outcome<_>>().map(Self)
    }

    /// Returns how many elements along each axis as many windows cover as they have elements, and windows over images of
    /// unknown dims with so much padding at the ends that all of them fit.
    pub(crate) fn as_many_of_any(&self) -> Outcome<(Vec<i64>, Self)> {
        let each = self.iter().map(|window| {
            let reach = window.bare().end_of(0, window.kernel)?;
            Ok((reach, Window { end: reach, ..window }))
        });
        let (reach, windows) = each.collect::<Outcome<Vec<_>>>()?.into_iter().unzip();
        Ok((reach, Self(windows)))
    }

    /// Returns the windows with padding at the ends that all of them fit into, of whatever dims.
    pub(crate) fn whole_of_any(&self, rounding: Rounding) -> Self {
        let more = |window: &Window| match rounding {
            Rounding::Down => 0,
            Rounding::Up | Rounding::UpInside => window.stride - 1,
            Rounding::Steps => window.reach() - 1,
        };
        Self(
            self.0
                .iter()
                .map(|window| Window { end: window.end + more(window), ..*window })
                .collect(),
        )
    }

    /// Whether no window begins behind the image, whatever the dims: then ONNX rounds their number up as others do.
    pub(crate) fn begin_inside(&self) -> bool {
        self.iter().all(Window::begins_inside)
    }

    /// Whether ONNX has this padding: less than a window, so that each window has elements of the image, and no cropping.
    pub(crate) fn is_native(&self) -> bool {
        let fits = |window: &Window| {
            let inside = 0..window.kernel;
            inside.contains(&window.begin) && inside.contains(&window.end)
        };
        self.0.iter().all(fits)
    }

    /// Returns attributes of ONNX's pools.
    pub(crate) fn of_pools(&self, is_ceil: bool) -> Vec<Attribute> {
        let mut attributes = vec![
            ints("kernel_shape", &self.kernel()),
            ints("strides", &self.strides()),
            self.pads().attribute(),
            int("ceil_mode", i64::from(is_ceil)),
        ];
        if self.iter().any(|window| window.dilation != 1) {
            attributes.push(ints("dilations", &self.dilations()));
        }
        attributes
    }
}

/// Returns the numbers of windows or bins that are computed one by one.
fn all(count: i64) -> Outcome<Range<i64>> {
    match (0..=MAX_WINDOWS).contains(&count) {
        true => Ok(0..count),
        false => {
            let what = format!("expected at most {MAX_WINDOWS} windows, found {count}");
            Err(Finding::new(Code::Limit, what))
        }
    }
}

impl Graph {
    /// Convolves: `kind` is `Conv` or `ConvTranspose`.
    pub(crate) fn convolve(
        &mut self,
        kind: &str,
        [x, weight]: [&Value; 2],
        bias: Option<&Value>,
        attributes: impl IntoIterator<Item = Attribute>,
    ) -> Outcome<Value> {
        let inputs = [Some(x), Some(weight)].into_iter().chain(bias.map(Some));
        let [y] = self.emit_all(kind, &inputs.collect::<Vec<_>>(), attributes)?;
        Ok(y)
    }
}

/// Fails unless images `[batch, channels, ..]` have a number of spatial axes.
pub(crate) fn check_images(x: &Value, spatial: usize) -> Outcome<()> {
    let rank = x.rank()?;
    match rank.count() == spatial + 2 {
        true => Ok(()),
        false => Err(format!("expected images of rank {}, found {rank}", spatial + 2).into()),
    }
}

/// Returns the spatial dims of images, if they are known.
pub(crate) fn spatial_dims(x: &Value) -> Option<Vec<i64>> {
    x.shape().ok()?.get(2..).and_then(known_dims)
}

/// Returns the number of spatial axes of images or weights.
pub(crate) fn spatial_axes(x: &Value) -> Outcome<usize> {
    exact(x.rank()?.number() - 2)
}

//! Sliding windows.

use std::iter::StepBy;
use std::ops::Range;

use crate::call::Call;
use crate::dims::{MAX_ELEMENTS, bounded, count, dim_at};
use crate::error::Outcome;

/// The choice of the padding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AutoPad {
    /// `pads` has it.
    NotSet,
    /// As many windows as strides begin in the input; an odd element is added at the end.
    SameUpper,
    /// The same, but an odd element is added at the beginning.
    SameLower,
    /// None.
    Valid,
}

impl AutoPad {
    fn of(call: &Call<'_>) -> Outcome<Self> {
        let meanings = [
            ("NOTSET", Self::NotSet),
            ("SAME_UPPER", Self::SameUpper),
            ("SAME_LOWER", Self::SameLower),
            ("VALID", Self::Valid),
            ("", Self::NotSet),
        ];
        call.choice("auto_pad", &meanings)
    }
}

/// The geometry of a window along each dim.
pub(crate) struct Windows {
    pub(crate) size: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) dilations: Vec<usize>,
    /// The padding before and after.
    pub(crate) pads: Vec<(usize, usize)>,
}

impl Windows {
    pub(crate) fn of(call: &Call<'_>, size: &[usize], dims: &[usize]) -> Outcome<Self> {
        let spatial = size.len();
        let list = |name: &str, otherwise: usize| match call.ints(name) {
            Some(values) => values.iter().map(|value| count(*value)).collect::<Outcome<Vec<_>>>(),
            None => Ok(vec![otherwise; spatial]),
        };
        let (strides, dilations) = (list("strides", 1)?, list("dilations", 1)?);
        let pads = match AutoPad::of(call)? {
            mode @ (AutoPad::SameUpper | AutoPad::SameLower) => {
                let lower = mode == AutoPad::SameLower;
                let one =
                    |(((dim, size), stride), dilation): (((&usize, &usize), &usize), &usize)| {
                        let steps = dim.div_ceil((*stride).max(1)).saturating_sub(1);
                        let reach = (size.max(&1) - 1).saturating_mul(*dilation).saturating_add(1);
                        let total = steps.saturating_mul(*stride).saturating_add(reach);
                        let total = total.saturating_sub(*dim);
                        let small = total / 2;
                        if lower { (total - small, small) } else { (small, total - small) }
                    };
                dims.iter().zip(size).zip(&strides).zip(&dilations).map(one).collect()
            }
            AutoPad::Valid => vec![(0, 0); spatial],
            AutoPad::NotSet if call.ints("pads").is_some() => {
                let pads = list("pads", 0)?;
                let sides = pads.split_at_checked(spatial).filter(|(_, end)| end.len() == spatial);
                let (begins, ends) = sides.ok_or_else(|| {
                    format!("expected {} pads, found {}", 2 * spatial, pads.len())
                })?;
                begins.iter().copied().zip(ends.iter().copied()).collect()
            }
            AutoPad::NotSet => vec![(0, 0); spatial],
        };
        // Within these limits no later computation overflows.
        let all = size.iter().chain(&strides).chain(&dilations).chain(dims);
        let sides = pads.iter().flat_map(|(begin, end)| [begin, end]);
        if all.chain(sides).any(|one| *one > MAX_ELEMENTS) {
            return Err(format!("windows of {size:?} over {dims:?} are too large").into());
        }
        let fits = strides.len() == spatial && dilations.len() == spatial && dims.len() == spatial;
        if !fits || strides.contains(&0) || dilations.contains(&0) || size.contains(&0) {
            return Err("expected strides and dilations above 0".into());
        }
        Ok(Self { size: size.to_vec(), strides, dilations, pads })
    }

    /// Returns the dilated size of the window in each dim.
    pub(crate) fn reach(&self) -> Vec<usize> {
        self.size.iter().zip(&self.dilations).map(|(size, by)| (size - 1) * by + 1).collect()
    }
}

pub(crate) fn spatial(shape: &[usize]) -> Outcome<&[usize]> {
    shape.get(2..).ok_or_else(|| "expected batch and channel dims".into())
}

impl Windows {
    /// Returns the number of windows along each dim.
    pub(crate) fn steps(&self, dims: &[usize]) -> Outcome<Vec<usize>> {
        let sides = dims.iter().zip(&self.pads).zip(self.reach()).zip(&self.strides);
        sides
            .map(|(((dim, pad), reach), stride)| {
                let rest = (dim + pad.0 + pad.1).checked_sub(reach);
                let rest = rest.ok_or_else(|| format!("window {reach} exceeds dim {dim}"))?;
                Ok(rest / stride + 1)
            })
            .collect()
    }

    /// Returns the index in the image of each element of each window, the first elements of all windows first; `None`
    /// in the padding.
    pub(crate) fn places(&self, image: &[usize], steps: &[usize]) -> Vec<Option<usize>> {
        // One dim after the other: the places of the dims so far, by element and by window.
        let mut places = vec![vec![Some(0)]];
        let sides = image.iter().zip(steps).zip(self.size.iter().zip(&self.dilations));
        let moves = self.strides.iter().zip(&self.pads);
        for (((dim, steps), (size, dilation)), (stride, pad)) in sides.zip(moves) {
            let at = |element: usize, step: usize| {
                let place = (element * dilation + step * stride).checked_sub(pad.0);
                place.filter(|place| place < dim)
            };
            let next = |(old, element): (&Vec<Option<usize>>, usize)| {
                let each = old.iter().flat_map(|old| {
                    (0..*steps).map(move |step| Some((*old)? * dim + at(element, step)?))
                });
                each.collect::<Vec<_>>()
            };
            places = places
                .iter()
                .flat_map(|old| (0..*size).map(move |element| (old, element)))
                .map(next)
                .collect();
        }
        places.concat()
    }

    /// Returns the indices along an axis of the input that each of `steps` windows has, without the padding.
    pub(crate) fn elements(
        &self,
        axis: usize,
        dim: usize,
        steps: usize,
    ) -> Outcome<Vec<StepBy<Range<usize>>>> {
        let Self { size, strides, dilations, pads } = self;
        let befores: Vec<usize> = pads.iter().map(|(before, _)| *before).collect();
        let (before, stride) = (dim_at(&befores, axis)?, dim_at(strides, axis)?);
        let (size, apart) = (dim_at(size, axis)?, dim_at(dilations, axis)?);
        let one = |step: usize| {
            let begin = step * stride;
            let skipped = before.saturating_sub(begin).div_ceil(apart) * apart;
            let end = begin + (size - 1) * apart + 1;
            let start = (begin + skipped).min(end).saturating_sub(before);
            (start..end.saturating_sub(before).min(dim)).step_by(apart)
        };
        Ok((0..steps).map(one).collect())
    }

    /// Checks that the result of a convolution can be created.
    pub(crate) fn check(&self, shape: &[usize], filter: &[usize], groups: usize) -> Outcome<()> {
        let ([examples, channels, dims @ ..], [results, each, ..]) = (shape, filter) else {
            return Err("expected batch and channel dims".into());
        };
        let fits = each.checked_mul(groups) == Some(*channels) && results.is_multiple_of(groups);
        if groups == 0 || !fits || shape.contains(&0) || filter.contains(&0) {
            return Err(
                format!("filter {filter:?} in {groups} groups does not fit {shape:?}").into()
            );
        }
        let mut whole = vec![*examples, *results];
        for (((dim, pad), reach), stride) in
            dims.iter().zip(&self.pads).zip(self.reach()).zip(&self.strides)
        {
            let rest = (dim + pad.0 + pad.1).checked_sub(reach);
            let rest = rest.ok_or_else(|| format!("window {reach} exceeds dim {dim}"))?;
            whole.push(rest / stride + 1);
        }
        bounded(&whole).map(|_| ())
    }

    /// Returns the windows of a transposed convolution, whose padding is cropped, and the number of elements that are added
    /// at the end of each spatial dim.
    ///
    /// # Errors
    /// If the result cannot be created.
    pub(crate) fn transposed(
        call: &Call<'_>,
        shape: &[usize],
        filter: &[usize],
    ) -> Outcome<(Self, Vec<usize>)> {
        let dims = spatial(shape)?;
        let mut windows = Self::of(call, spatial(filter)?, dims)?;
        let groups = count(call.int("group", 1))?;
        let mut more: Vec<usize> = match call.ints("output_padding") {
            Some(more) => more.iter().map(|one| count(*one)).collect::<Outcome<_>>()?,
            None => vec![0; windows.size.len()],
        };
        windows.fit_output(call, dims, &mut more)?;
        windows.check_transposed(shape, filter, groups, &more)?;
        Ok((windows, more))
    }

    /// Returns the spatial dims of the result of a transposed convolution.
    ///
    /// # Errors
    /// If more is cropped than there is.
    pub(crate) fn transposed_dims(&self, dims: &[usize], more: &[usize]) -> Outcome<Vec<usize>> {
        let mut made = Vec::with_capacity(dims.len());
        for ((((dim, stride), reach), (begin, end)), more) in
            dims.iter().zip(&self.strides).zip(self.reach()).zip(&self.pads).zip(more)
        {
            let whole = dim.saturating_sub(1) * stride + reach;
            let left = (whole + more).checked_sub(begin + end).filter(|_| *begin <= whole);
            made.push(left.ok_or("the padding crops more than the result")?);
        }
        Ok(made)
    }

    /// Sets the padding so that the result of a transposed convolution has the requested dims.
    fn fit_output(&mut self, call: &Call<'_>, dims: &[usize], more: &mut [usize]) -> Outcome<()> {
        let mode = AutoPad::of(call)?;
        let same = matches!(mode, AutoPad::SameUpper | AutoPad::SameLower);
        let asked: Vec<usize> = match call.ints("output_shape") {
            Some(asked) => {
                let skipped = asked.len().saturating_sub(dims.len());
                asked.iter().skip(skipped).map(|dim| count(*dim)).collect::<Outcome<_>>()?
            }
            None if same => {
                dims.iter().zip(&self.strides).map(|(dim, by)| dim.saturating_mul(*by)).collect()
            }
            None => return Ok(()),
        };
        let reach = self.reach();
        let sides = dims.iter().zip(&self.strides).zip(reach).zip(&mut self.pads).zip(more);
        for (asked, ((((dim, stride), reach), pad), more)) in asked.iter().zip(sides) {
            let steps = dim.saturating_sub(1).saturating_mul(*stride);
            let whole = steps.saturating_add(reach).saturating_add(*more);
            let total = whole.saturating_sub(*asked);
            let (small, large) = (total / 2, total - total / 2);
            *pad = match mode {
                AutoPad::SameUpper => (small, large),
                AutoPad::SameLower | AutoPad::NotSet | AutoPad::Valid => (large, small),
            };
            *more = more.saturating_add(asked.saturating_sub(whole));
        }
        Ok(())
    }

    /// Checks that the result of a transposed convolution can be created.
    fn check_transposed(
        &self,
        shape: &[usize],
        filter: &[usize],
        groups: usize,
        more: &[usize],
    ) -> Outcome<()> {
        let ([examples, inputs, ..], [same, channels, ..]) = (shape, filter) else {
            return Err("expected batch and channel dims".into());
        };
        if inputs != same || !inputs.is_multiple_of(groups.max(1)) {
            let what = format!("filter {filter:?} in {groups} groups does not fit {shape:?}");
            return Err(what.into());
        }
        if groups == 0 || shape.contains(&0) || filter.contains(&0) {
            return Err(format!("{shape:?} in {groups} groups has no elements to convolve").into());
        }
        let mut whole = vec![*examples, channels.saturating_mul(groups)];
        let sides = shape.iter().skip(2).zip(&self.strides).zip(self.reach()).zip(more);
        whole.extend(sides.map(|(((dim, stride), reach), more)| {
            (dim - 1).saturating_mul(*stride).saturating_add(reach).saturating_add(*more)
        }));
        bounded(&whole).map(|_| ())
    }

    /// Pads the end of each dim so that its last window is complete; a window that would start beyond the tensor is
    /// dropped.
    pub(crate) fn round_up(&mut self, dims: &[usize]) {
        let reach = self.reach();
        for (((pad, dim), reach), stride) in
            self.pads.iter_mut().zip(dims).zip(reach).zip(&self.strides)
        {
            let whole = dim + pad.0 + pad.1;
            let Some(rest) = whole.checked_sub(reach) else { continue };
            let mut steps = rest.div_ceil(*stride);
            if steps * stride >= dim + pad.0 {
                steps = steps.saturating_sub(1);
            }
            pad.1 += (steps * stride + reach).saturating_sub(whole);
        }
    }
}

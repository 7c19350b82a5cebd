//! Convolutions and pooling.

use burn_backend::Backend;
use burn_backend::ops::{ConvOptions, ConvTransposeOptions, PadMode};
use burn_backend::tensor::FloatTensor;

use super::{Call, Run, count};
use crate::item::{Item, Outcome, burn_type, device};

type One<B> = Outcome<Vec<Item<B>>>;

pub(super) fn kernel<B: Backend>(kind: &str) -> Option<Run<B>> {
    Some(match kind {
        "AveragePool" => |call| pool(call, false),
        "Conv" => conv,
        "ConvTranspose" => conv_transpose,
        "GlobalAveragePool" => |call| global(call, B::float_mean_dim),
        "GlobalMaxPool" => |call| global(call, B::float_max_dim),
        "MaxPool" => |call| pool(call, true),
        _ => return None,
    })
}

/// How a window goes over each extent.
struct Windows {
    size: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    /// What is added before and behind.
    pads: Vec<(usize, usize)>,
}

impl Windows {
    fn of<B: Backend>(call: &Call<'_, B>, size: &[usize], dims: &[usize]) -> Outcome<Self> {
        let extents = size.len();
        let list = |name: &str, otherwise: usize| match call.ints(name) {
            Some(values) => values.iter().map(|value| count(*value)).collect::<Outcome<Vec<_>>>(),
            None => Ok(vec![otherwise; extents]),
        };
        let (strides, dilations) = (list("strides", 1)?, list("dilations", 1)?);
        let pads = list("pads", 0)?;
        let pads = match call.text("auto_pad").as_deref() {
            Some("SAME_UPPER" | "SAME_LOWER") => {
                let lower = call.text("auto_pad").as_deref() == Some("SAME_LOWER");
                let one =
                    |(((dim, size), stride), dilation): (((&usize, &usize), &usize), &usize)| {
                        let steps = dim.div_ceil((*stride).max(1)).saturating_sub(1);
                        let reach = (size.max(&1) - 1) * dilation + 1;
                        let total = (steps * stride + reach).saturating_sub(*dim);
                        let small = total / 2;
                        if lower { (total - small, small) } else { (small, total - small) }
                    };
                dims.iter().zip(size).zip(&strides).zip(&dilations).map(one).collect()
            }
            Some("VALID") => vec![(0, 0); extents],
            _ if pads.len() == 2 * extents => {
                let (begins, ends) = pads.split_at(extents);
                begins.iter().copied().zip(ends.iter().copied()).collect()
            }
            _ => vec![(0, 0); extents],
        };
        let fits = strides.len() == extents && dilations.len() == extents && dims.len() == extents;
        if !fits || strides.contains(&0) || dilations.contains(&0) || size.contains(&0) {
            return Err("expected a step and a distance above 0 for each extent".to_owned());
        }
        Ok(Self { size: size.to_vec(), strides, dilations, pads })
    }

    /// How far a window reaches in each extent.
    fn reach(&self) -> Vec<usize> {
        self.size.iter().zip(&self.dilations).map(|(size, by)| (size - 1) * by + 1).collect()
    }
}

/// So many numbers, as an array.
fn fixed<T: Copy, const N: usize>(values: &[T]) -> Outcome<[T; N]> {
    values.try_into().map_err(|_| format!("expected {N} extents, found {}", values.len()))
}

fn spatial(shape: &[usize]) -> Outcome<&[usize]> {
    shape.get(2..).ok_or_else(|| "expected examples and channels".to_owned())
}

fn conv<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let (x, filter) = (call.input(0)?, call.input(1)?);
    let (shape, size) = (x.shape(), filter.shape());
    let windows = Windows::of(call, spatial(&size)?, spatial(&shape)?)?;
    let groups = count(call.int("group", 1))?;
    let bias = call.optional(2).map(Item::float).transpose()?;
    let (x, filter) = (x.float()?, filter.float()?);
    fn options<const N: usize>(windows: &Windows, groups: usize) -> Outcome<ConvOptions<N>> {
        let Windows { strides, dilations, pads, .. } = windows;
        Ok(ConvOptions {
            stride: fixed(strides)?,
            padding: fixed(pads)?,
            dilation: fixed(dilations)?,
            groups,
        })
    }
    let y = match windows.size.len() {
        1 => B::conv1d(x, filter, bias, options(&windows, groups)?),
        2 => B::conv2d(x, filter, bias, options(&windows, groups)?),
        3 => B::conv3d(x, filter, bias, options(&windows, groups)?),
        other => return Err(format!("expected 1 to 3 extents to convolve over, found {other}")),
    };
    Ok(vec![Item::Float(y)])
}

/// What is cut off differently at both ends is cut off afterwards.
fn conv_transpose<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let (x, filter) = (call.input(0)?, call.input(1)?);
    let (shape, size) = (x.shape(), filter.shape());
    let windows = Windows::of(call, spatial(&size)?, spatial(&shape)?)?;
    let groups = count(call.int("group", 1))?;
    let bias = call.optional(2).map(Item::float).transpose()?;
    let more: Vec<usize> = match call.ints("output_padding") {
        Some(more) => more.iter().map(|one| count(*one)).collect::<Outcome<_>>()?,
        None => vec![0; windows.size.len()],
    };
    let (x, filter) = (x.float()?, filter.float()?);
    fn options<const N: usize>(w: &Windows, groups: usize) -> Outcome<ConvTransposeOptions<N>> {
        Ok(ConvTransposeOptions {
            stride: fixed(&w.strides)?,
            padding: [0; N],
            padding_out: [0; N],
            dilation: fixed(&w.dilations)?,
            groups,
        })
    }
    let y = match windows.size.len() {
        1 => B::conv_transpose1d(x, filter, bias.clone(), options(&windows, groups)?),
        2 => B::conv_transpose2d(x, filter, bias.clone(), options(&windows, groups)?),
        3 => B::conv_transpose3d(x, filter, bias.clone(), options(&windows, groups)?),
        other => return Err(format!("expected 1 to 3 extents to convolve over, found {other}")),
    };
    let mut y = Item::<B>::Float(y);
    for (at, ((begin, end), more)) in (2..).zip(windows.pads.iter().zip(&more)) {
        let dim = y.shape().get(at).copied().unwrap_or(0);
        let end = end.saturating_sub(*more);
        if begin + end > dim {
            return Err("more is cut off than there is".to_owned());
        }
        let extra = more.saturating_sub(windows.pads.get(at - 2).map_or(0, |pad| pad.1));
        y = y.narrowed(at, *begin, dim - end);
        if extra > 0 {
            y = padded_with(y, at, extra, bias.as_ref())?;
        }
    }
    Ok(vec![y])
}

/// Behind what was computed lies the bias alone.
fn padded_with<B: Backend>(
    y: Item<B>,
    at: usize,
    extra: usize,
    bias: Option<&FloatTensor<B>>,
) -> Outcome<Item<B>> {
    let mut shape = y.shape();
    if let Some(dim) = shape.get_mut(at) {
        *dim = extra;
    }
    let to = crate::item::burn_type(y.dtype()?)?;
    let behind = match bias {
        Some(bias) => {
            let channels = shape.get(1).copied().unwrap_or(1);
            let dims = (0..shape.len()).map(|at| if at == 1 { channels } else { 1 }).collect();
            Item::<B>::Float(bias.clone()).reshaped(dims)
        }
        None => {
            let zero = Item::from_data(burn_backend::TensorData::new(vec![0f32], [1]));
            super::tensor::converted(zero, to)?.reshaped(vec![1; shape.len()])
        }
    };
    Item::concatenated(vec![y, behind.expanded(&shape)], at)
}

fn global<B: Backend>(
    call: &Call<'_, B>,
    of: fn(FloatTensor<B>, usize) -> FloatTensor<B>,
) -> One<B> {
    let x = call.input(0)?;
    let rank = x.shape().len();
    Ok(vec![Item::Float((2..rank).fold(x.float()?, of))])
}

/// What is outside of the tensor is added to it before: so windows may begin and end anywhere.
fn pool<B: Backend>(call: &Call<'_, B>, is_max: bool) -> One<B> {
    let x = call.input(0)?;
    let shape = x.shape();
    let dims = spatial(&shape)?.to_vec();
    let size = call.ints("kernel_shape").ok_or("it has no `kernel_shape`")?;
    let size: Vec<usize> = size.iter().map(|one| count(*one)).collect::<Outcome<_>>()?;
    let mut windows = Windows::of(call, &size, &dims)?;
    let given = windows.pads.clone();
    if call.int("ceil_mode", 0) != 0 {
        windows.round_up(&dims);
    }
    if call.outputs() > 1 {
        return Err("places of maxima are not computed".to_owned());
    }
    let rank = dims.len();
    let padded = |x: FloatTensor<B>, pads: &[(usize, usize)], with: f32| match pads
        .iter()
        .all(|pad| *pad == (0, 0))
    {
        true => x,
        false => {
            let all = [&[(0, 0), (0, 0)], pads].concat();
            B::float_pad(x, &all, PadMode::Constant(with))
        }
    };
    let two = |values: &[usize]| -> Outcome<[usize; 2]> {
        match values {
            [one] => Ok([1, *one]),
            other => fixed(other),
        }
    };
    if rank > 2 {
        return Err(format!("expected 1 or 2 extents to pool over, found {rank}"));
    }
    let lines = |x: FloatTensor<B>| match rank {
        1 => {
            let mut dims = Item::<B>::Float(x.clone()).shape();
            dims.insert(2, 1);
            B::float_reshape(x, dims.into())
        }
        _ => x,
    };
    let (size, strides, dilations) =
        (two(&windows.size)?, two(&windows.strides)?, two(&windows.dilations)?);
    let dtype = burn_type(x.dtype()?)?.into();
    let x = x.float()?;
    let y = if is_max {
        let x = lines(padded(x, &windows.pads, f32::NEG_INFINITY));
        B::max_pool2d(x, size, strides, [0, 0], dilations, false)
    } else {
        if dilations != [1, 1] {
            return Err("means of elements that lie apart are not computed".to_owned());
        }
        let whole = windows.pads.clone();
        let mean = |x: FloatTensor<B>| B::avg_pool2d(lines(x), size, strides, [0, 0], true, false);
        let sum = mean(padded(x.clone(), &whole, 0.0));
        // How much of each window counts.
        let counts_pads = call.int("count_include_pad", 0) != 0;
        let everything = whole.iter().all(|pad| *pad == (0, 0)) || (counts_pads && whole == given);
        if everything {
            sum
        } else {
            let alone = [&[1, 1], dims.as_slice()].concat();
            let one = B::float_ones(alone.into(), &device::<B>(), dtype);
            let (inside, rest) = match counts_pads {
                true => {
                    let beyond = whole.iter().zip(&given);
                    let beyond: Vec<_> =
                        beyond.map(|(all, given)| (0, all.1.saturating_sub(given.1))).collect();
                    (padded(one, &given, 1.0), beyond)
                }
                false => (one, whole.clone()),
            };
            let share = Item::<B>::Float(mean(padded(inside, &rest, 0.0)));
            let shape = Item::<B>::Float(sum.clone()).shape();
            B::float_div(sum, share.expanded(&shape).float()?)
        }
    };
    let y = Item::<B>::Float(y);
    let mut shape = y.shape();
    if rank == 1 {
        shape.remove(2);
    }
    Ok(vec![y.reshaped(shape)])
}

impl Windows {
    /// Adds as much behind each extent as makes its last window a whole one; one that would begin behind the
    /// tensor is none.
    fn round_up(&mut self, dims: &[usize]) {
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

//! The windows of pooling operators.

use super::windows::{Windows, spatial};
use crate::call::Call;
use crate::dims::{bounded, count};
use crate::error::Outcome;

/// The maximum number of elements of a window; each is one step of the computation.
const MAX_STEPS: usize = 1 << 16;

/// The windows of a pooling operator.
pub(crate) struct Pooling {
    pub(crate) windows: Windows,
    /// The attributes of the operator, before the last windows were completed.
    pub(crate) given: Vec<(usize, usize)>,
    /// The dims of the batch and channels.
    pub(crate) front: Vec<usize>,
    pub(crate) dims: Vec<usize>,
    /// The number of windows along each dim.
    pub(crate) steps: Vec<usize>,
}

impl Pooling {
    /// Returns the windows of a pooling operator.
    ///
    /// # Errors
    /// If they do not fit the input.
    pub(crate) fn of(call: &Call<'_>) -> Outcome<Self> {
        let shape = call.input(0)?.shape();
        let dims = spatial(&shape)?.to_vec();
        let (front, _) = shape.split_at(shape.len() - dims.len());
        let size = call.ints("kernel_shape").ok_or("expected a `kernel_shape`, found none")?;
        let size: Vec<usize> = size.iter().map(|one| count(*one)).collect::<Outcome<_>>()?;
        let mut windows = Windows::of(call, &size, &dims)?;
        let given = windows.pads.clone();
        if call.int("ceil_mode", 0) != 0 {
            windows.round_up(&dims);
        }
        let mut steps = Vec::new();
        for (((dim, pad), reach), stride) in
            dims.iter().zip(&windows.pads).zip(windows.reach()).zip(&windows.strides)
        {
            let whole = dim + pad.0 + pad.1;
            let rest = whole.checked_sub(reach).filter(|_| *dim > 0);
            steps.push(
                rest.ok_or_else(|| format!("window {reach} exceeds dim {whole}"))? / stride + 1,
            );
        }
        bounded(&[front, &steps].concat())?;
        let whole = dims.iter().zip(&windows.pads).map(|(dim, pad)| dim + pad.0 + pad.1);
        bounded(&[front, &whole.collect::<Vec<_>>()].concat())?;
        if windows
            .size
            .iter()
            .try_fold(1_usize, |all, one| all.checked_mul(*one))
            .is_none_or(|all| all > MAX_STEPS)
        {
            return Err(format!("windows of {:?} are too large", windows.size).into());
        }
        let front = front.to_vec();
        Ok(Self { windows, given, front, dims, steps })
    }
}

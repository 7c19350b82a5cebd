//! Operators that regroup the channels of images.

use lodstone_model::Dim;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("channel_shuffle", channel_shuffle),
    ("maxout", maxout),
    ("pixel_unshuffle", pixel_unshuffle),
    ("space_to_depth", space_to_depth),
];

/// The maximum number of channels of which `maxout` selects one: each becomes operators.
const MAX_GROUPS: i64 = 1 << 10;

impl Operator<'_> {
    /// Splits the dim of an axis into two, one of which may be -1, the rest.
    fn split_dim(&mut self, x: &Value, axis: usize, parts: [i64; 2]) -> Outcome<Value> {
        let known = |dim: &Dim| match dim {
            Dim::Known(dim) => i64::try_from(*dim).ok(),
            _ => None,
        };
        let dims: Vec<Option<i64>> = x.shape()?.iter().map(known).collect();
        let (before, rest) = dims.split_at(axis.min(dims.len()));
        let after = rest
            .get(1..)
            .ok_or_else(|| format!("expected an axis below rank {}, found {axis}", dims.len()))?;
        let part = parts.into_iter().find(|part| *part > 0).unwrap_or(1);
        let parts = match rest.first() {
            Some(Some(dim)) if dim % part == 0 => {
                parts.map(|size| if size < 0 { dim / part } else { size })
            }
            Some(Some(dim)) => return Err(format!("{dim} channels are no groups of {part}").into()),
            _ => parts,
        };
        let all = [before, &parts.map(Some), after].concat();
        if let Some(dims) = all.into_iter().collect::<Option<Vec<i64>>>() {
            return self.reshape(x, &dims);
        }
        let place = i64::try_from(axis).unwrap_or(i64::MAX);
        let before = self.call("Shape", &[x], [int("start", 0), int("end", place)])?;
        let after = self.call("Shape", &[x], [int("start", place.saturating_add(1))])?;
        let parts = self.longs(&parts);
        let dims = self.concat(&[&before, &parts, &after], 0)?;
        self.call("Reshape", &[x, &dims], [])
    }

    /// Transposes the channels of an image as a matrix with the given numbers of rows and columns, one of which is -1.
    fn channels_turned(&mut self, x: &Value, axis: usize, parts: [i64; 2]) -> Outcome<Value> {
        let split = self.split_dim(x, axis, parts)?;
        let mut order: Vec<i64> = (0..).take(split.rank()?).collect();
        order.swap(axis, axis + 1);
        let turned = self.transpose(&split, &order)?;
        self.reshape_as(&turned, x)
    }

    fn positive(&self, name: &str) -> Outcome<i64> {
        match self.int(name)? {
            number @ 1.. => Ok(number),
            other => Err(format!("expected at least 1 as `{name}`, found {other}").into()),
        }
    }
}

/// Transposes groups of channels and the channels of a group.
fn channel_shuffle(op: &mut Operator<'_>) -> Outcome {
    let (x, groups) = (op.input("X")?, op.positive("groups")?);
    let axis = if op.channels_last("data_format")? { 3 } else { 1 };
    let y = op.channels_turned(&x, axis, [groups, -1])?;
    op.put("Out", &y)
}

/// The maximum of each `groups` consecutive channels. It begins with the lowest number of single precision, and is
/// replaced by each channel unless it is greater, also if either is NaN.
fn maxout(op: &mut Operator<'_>) -> Outcome {
    let (x, groups) = (op.input("X")?, op.positive("groups")?);
    let axis = op.place(op.int("axis")?, &x)?;
    let place = usize::try_from(axis).unwrap_or(usize::MAX);
    let split = op.split_dim(&x, place, [-1, groups])?;
    if op.is_exported() {
        let y = op.reduce("ReduceMax", &split, &[axis + 1], false)?;
        return op.put("Out", &y);
    }
    if groups > MAX_GROUPS {
        return Err(format!("expected at most {MAX_GROUPS} `groups`, found {groups}").into());
    }
    let mut most = op.number(x.dtype(), f32::MIN.into())?;
    for number in 0..groups {
        let number = op.long(number);
        let channel = op.gather(&split, &number, axis + 1)?;
        let is_greater = op.call("Greater", &[&most, &channel], [])?;
        most = op.choose(&is_greater, &most, &channel)?;
    }
    op.put("Out", &most)
}

/// Moves the pixels of square blocks to channels: those of a channel are consecutive, while ONNX interleaves them.
fn pixel_unshuffle(op: &mut Operator<'_>) -> Outcome {
    let (x, factor) = (op.input("X")?, op.positive("downscale_factor")?);
    let last = op.channels_last("data_format")?;
    let x = if last { op.channels_to_front(&x)? } else { x };
    let blocks = op.call("SpaceToDepth", &[&x], [int("blocksize", factor)])?;
    let pixels = factor.checked_mul(factor).ok_or("`downscale_factor` is too large")?;
    let y = op.channels_turned(&blocks, 1, [pixels, -1])?;
    let y = if last { op.channels_to_back(&y)? } else { y };
    op.put("Out", &y)
}

/// PaddlePaddle's kernel moves channels to the pixels of square blocks, the opposite of what its name promises, and gives
/// the result the dims of the announced operation.
fn space_to_depth(op: &mut Operator<'_>) -> Outcome {
    let (x, size) = (op.input("X")?, op.positive("blocksize")?);
    if x.rank()? != 4 {
        return Err(format!("expected images, found rank {}", x.rank()?).into());
    }
    let [channels, rows, columns] =
        [op.known_dim(&x, 1)?, op.known_dim(&x, 2)?, op.known_dim(&x, 3)?];
    let pixels = size.checked_mul(size).ok_or("`blocksize` is too large")?;
    if channels % pixels != 0 || rows % size != 0 || columns % size != 0 {
        let found = [channels, rows, columns];
        return Err(format!("expected multiples of `blocksize` {size}, found {found:?}").into());
    }
    let large = op.call("DepthToSpace", &[&x], [int("blocksize", size)])?;
    let channels = channels.checked_mul(pixels).ok_or("`blocksize` is too large")?;
    let y = op.reshape(&large, &[-1, channels, rows / size, columns / size])?;
    op.put("Out", &y)
}

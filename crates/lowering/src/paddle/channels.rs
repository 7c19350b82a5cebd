//! Operators that regroup the channels of images.

use lodstone_schema::Finding;
use lodstone_schema::numbers::{Axis, known};

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::required::required_dim;
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
    /// Splits the dim of an axis into two, one of which is -1, the rest.
    fn split_dim(&mut self, x: &Value, axis: Axis, parts: [i64; 2]) -> Outcome<Value> {
        let dims = x.shape()?.iter().map(known).collect::<Outcome<Vec<Option<i64>>>>()?;
        let Some((before, [dim, after @ ..])) = dims.split_at_checked(axis.index()) else {
            return Err(Finding::internal(format!("axis {axis} is out of range of {dims:?}")));
        };
        let part = parts[0].max(parts[1]);
        let parts = match dim {
            Some(dim) if dim % part == 0 => {
                parts.map(|size| if size < 0 { dim / part } else { size })
            }
            Some(dim) => return Err(format!("{dim} channels are no groups of {part}").into()),
            None => parts,
        };
        let all = [before, &parts.map(Some), after].concat();
        if let Some(dims) = all.into_iter().collect::<Option<Vec<i64>>>() {
            return self.reshape(x, &dims);
        }
        let axis = axis.number();
        let before = self.call("Shape", &[x], [int("start", 0), int("end", axis)])?;
        let after = self.call("Shape", &[x], [int("start", axis + 1)])?;
        let parts = self.longs(&parts);
        let dims = self.concat(&[&before, &parts, &after], 0)?;
        self.call("Reshape", &[x, &dims], [])
    }

    /// Transposes the channels of an image as a matrix with the given numbers of rows and columns, one of which is -1.
    fn channels_turned(&mut self, x: &Value, axis: i64, parts: [i64; 2]) -> Outcome<Value> {
        let axis = x.rank()?.axis(axis)?;
        let split = self.split_dim(x, axis, parts)?;
        let mut order: Vec<i64> = split.rank()?.numbers().collect();
        order.swap(axis.index(), axis.index() + 1);
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
    let axis = op.layout("data_format")?.channels(&x)?;
    let y = op.channels_turned(&x, axis, [groups, -1])?;
    op.put("Out", &y)
}

/// The maximum of each `groups` consecutive channels. It begins with the lowest number of single precision, and is
/// replaced by each channel unless it is greater, also if either is NaN.
fn maxout(op: &mut Operator<'_>) -> Outcome {
    let (x, groups) = (op.input("X")?, op.positive("groups")?);
    let axis = x.rank()?.axis(op.int("axis")?)?;
    let split = op.split_dim(&x, axis, [-1, groups])?;
    let part = axis.number() + 1;
    if op.is_exported() {
        let y = op.reduce("ReduceMax", &split, &[part], false)?;
        return op.put("Out", &y);
    }
    if groups > MAX_GROUPS {
        return Err(format!("expected at most {MAX_GROUPS} `groups`, found {groups}").into());
    }
    let mut most = op.number(x.dtype(), f32::MIN.into())?;
    for number in 0..groups {
        let number = op.long(number);
        let channel = op.gather(&split, &number, part)?;
        let is_greater = op.call("Greater", &[&most, &channel], [])?;
        most = op.choose(&is_greater, &most, &channel)?;
    }
    op.put("Out", &most)
}

/// Moves the pixels of square blocks to channels: those of a channel are consecutive, while ONNX interleaves them.
fn pixel_unshuffle(op: &mut Operator<'_>) -> Outcome {
    let (x, factor) = (op.input("X")?, op.positive("downscale_factor")?);
    let layout = op.layout("data_format")?;
    let x = op.channels_first(&x, layout)?;
    let blocks = op.call("SpaceToDepth", &[&x], [int("blocksize", factor)])?;
    let pixels = factor.checked_mul(factor).ok_or("`downscale_factor` is too large")?;
    let y = op.channels_turned(&blocks, 1, [pixels, -1])?;
    let y = op.in_layout(&y, layout)?;
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
        [required_dim(&x, 1)?, required_dim(&x, 2)?, required_dim(&x, 3)?];
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

//! Operators that move elements: flipping, rolling, repeating, padding, unfolding.

use lodstone_model::Dim;
use lodstone_schema::numbers::exact;
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::indexing::{BEYOND, Bounds, Pad, Padding, Spans};
use crate::onnx::layout::Layout;
use crate::onnx::{Size, Value, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("crop", crop),
    ("crop_tensor", crop),
    ("expand", repeat),
    ("expand_as", repeat_as),
    ("expand_as_v2", expand_as),
    ("flip", flip),
    ("meshgrid", mesh),
    ("pad", pad),
    ("pad2d", |op| pad_around(op, 2, "pad_value")),
    ("pad3d", pad_cube),
    ("pixel_shuffle", pixel_shuffle),
    ("roll", roll),
    ("strided_slice", strided_slice),
    ("tile", tile),
    ("tril_triu", triangle),
    ("unbind", |op| unstack(op, "Out")),
    ("unstack", |op| unstack(op, "Y")),
];

fn expand_as(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let dims = match op.optional("Y")? {
        Some(like) => op.call("Shape", &[&like], [])?,
        None => {
            let dims = op.ints("target_shape")?;
            op.longs(&dims)
        }
    };
    let y = op.call("Expand", &[&x, &dims], [])?;
    op.put("Out", &y)
}

/// Slices the given dims at offsets; a dim of -1 extends to the end.
fn crop(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let axes: Vec<i64> = x.rank()?.numbers().collect();
    let dims = match op.kind() {
        "crop" => match op.optional("Y")? {
            Some(like) => op.call("Shape", &[&like], [])?,
            None => {
                let dims = op.ints("shape")?;
                op.longs(&dims)
            }
        },
        _ => op.numbers("ShapeTensor", "Shape", "shape")?,
    };
    let starts = op.numbers("OffsetsTensor", "Offsets", "offsets")?;
    let starts = match starts.info().ints() {
        Some(none) if none.is_empty() => op.longs(&vec![0; axes.len()]),
        _ => starts,
    };
    let ends = match (dims.info().ints(), starts.info().ints()) {
        (Some(dims), Some(starts)) => {
            let end = |(dim, start): (&i64, &i64)| match dim {
                ..0 => BEYOND,
                dim => start.saturating_add(*dim),
            };
            let ends: Vec<i64> = dims.iter().zip(&starts).map(end).collect();
            op.longs(&ends)
        }
        _ => {
            let (zero, last) = (op.long(0), op.long(BEYOND));
            let is_rest = op.call("Less", &[&dims, &zero], [])?;
            let ends = op.add(&starts, &dims)?;
            op.choose(&is_rest, &last, &ends)?
        }
    };
    let y = op.sliced(&x, &Spans { axes, starts, ends, steps: None }, Bounds::Within)?;
    op.put("Out", &y)
}

/// Repeats each dim so many times.
fn repeat(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let times = op.numbers("expand_times_tensor", "ExpandTimes", "expand_times")?;
    let y = op.call("Tile", &[&x, &times], [])?;
    op.put("Out", &y)
}

/// Repeats each dim until it is that of another tensor.
fn repeat_as(op: &mut Operator<'_>) -> Outcome {
    let (x, like) = (op.input("X")?, op.input("target_tensor")?);
    let (dims, wanted) = (op.call("Shape", &[&x], [])?, op.call("Shape", &[&like], [])?);
    let times = op.div(&wanted, &dims)?;
    let y = op.call("Tile", &[&x, &times], [])?;
    op.put("Out", &y)
}

fn flip(op: &mut Operator<'_>) -> Outcome {
    let (x, axes) = (op.input("X")?, op.ints("axis")?);
    let y = op.reversed(&x, &axes)?;
    op.put("Out", &y)
}

/// Broadcasts each list along its own dim of the grid.
fn mesh(op: &mut Operator<'_>) -> Outcome {
    let inputs = op.inputs("X")?;
    let list = |input: &Value| op.reshape(input, &[-1]);
    let lists = inputs.iter().map(list).collect::<Outcome<Vec<_>>>()?;
    let dim = |list: &Value| op.call("Shape", &[list], []);
    let dims = lists.iter().map(dim).collect::<Outcome<Vec<_>>>()?;
    let dims = op.concat(&dims.iter().collect::<Vec<_>>(), 0)?;
    let mut made = Vec::new();
    for (place, list) in lists.iter().enumerate() {
        let others = (0..).zip(0..lists.len()).filter(|(_, other)| *other != place);
        let others: Vec<i64> = others.map(|(axis, _)| axis).collect();
        let list = op.unsqueeze(list, &others)?;
        made.push(op.call("Expand", &[&list, &dims], [])?);
    }
    op.put_all("Out", &made)
}

/// The paddings are pairs of begin and end for each dim.
fn pad(op: &mut Operator<'_>) -> Outcome {
    let (x, paddings, number) = (op.input("X")?, op.ints("paddings")?, op.float("pad_value")?);
    let (pairs, rest) = paddings.as_chunks::<2>();
    if pairs.len() != x.rank()? || !rest.is_empty() {
        return Err(format!("expected {} pairs of paddings, found {paddings:?}", x.rank()?).into());
    }
    let pads = pairs.iter().zip(0..).map(|(pair, axis)| Pad::known(axis, *pair));
    let y = padded(op, &x, &pads.collect::<Vec<_>>(), Padding::Constant, number)?;
    op.put("Out", &y)
}

pub(super) fn pad_cube(op: &mut Operator<'_>) -> Outcome {
    pad_around(op, 3, "value")
}

/// Pads the spatial dims of images. The paddings are pairs for each dim, the innermost first; for two dims, the outermost
/// first.
fn pad_around(op: &mut Operator<'_>, dims: usize, number: &str) -> Outcome {
    let (x, number) = (op.input("X")?, op.float(number)?);
    let layout = op.layout("data_format")?;
    let padding = match op.text("mode")?.as_str() {
        "constant" => Padding::Constant,
        "reflect" => Padding::Reflect,
        "edge" | "replicate" => Padding::Edge,
        "circular" => Padding::Wrap,
        other => return Err(format!("unknown `mode` `{other}`").into()),
    };
    let paddings = op.numbers("", "Paddings", "paddings")?;
    let paddings = op.sizes_in(&paddings)?;
    let (pairs, rest) = paddings.as_chunks::<2>();
    if pairs.len() != dims || !rest.is_empty() || x.rank()? != dims + 2 {
        let (rank, count) = (x.rank()?, paddings.len());
        return Err(
            format!("expected {dims} pairs of paddings, found {count} for rank {rank}").into()
        );
    }
    let mut inner = pairs.to_vec();
    if dims == 3 {
        inner.reverse();
    }
    let none = || [[Size::Known(0), Size::Known(0)]];
    let all = match layout {
        Layout::Last => [&none()[..], &inner, &none()].concat(),
        Layout::First => [&none()[..], &none(), &inner].concat(),
    };
    let pads = all.into_iter().zip(0..).map(|([begin, end], axis)| Pad { axis, begin, end });
    let y = padded(op, &x, &pads.collect::<Vec<_>>(), padding, number)?;
    op.put("Out", &y)
}

fn padded(
    op: &mut Operator<'_>,
    x: &Value,
    pads: &[Pad],
    padding: Padding,
    number: f32,
) -> Outcome<Value> {
    let number = op.number(x.dtype(), number.into())?;
    op.padded(x, pads, padding, Some(&number))
}

fn pixel_shuffle(op: &mut Operator<'_>) -> Outcome {
    let (x, factor) = (op.input("X")?, op.int("upscale_factor")?);
    let layout = op.layout("data_format")?;
    let x = op.channels_first(&x, layout)?;
    if factor < 1 {
        return Err(format!("expected at least 1 as `upscale_factor`, found {factor}").into());
    }
    let y = op.call("DepthToSpace", &[&x], [int("blocksize", factor), text("mode", "CRD")])?;
    let y = op.in_layout(&y, layout)?;
    op.put("Out", &y)
}

/// Elements shifted beyond the end of a dim reenter at its beginning; without axes, the tensor is flattened first.
pub(super) fn roll(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let axes = op.ints("axis")?;
    let shifts = op.numbers("", "ShiftsTensor", "shifts")?;
    let shifts = op.sizes_in(&shifts)?;
    let (mut y, axes) = match axes.is_empty() {
        true => (op.reshape(&x, &[-1])?, vec![0]),
        false => (x.clone(), axes),
    };
    if axes.len() != shifts.len() {
        return Err(
            format!("expected one shift for each of {axes:?}, found {}", shifts.len()).into()
        );
    }
    for (axis, shift) in axes.into_iter().zip(shifts) {
        let axis = op.place(axis, &y)?;
        y = op.rolled(&y, axis, &shift)?;
    }
    let y = op.reshape_as(&y, &x)?;
    op.put("Out", &y)
}

pub(super) fn strided_slice(op: &mut Operator<'_>) -> Outcome {
    let (x, axes) = (op.input("Input")?, op.ints("axes")?);
    let starts = op.numbers("StartsTensorList", "StartsTensor", "starts")?;
    let ends = op.numbers("EndsTensorList", "EndsTensor", "ends")?;
    let steps = op.numbers("StridesTensorList", "StridesTensor", "strides")?;
    let bounds = match op.is_older_than(Release::new(3, 0)) {
        true => Bounds::ToFirst,
        false => Bounds::Clamped,
    };
    let spans = Spans { axes, starts, ends, steps: Some(steps) };
    let mut y = op.sliced(&x, &spans, bounds)?;
    let gone = op.ints("decrease_axis")?;
    if !gone.is_empty() {
        let gone = op.longs(&gone);
        y = op.call("Squeeze", &[&y, &gone], [])?;
    }
    let y = op.scalar(&y)?;
    op.put("Out", &y)
}

/// Repeats and dims are aligned at the end; missing ones are 1.
pub(super) fn tile(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let repeats = op.numbers("repeat_times_tensor", "RepeatTimes", "repeat_times")?;
    let [Dim::Known(many)] = repeats.shape()? else {
        return Err("the number of repeats must be known".into());
    };
    let (many, rank): (usize, usize) = (exact(*many)?, x.rank()?.count());
    let x = match many.saturating_sub(rank) {
        0 => x,
        more @ 1..64 => op.unsqueeze(&x, &(0..).take(more).collect::<Vec<i64>>())?,
        more => {
            return Err(format!("expected fewer repeats, found {more} more than dims").into());
        }
    };
    let repeats = match rank.saturating_sub(many) {
        0 => repeats,
        more => {
            let ones = op.longs(&vec![1; more]);
            op.concat(&[&ones, &repeats], 0)?
        }
    };
    let y = op.call("Tile", &[&x, &repeats], [])?;
    op.put("Out", &y)
}

pub(super) fn triangle(op: &mut Operator<'_>) -> Outcome {
    let (x, diagonal, lower) = (op.input("X")?, op.int("diagonal")?, op.flag("lower")?);
    let diagonal = op.long(diagonal);
    let y = op.call("Trilu", &[&x, &diagonal], [int("upper", i64::from(!lower))])?;
    op.put("Out", &y)
}

fn unstack(op: &mut Operator<'_>, slot: &str) -> Outcome {
    let x = op.input("X")?;
    let axis = op.place(op.int("axis")?, &x)?;
    let count = match x.size(axis)? {
        Some(count) => count,
        // There is an output for each part.
        None => op.results(slot),
    };
    let parts = op.unstacked(&x, axis, count)?;
    op.put_all(slot, &parts)
}

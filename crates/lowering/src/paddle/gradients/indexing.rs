//! Gradients of operators that move elements: gathering, padding, scattering.

use crate::onnx::indexing::{Pad, Padding};
use crate::onnx::layout::Layout;
use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::places::at;
use lodstone_schema::places::at_mut;

use super::super::operator::{Operator, Outcome, Rule};
use super::super::{arrange, indexing, reshape};
use super::moved;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("gather_grad", |op| moved(op, reshape::gather, "X", "Out")),
    ("gather_nd_grad", |op| moved(op, indexing::gather_nd, "X", "Out")),
    ("index_sample_grad", |op| moved(op, indexing::index_sample, "X", "Out")),
    ("index_select_grad", |op| moved(op, indexing::index_select, "X", "Out")),
    ("masked_select_grad", |op| moved(op, indexing::masked_select, "X", "Y")),
    ("pad3d_grad", pad_around),
    ("pad_grad", |op| cut(op, &pairs(&op.ints("paddings")?)?)),
    ("pixel_shuffle_grad", pixel_shuffle),
    ("roll_grad", |op| moved(op, arrange::roll, "X", "Out")),
    ("scatter_grad", scatter),
    ("scatter_nd_add_grad", scatter_nd_add),
    ("slice_grad", slice),
    ("strided_slice_grad", |op| moved(op, arrange::strided_slice, "Input", "Out")),
    ("take_along_axis_grad", |op| moved(op, indexing::take_along_axis, "Input", "Result")),
    ("tile_grad", |op| moved(op, arrange::tile, "X", "Out")),
    ("tril_triu_grad", |op| {
        let given = op.gradient("Out")?;
        let kept = op.follow(arrange::triangle, "X", &given)?;
        let kept = kept.first();
        op.put_gradient("X", kept.ok_or_else(|| Finding::internal("a rule has no output"))?)
    }),
    ("unfold_grad", |op| moved(op, super::super::patches::unfold, "X", "Y")),
];

fn pairs(paddings: &[i64]) -> Outcome<Vec<[i64; 2]>> {
    match paddings.as_chunks::<2>() {
        (pairs, []) => Ok(pairs.to_vec()),
        _ => Err(format!("expected pairs of paddings, found {paddings:?}").into()),
    }
}

/// Removes the padding of each dim.
fn cut(op: &mut Operator<'_>, pairs: &[[i64; 2]]) -> Outcome {
    let given = op.gradient("Out")?;
    if pairs.len() != given.rank()? {
        return Err(format!("expected {} pairs of paddings, found {pairs:?}", given.rank()?).into());
    }
    let pads = pairs.iter().zip(0..).map(|([begin, end], axis)| {
        Pad::known(axis, [begin.saturating_neg(), end.saturating_neg()])
    });
    let zero = op.number(given.dtype(), 0.0)?;
    let y = op.padded(&given, &pads.collect::<Vec<_>>(), Padding::Constant, Some(&zero))?;
    op.put_gradient("X", &y)
}

/// Gradients of replicated elements go to their source; those of constants are dropped.
fn pad_around(op: &mut Operator<'_>) -> Outcome {
    if op.text("mode")? != "constant" {
        return moved(op, arrange::pad_cube, "X", "Out");
    }
    let paddings = match op.optional("Paddings")? {
        Some(_) => op.known("Paddings")?,
        None => op.ints("paddings")?,
    };
    let mut inner = pairs(&paddings)?;
    inner.reverse();
    let none = [[0, 0]];
    let all = match op.layout("data_format")? {
        Layout::Last => [&none, &*inner, &none].concat(),
        Layout::First => [&none, &none, &*inner].concat(),
    };
    cut(op, &all)
}

fn pixel_shuffle(op: &mut Operator<'_>) -> Outcome {
    let (given, factor) = (op.gradient("Out")?, op.int("upscale_factor")?);
    let layout = op.layout("data_format")?;
    let given = op.channels_first(&given, layout)?;
    let [batch, channels, rows, columns] = given.dims()?[..] else {
        return Err(format!("expected images, found rank {}", given.rank()?).into());
    };
    let (Some(down), Some(across)) = (rows.checked_div(factor), columns.checked_div(factor)) else {
        return Err(format!("expected at least 1 as `upscale_factor`, found {factor}").into());
    };
    // [batch, channels, rows, row of a block, columns, column of a block]
    let split = op.reshape(&given, &[batch, channels, down, factor, across, factor])?;
    let turned = op.transpose(&split, &[0, 1, 3, 5, 2, 4])?;
    let all = channels.saturating_mul(factor).saturating_mul(factor);
    let y = op.reshape(&turned, &[batch, all, down, across])?;
    let y = op.in_layout(&y, layout)?;
    op.put_gradient("X", &y)
}

/// Overwritten elements have gradient 0; updates get the gradients at their positions.
fn scatter(op: &mut Operator<'_>) -> Outcome {
    let (ids, given) = (op.input("Ids")?, op.gradient("Out")?);
    let ids = op.reshape(&ids, &[-1])?;
    let updates = op.gather(&given, &ids, 0)?;
    if op.wants_gradient("X") {
        let none = op.constant_like(&updates, updates.dtype(), 0.0)?;
        let x = op.put_rows(&given, &ids, &none, "none")?;
        op.put_gradient("X", &x)?;
    }
    op.put_gradient("Updates", &updates)
}

fn scatter_nd_add(op: &mut Operator<'_>) -> Outcome {
    let (index, given) = (op.input("Index")?, op.gradient("Out")?);
    let index = op.cast(&index, DType::Int64)?;
    let updates = op.call("GatherND", &[&given, &index], [])?;
    op.put_gradient("X", &given)?;
    op.put_gradient("Updates", &updates)
}

/// Pads the gradient of the slice with zeros.
fn slice(op: &mut Operator<'_>) -> Outcome {
    let (x, given) = (op.input("Input")?, op.gradient("Out")?);
    let axes = op.ints("axes")?;
    let starts = op.numbers("StartsTensorList", "StartsTensor", "starts")?;
    let (Some(starts), Some(dims)) = (starts.info().ints(), x.known_dims()) else {
        return moved(op, reshape::slice, "Input", "Out");
    };
    let mut kept = given.dims()?;
    let mut gone = op.ints("decrease_axis")?;
    gone.sort_unstable();
    if gone.len() == dims.len() {
        // A result of shape [1] may stand for a scalar.
        kept.clear();
    }
    for axis in gone {
        let place = usize::try_from(axis).ok().filter(|place| *place <= kept.len());
        kept.insert(place.ok_or("`decrease_axis` is out of range")?, 1);
    }
    let given = op.reshape(&given, &kept)?;
    let mut begins = vec![0; dims.len()];
    for (axis, start) in axes.iter().zip(&starts) {
        let axis = x.rank()?.axis(*axis)?.index();
        let dim = at(&dims, axis)?;
        let start = if *start < 0 { start.saturating_add(dim) } else { *start };
        *at_mut(&mut begins, axis)? = start.clamp(0, dim);
    }
    let pads = dims.iter().zip(&kept).zip(&begins).zip(0..);
    let pads =
        pads.map(|(((dim, kept), begin), axis)| Pad::known(axis, [*begin, dim - kept - begin]));
    let zero = op.number(given.dtype(), 0.0)?;
    let y = op.padded(&given, &pads.collect::<Vec<_>>(), Padding::Constant, Some(&zero))?;
    op.put_gradient("Input", &y)
}

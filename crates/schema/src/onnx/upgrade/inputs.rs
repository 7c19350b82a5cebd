//! Attributes that became inputs.

use lodstone_model::AttributeValue;

use super::change::Change;
use crate::Finding;

/// `axes` of ReduceX, Squeeze and Unsqueeze. Absent or empty axes stand for all, except for Unsqueeze.
pub(super) fn axes(change: &mut Change<'_>) -> Result<(), Finding> {
    let stands_for_all = change.op.kind != "Unsqueeze";
    match change.take("axes") {
        None => Ok(()),
        Some(AttributeValue::Longs(axes)) if axes.is_empty() && stands_for_all => Ok(()),
        Some(value) => {
            let axes = change.as_integers("axes", value)?;
            change.set_input(1, axes);
            Ok(())
        }
    }
}

/// `shape` of Reshape.
pub(super) fn reshape(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("consumed_inputs");
    let value = change.take("shape").ok_or("has no attribute `shape`")?;
    let shape = change.as_integers("shape", value)?;
    change.set_input(1, shape);
    Ok(())
}

/// `k` of TopK.
pub(super) fn top_k(change: &mut Change<'_>) -> Result<(), Finding> {
    let k = change.int("k")?.ok_or("has no attribute `k`")?;
    change.take("k");
    let k = change.integers(&[k]);
    change.set_input(1, k);
    Ok(())
}

/// `starts`, `ends` and `axes` of Slice.
pub(super) fn slice(change: &mut Change<'_>) -> Result<(), Finding> {
    for (index, name) in [(1, "starts"), (2, "ends"), (3, "axes")] {
        let Some(value) = change.take(name) else { continue };
        let input = change.as_integers(name, value)?;
        change.set_input(index, input);
    }
    Ok(())
}

/// `split` of Split.
pub(super) fn split(change: &mut Change<'_>) -> Result<(), Finding> {
    if let Some(value) = change.take("split") {
        let split = change.as_integers("split", value)?;
        change.set_input(1, split);
    }
    Ok(())
}

/// `split` as an input of Split, which the second version does not have.
pub(super) fn split_input(change: &mut Change<'_>) -> Result<(), Finding> {
    match change.input(1) {
        "" => Ok(()),
        _ => Err("has sizes as an input, which its next version does not support".into()),
    }
}

/// `min` and `max` of Clip.
pub(super) fn clip(change: &mut Change<'_>) -> Result<(), Finding> {
    for (index, name) in [(1, "min"), (2, "max")] {
        if let Some(value) = change.take(name) {
            let like = change.input(0).to_owned();
            let bound = change.as_number(name, value, &like)?;
            change.set_input(index, bound);
        }
    }
    Ok(())
}

/// `pads` and `value` of Pad.
pub(super) fn pad(change: &mut Change<'_>) -> Result<(), Finding> {
    let value = change.take("pads").ok_or("has no attribute `pads`")?;
    let pads = change.as_integers("pads", value)?;
    change.set_input(1, pads);
    match change.take("value") {
        None => Ok(()),
        // The default is zero.
        Some(AttributeValue::Float(0.0)) => Ok(()),
        Some(value) => {
            let like = change.input(0).to_owned();
            let value = change.as_number("value", value, &like)?;
            change.set_input(2, value);
            Ok(())
        }
    }
}

/// `ratio` of Dropout. It has an effect only in training, which these versions do not support.
pub(super) fn ratio(change: &mut Change<'_>) -> Result<(), Finding> {
    if let Some(value) = change.take("ratio") {
        let like = change.input(0).to_owned();
        let ratio = change.as_number("ratio", value, &like)?;
        change.set_input(1, ratio);
    }
    Ok(())
}

/// `axis` of DFT, whose default was the first axis after the batch and is now the last but one.
pub(super) fn dft(change: &mut Change<'_>) -> Result<(), Finding> {
    let axis = change.int_or("axis", 1)?;
    change.take("axis");
    let mut axis = super::change::integers(&[axis]);
    axis.shape.clear();
    let axis = change.constant(axis);
    change.set_input(2, axis);
    Ok(())
}

/// `tiles` and `axis` of Tile, which became one repeat for each dim.
pub(super) fn tile(change: &mut Change<'_>) -> Result<(), Finding> {
    let number = |index| {
        let numbers = change.numbers(change.input(index)).unwrap_or_default();
        let whole = |number: &&f64| number.fract() == 0.0 && number.abs() < f64::from(i32::MAX);
        let [number] = *numbers.as_slice() else { return None };
        // A 32-bit integer, as just checked.
        Some(number).as_ref().filter(whole).map(ToString::to_string)?.parse::<i64>().ok()
    };
    let (Some(tiles), Some(axis)) = (number(1), number(2)) else {
        return Err("has repeats that are not constants".into());
    };
    let rank = change.rank(change.input(0))?;
    let axis = usize::try_from(axis).ok().filter(|axis| *axis < rank);
    let axis = axis.ok_or("has an axis out of range of its input")?;
    let repeats: Vec<i64> = (0..rank).map(|index| if index == axis { tiles } else { 1 }).collect();
    let repeats = change.integers(&repeats);
    for operand in &mut change.op.inputs {
        operand.args.truncate(1);
    }
    change.set_input(1, repeats);
    Ok(())
}

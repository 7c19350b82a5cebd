//! Keypoints in heat maps of boxes.

use super::node::{Node, Outcome, Rule, expect_rank};
use crate::onnx::required::required_dim;
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[("HeatmapMaxKeypoint", Rule::One(keypoints))];

/// The determinant below which a heat map has no curvature.
const FLAT: f64 = 1e-4;

/// The greatest distance of a keypoint from the maximum.
const MAX_DISTANCE: f64 = 1.5;

/// A heat map around its maximum, as a quadratic function: `[boxes, keypoints]` each.
struct Taylor {
    /// The maximum.
    value: Value,
    /// The negative first derivatives, across and down.
    slope: [Value; 2],
    /// The second derivatives: across, mixed, down.
    curve: [Value; 3],
}

/// Returns column, row, score and perhaps probability of the maximum of each heat map `[boxes, keypoints, size, size]`, in
/// boxes `[boxes, 4]`: `[boxes, 4, keypoints]`.
fn keypoints(node: &mut Node<'_>) -> Outcome {
    let [maps, boxes] = node.exactly()?;
    expect_rank(&maps, 4, "heat maps")?;
    if let (Some(rows), Some(columns)) = (maps.size(2)?, maps.size(3)?)
        && (rows != columns || rows < 2)
    {
        return Err(format!("expected square heat maps, found {rows} times {columns}").into());
    }
    if required_dim(&boxes, 1)? < 4 {
        return Err("expected corners of boxes".into());
    }
    let [count, kinds] = [node.size_of(&maps, 0)?, node.size_of(&maps, 1)?];
    let size = node.extent(&maps, 2)?;
    let flat = node.reshape_to(&maps, &[count, kinds, Size::Known(-1)])?;
    let best = node.call("ArgMax", &[&flat], [int("axis", -1), int("keepdims", 0)])?;
    let (row, column) = (node.div(&best, &size)?, node.call("Mod", &[&best, &size], [])?);
    let taylor = around(node, &flat, [&column, &row], &size)?;
    let [across, down] = top(node, &taylor)?;
    let score = score(node, &taylor, [&across, &down])?;
    let size = node.cast(&size, maps.dtype())?;
    let corners = node.slice(&boxes, 1, 0, 4)?;
    let corners = node.corners(&corners)?;
    let [left, top, right, bottom] = node.spread(&corners, &[1])?;
    let one = node.number(maps.dtype(), 1.0)?;
    let mut place = |low: &Value, high: &Value, pixel: &Value, distance: &Value| {
        let length = node.sub(high, low)?;
        let length = node.call("Max", &[&length, &one], [])?;
        let pixel = node.cast(pixel, distance.dtype())?;
        let pixel = node.plus(&pixel, 0.5)?;
        let share = node.add(&pixel, distance)?;
        let share = node.mul(&share, &length)?;
        let share = node.div(&share, &size)?;
        node.add(low, &share)
    };
    let x = place(&left, &right, &column, &across)?;
    let y = place(&top, &bottom, &row, &down)?;
    let chance = match node.flag("should_output_softmax", false)? {
        true => {
            let powers = node.call("Exp", &[&flat], [])?;
            let sum = node.reduce("ReduceSum", &powers, &[2], false)?;
            let own = node.call("Exp", &[&taylor.value], [])?;
            node.div(&own, &sum)?
        }
        false => node.constant_like(&x, x.dtype(), 0.0)?,
    };
    let all = node.stacked(&[&x, &y, &score, &chance])?;
    node.turned(&all)
}

/// Returns the function around the maximum. Behind the edge, elements are those before it.
fn around(
    node: &mut Node<'_>,
    flat: &Value,
    [column, row]: [&Value; 2],
    size: &Value,
) -> Outcome<Taylor> {
    let (zero, one) = (node.long(0), node.long(1));
    let last = node.sub(size, &one)?;
    let mut near = |place: &Value| {
        let (before, behind) = (node.sub(place, &one)?, node.add(place, &one)?);
        let is_first = node.call("Equal", &[place, &zero], [])?;
        let is_last = node.call("Equal", &[place, &last], [])?;
        let low = node.choose(&is_first, &behind, &before)?;
        let high = node.choose(&is_last, &before, &behind)?;
        Outcome::Ok([low, place.clone(), high])
    };
    let (columns, rows) = (near(column)?, near(row)?);
    let mut elements = Vec::new();
    for row in &rows {
        let start = node.mul(row, size)?;
        for column in &columns {
            elements.push(node.add(&start, column)?);
        }
    }
    // [boxes, keypoints, 9]
    let places = node.stacked(&elements.iter().collect::<Vec<_>>())?;
    let found = node.call("GatherElements", &[flat, &places], [int("axis", -1)])?;
    let mut at = |place: i64| {
        let place = node.long(place);
        node.gather(&found, &place, -1)
    };
    let [a, b, c] = [at(0)?, at(1)?, at(2)?];
    let [d, value, f] = [at(3)?, at(4)?, at(5)?];
    let [g, h, i] = [at(6)?, at(7)?, at(8)?];
    let mut slope = |low: &Value, high: &Value| {
        let slope = node.sub(low, high)?;
        node.times(&slope, 0.5)
    };
    let slope = [slope(&d, &f)?, slope(&b, &h)?];
    let twice = node.times(&value, 2.0)?;
    let mut bend = |low: &Value, high: &Value| {
        let sum = node.add(low, high)?;
        node.sub(&sum, &twice)
    };
    let (across, down) = (bend(&d, &f)?, bend(&b, &h)?);
    let (same, other) = (node.add(&a, &i)?, node.add(&c, &g)?);
    let mixed = node.sub(&same, &other)?;
    let mixed = node.times(&mixed, 0.25)?;
    Ok(Taylor { value, slope, curve: [across, mixed, down] })
}

/// Returns how far the maximum of a function is from the pixel, across and down.
fn top(node: &mut Node<'_>, taylor: &Taylor) -> Outcome<[Value; 2]> {
    let [across, mixed, down] = &taylor.curve;
    let [slope_x, slope_y] = &taylor.slope;
    let mut difference = |a: [&Value; 2], b: [&Value; 2]| {
        let (a, b) = (node.mul(a[0], a[1])?, node.mul(b[0], b[1])?);
        node.sub(&a, &b)
    };
    let determinant = difference([across, down], [mixed, mixed])?;
    let x = difference([down, slope_x], [mixed, slope_y])?;
    let y = difference([across, slope_y], [mixed, slope_x])?;
    let size = node.call("Abs", &[&determinant], [])?;
    let least = node.number(size.dtype(), FLAT)?;
    let is_flat = node.call("Less", &[&size, &least], [])?;
    let (zero, most) = (node.number(x.dtype(), 0.0)?, node.number(x.dtype(), MAX_DISTANCE)?);
    let mut distance = |x: &Value| {
        let distance = node.div(x, &determinant)?;
        node.choose(&is_flat, &zero, &distance)
    };
    let (x, y) = (distance(&x)?, distance(&y)?);
    let (far_x, far_y) = (node.call("Abs", &[&x], [])?, node.call("Abs", &[&y], [])?);
    let far = node.call("Max", &[&far_x, &far_y, &most], [])?;
    let mut clipped = |x: &Value| {
        let share = node.div(x, &far)?;
        node.mul(&share, &most)
    };
    Ok([clipped(&x)?, clipped(&y)?])
}

/// Returns the value of a function at a distance from the pixel.
fn score(node: &mut Node<'_>, taylor: &Taylor, [x, y]: [&Value; 2]) -> Outcome {
    let [across, mixed, down] = &taylor.curve;
    let (first, second) = (node.mul(&taylor.slope[0], x)?, node.mul(&taylor.slope[1], y)?);
    let linear = node.add(&first, &second)?;
    let (first, second) = (node.mul(across, x)?, node.mul(mixed, y)?);
    let right = node.add(&first, &second)?;
    let (first, second) = (node.mul(mixed, x)?, node.mul(down, y)?);
    let lower = node.add(&first, &second)?;
    let (first, second) = (node.mul(&right, x)?, node.mul(&lower, y)?);
    let bent = node.add(&first, &second)?;
    let bent = node.times(&bent, 0.5)?;
    let value = node.sub(&taylor.value, &linear)?;
    node.add(&value, &bent)
}

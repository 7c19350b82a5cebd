//! Windows of signals, and the filters of the mel scale.

use std::f64::consts::PI;

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count, elements};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("BlackmanWindow", |call| window(call, &[0.42, -0.5, 0.08])).working(0, 8),
    Operator::dense("HammingWindow", |call| window(call, &[25.0 / 46.0, -21.0 / 46.0]))
        .working(0, 8),
    Operator::dense("HannWindow", |call| window(call, &[0.5, -0.5])).working(0, 8),
    Operator::dense("MelWeightMatrix", mel).working(0, 8),
];

/// Returns the element type of the result.
fn target(call: &Call<'_>) -> Outcome<DType> {
    let code = i32::try_from(call.int("output_datatype", 1)).ok();
    code.and_then(dtype::from_code).ok_or_else(|| "expected an element type".into())
}

/// Returns a sum of cosines with the given factors: of 0, 1 and 2 periods over the window.
fn window(call: &Call<'_>, factors: &[f64]) -> Outputs {
    let size = count(call.long(0, 0)?)?;
    bounded(&[size])?;
    let whole = if call.int("periodic", 1) != 0 { size } else { size.saturating_sub(1) };
    let value = |place: usize| {
        // A symmetric window of one element is its middle.
        let angle = if whole == 0 { PI } else { 2.0 * PI * place as f64 / whole as f64 };
        factors
            .iter()
            .enumerate()
            .map(|(turns, factor)| factor * (turns as f64 * angle).cos())
            .sum()
    };
    one(Dense::numbers((0..size).map(value).collect(), target(call)?, &[size])?)
}

/// Returns triangular filters, evenly spaced on the mel scale: [frequencies, bins].
fn mel(call: &Call<'_>) -> Outputs {
    (0..5).try_for_each(|number| call.input(number).map(drop))?;
    let (bins, length) = (count(call.long(0, 0)?)?, count(call.long(1, 0)?)?);
    let rate = count(call.long(2, 0)?)? as f64;
    let edge = |number: usize| {
        let values = call.input(number)?.to_doubles()?;
        values
            .first()
            .copied()
            .ok_or_else(|| Finding::from("expected a frequency").about_input(number))
    };
    let mels = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / 10f64.ln();
    let (low, high) = (mels(edge(3)?), mels(edge(4)?));
    let rows = length / 2 + 1;
    let mut values = vec![0.0; bounded(&[rows, bins])?];
    bounded(&[bins.saturating_add(2)])?;
    let step = (high - low) / (bins as f64 + 2.0);
    let place = |number: usize| {
        let hertz = 700.0 * ((low + step * number as f64) / 2595.0 * 10f64.ln()).exp_m1();
        let place = ((length as f64 + 1.0) * hertz / rate).floor();
        match (0.0..=rows as f64).contains(&place) {
            true => Ok(elements(place)),
            false => Err(Finding::from(format!("{hertz} Hz is not a frequency of the transform"))),
        }
    };
    let places = (0..bins + 2).map(place).collect::<Outcome<Vec<usize>>>()?;
    for (bin, edges) in places.windows(3).enumerate() {
        let &[left, middle, right] = edges else { break };
        if left > middle || middle > right {
            return Err("expected a lower edge below the upper one".into());
        }
        let mut put = |row: usize, value: f64| {
            if let Some(slot) = values.get_mut(row * bins + bin) {
                *slot = value;
            }
        };
        if left == middle {
            put(middle, 1.0);
        }
        for row in left..=middle.min(rows - 1) {
            if left < middle {
                put(row, (row - left) as f64 / (middle - left) as f64);
            }
        }
        for row in middle..right.min(rows) {
            put(row, (right - row) as f64 / (right - middle) as f64);
        }
    }
    one(Dense::numbers(values, target(call)?, &[rows, bins])?)
}

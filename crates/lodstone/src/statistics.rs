//! What the elements of a tensor are like, in a few numbers.

use lodstone_model::{Kind, Tensor};
use serde::Serialize;

use crate::numbers::decoder;
use crate::{Error, Result};

/// What the elements of a tensor are like. Of complex elements, both parts count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of finite elements.
    pub finite: u64,
    /// The number of elements that are NaN.
    pub nan: u64,
    /// The number of elements that are infinite.
    pub infinite: u64,
    /// The number of elements that are zero.
    pub zeros: u64,
    /// The least finite element; `None` if there is none.
    pub min: Option<f64>,
    /// The greatest finite element; `None` if there is none.
    pub max: Option<f64>,
    /// The mean of the finite elements; `None` if there is none.
    pub mean: Option<f64>,
    /// The standard deviation of the finite elements (of the population); `None` if there is none.
    pub std: Option<f64>,
}

/// Reads all elements of a tensor. Of a sparse tensor, those that are stored count.
///
/// # Errors
/// If it cannot be read, or its elements are not numbers.
pub fn statistics(tensor: &Tensor) -> Result<Statistics> {
    let decoder = decoder(tensor.dtype);
    let decoder = decoder.filter(|_| !matches!(tensor.kind, Kind::Strings { .. } | Kind::Absent));
    let decoder = decoder
        .ok_or_else(|| Error::Absent(format!("elements of {} have no statistics", tensor.dtype)))?;
    let mut found = Statistics::default();
    // Welford's algorithm: one pass, without cancellation.
    let (mut mean, mut squares) = (0.0, 0.0);
    tensor.data.for_each_chunk(|piece| {
        for element in piece.chunks_exact(decoder.size) {
            let number = (decoder.number)(element);
            if number.is_nan() {
                found.nan += 1;
                continue;
            }
            if number.is_infinite() {
                found.infinite += 1;
                continue;
            }
            found.finite += 1;
            found.zeros += u64::from(number == 0.0);
            found.min = Some(found.min.map_or(number, |min| min.min(number)));
            found.max = Some(found.max.map_or(number, |max| max.max(number)));
            let before = number - mean;
            #[expect(clippy::cast_precision_loss, reason = "a mean rounds")]
            let count = found.finite as f64;
            mean += before / count;
            squares += before * (number - mean);
        }
        Ok::<(), Error>(())
    })?;
    if found.finite > 0 {
        #[expect(clippy::cast_precision_loss, reason = "a mean rounds")]
        let count = found.finite as f64;
        (found.mean, found.std) = (Some(mean), Some((squares / count).sqrt()));
    }
    Ok(found)
}

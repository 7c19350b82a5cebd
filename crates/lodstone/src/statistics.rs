//! Statistics of the elements of a tensor.

use lodstone_model::{Kind, Tensor};
use serde::Serialize;

use crate::numbers::numbers;
use crate::{Error, Result};

/// Statistics of the elements of a tensor. A complex element counts as two numbers.
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
    /// The minimum of the finite elements; `None` if there are none.
    pub min: Option<f64>,
    /// The maximum of the finite elements; `None` if there are none.
    pub max: Option<f64>,
    /// The mean of the finite elements; `None` if there are none.
    pub mean: Option<f64>,
    /// The population standard deviation of the finite elements; `None` if there are none.
    pub std: Option<f64>,
}

/// Computes the statistics of a tensor, which reads all its elements; only the stored elements of a sparse tensor
/// count.
///
/// # Errors
/// Fails if the tensor cannot be read, or its elements are not numbers.
pub fn statistics(tensor: &Tensor) -> Result<Statistics> {
    let numbers = numbers(tensor);
    let numbers = numbers.filter(|_| !matches!(tensor.kind, Kind::Strings { .. } | Kind::Absent));
    let (data, decoder) = numbers.ok_or_else(|| Error::NotSupported {
        operation: format!("computing statistics of {} elements", tensor.dtype),
        why: None,
    })?;
    let mut found = Statistics::default();
    // Welford's algorithm: one pass, without cancellation.
    let (mut mean, mut squares) = (0.0, 0.0);
    data.for_each_chunk(|chunk| {
        for element in chunk.chunks_exact(decoder.size) {
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
            let delta = number - mean;
            #[expect(clippy::cast_precision_loss, reason = "a mean rounds")]
            let count = found.finite as f64;
            mean += delta / count;
            squares += delta * (number - mean);
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

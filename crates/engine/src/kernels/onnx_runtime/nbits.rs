//! Matrix products with weights of a few bits, quantized in blocks.
//!
//! | input | layout |
//! |---|---|
//! | weights | [columns, blocks, bytes of a block]; the first element is in the lowest bits |
//! | scales | [columns, blocks] |
//! | zero points | packed like weights, with each column from a new byte on; or like scales, of the type of the scales |

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count};
use crate::error::Outcome;
use crate::operator::{Operator, RUNTIME};
use crate::tensor::{Dense, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator::dense("MatMulNBits", multiply).domain(RUNTIME).working(0, 2)];

/// The dims of the weights.
struct Sizes {
    rows: usize,
    columns: usize,
    blocks: usize,
    block: usize,
    bits: usize,
}

impl Sizes {
    fn of(call: &Call<'_>) -> Outcome<Self> {
        let [rows, columns] = ["K", "N"].map(|name| count(call.int(name, 0)));
        let (rows, columns) = (rows?, columns?);
        let (block, bits) = (count(call.int("block_size", 0))?, count(call.int("bits", 4))?);
        if ![2, 4, 8].contains(&bits) || block < 8 || rows == 0 || columns == 0 {
            return Err(
                format!("weights of {bits} bits in blocks of {block} are not supported").into()
            );
        }
        bounded(&[columns, rows])?;
        Ok(Self { rows, columns, blocks: rows.div_ceil(block), block, bits })
    }

    /// Returns the elements of packed columns, each of which begins with a new byte.
    fn unpacked(&self, bytes: &Dense, length: usize) -> Outcome<Vec<Vec<f32>>> {
        let each = 8 / self.bits;
        let (width, mask) = (length.div_ceil(each), (1_i64 << self.bits) - 1);
        let bytes = bytes.to_longs()?;
        if width.checked_mul(self.columns) != Some(bytes.len()) {
            let found = bytes.len();
            return Err(format!("{found} bytes do not fill {} columns", self.columns).into());
        }
        let column = |bytes: &[i64]| {
            let codes =
                bytes.iter().flat_map(|byte| (0..each).map(move |at| byte >> (at * self.bits)));
            #[expect(clippy::cast_precision_loss, reason = "codes have at most 8 bits")]
            let codes = codes.map(|code| (code & mask) as f32);
            codes.take(length).collect()
        };
        Ok(bytes.chunks_exact(width).map(column).collect())
    }
}

/// Returns lists of scales or zero points, one for each column.
fn listed(item: &Dense, sizes: &Sizes) -> Outcome<Vec<Vec<f32>>> {
    let values = item.to_singles()?;
    match sizes.blocks.checked_mul(sizes.columns) == Some(values.len()) {
        true => Ok(values.chunks_exact(sizes.blocks).map(<[f32]>::to_vec).collect()),
        false => Err(format!("{} values do not fill {} blocks", values.len(), sizes.blocks).into()),
    }
}

fn multiply(call: &Call<'_>) -> Outputs {
    let (x, sizes) = (call.input(0)?, Sizes::of(call)?);
    let padded = sizes.blocks.checked_mul(sizes.block).ok_or("the blocks are too large")?;
    let codes = sizes.unpacked(call.input(1)?, padded)?;
    let scales = listed(call.input(2)?, &sizes)?;
    let zeros = match call.optional(3) {
        Some(zeros) if zeros.dtype().is_float() => listed(zeros, &sizes)?,
        Some(zeros) => sizes.unpacked(zeros, sizes.blocks)?,
        None => {
            let middle = if sizes.bits == 8 { 128.0 } else { f32::from(1_u8 << (sizes.bits - 1)) };
            vec![vec![middle; sizes.blocks]; sizes.columns]
        }
    };
    let groups = groups(call, &sizes)?;
    let mut weights = Vec::with_capacity(sizes.rows * sizes.columns);
    for ((codes, scales), zeros) in codes.iter().zip(&scales).zip(&zeros) {
        for (code, group) in codes.iter().zip(&groups) {
            let parts = scales.get(*group).zip(zeros.get(*group));
            let (scale, zero) = parts.ok_or("a row has no block")?;
            weights.push((code - zero) * scale);
        }
    }
    let weights = Dense::from_vec(weights, [sizes.columns, sizes.rows])?.permuted(&[1, 0])?;
    let mut y = product(&x.cast_to(DType::Float32)?, &weights)?;
    if let Some(bias) = call.optional(5) {
        y = y.plus(&bias.cast_to(DType::Float32)?)?;
    }
    one(y.cast_to(x.dtype())?)
}

/// Returns the block of each row.
fn groups(call: &Call<'_>, sizes: &Sizes) -> Outcome<Vec<usize>> {
    let Some(groups) = call.longs(4)? else {
        return Ok((0..sizes.rows).map(|row| row / sizes.block).collect());
    };
    if groups.len() < sizes.rows {
        return Err(Finding::from(format!("expected {} groups", sizes.rows)).about_input(4));
    }
    groups.into_iter().take(sizes.rows).map(count).collect()
}

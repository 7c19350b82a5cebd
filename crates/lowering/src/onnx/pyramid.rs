//! Regions by the level of a pyramid of images that they belong to: by the logarithm of the root of their area.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PaddlePaddle, `distribute_fpn_proposals` | [`Logarithm::Binary`], in the element type of the regions | `distribute_fpn_proposals_kernel.cc` |
//! | Caffe2, `DistributeFpnProposals`, `CollectAndDistributeFpnRpnProposals` | [`Logarithm::Natural`], in single precision; a negative area, which is an error there, is of the first level | `collect_and_distribute_fpn_rpn_proposals_op.cc`; recorded `distribute_proposals` |

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::{Graph, Value};

type Made<T = Value> = Result<T, Finding>;

/// The maximum number of levels: each becomes operators.
const MAX_LEVELS: i64 = 64;

/// How a level is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Logarithm {
    /// `floor(log2(size / scale + 1e-6) + reference)`
    Binary,
    /// `floor(ln(size / scale + 1e-6) / ln(2) + reference)`
    Natural,
}

/// The levels of a pyramid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    pub(crate) least: i64,
    pub(crate) most: i64,
    /// The level of a region of the size `scale`.
    pub(crate) reference: i64,
    pub(crate) scale: i64,
    pub(crate) logarithm: Logarithm,
}

impl Levels {
    /// Returns the least size of a level, relative to that of the level of reference: the level of smaller ones is less.
    fn least_size(self, dtype: DType, level: i64) -> f64 {
        let is_double = dtype == DType::Float64;
        // Positive numbers are ordered by their bits.
        #[expect(clippy::cast_possible_truncation, reason = "the kernels compute with floats")]
        let number = |bits: u64| match is_double {
            true => f64::from_bits(bits),
            false => f32::from_bits(bits as u32).into(),
        };
        #[expect(clippy::cast_possible_truncation, reason = "the kernels compute with floats")]
        #[expect(clippy::cast_precision_loss, reason = "levels are small")]
        let reaches = |size: f64| match (is_double, self.logarithm) {
            (true, _) => (size + 1e-6).log2() + self.reference as f64 >= level as f64,
            (false, how) => {
                let size = f64::from(size as f32 + 1e-6_f32);
                let logarithm = match how {
                    Logarithm::Binary => size.log2() as f32,
                    Logarithm::Natural => size.ln() as f32 / std::f32::consts::LN_2,
                };
                logarithm + self.reference as f32 >= level as f32
            }
        };
        // The least size is in (below, above].
        let most = if is_double { f64::MAX.to_bits() } else { f32::MAX.to_bits().into() };
        let (mut below, mut above) = (0_u64, most);
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if reaches(number(middle)) {
                above = middle;
            } else {
                below = middle;
            }
        }
        number(above)
    }
}

impl Graph {
    /// Returns for each level which regions belong to it: `[regions]`. `size` has the root of the area of each.
    pub(crate) fn regions_of_levels(&mut self, size: &Value, how: Levels) -> Made<Vec<Value>> {
        let Levels { least, most, reference, scale, .. } = how;
        if !(0..MAX_LEVELS).contains(&most.saturating_sub(least))
            || !(-64..=64).contains(&reference)
        {
            let found = format!("{least} to {most} and {reference}");
            return Err(format!("expected levels, found {found}").into());
        }
        let dtype = size.dtype();
        #[expect(clippy::cast_precision_loss, reason = "as the frameworks compute it")]
        let scale = self.number(dtype, scale as f64)?;
        let size = self.div(size, &scale)?;
        // A region belongs to a level if it is at least as large as that level's least.
        let mut reaches = Vec::new();
        for at in least + 1..=most {
            let bound = self.number(dtype, how.least_size(dtype, at))?;
            reaches.push(self.call("GreaterOrEqual", &[&size, &bound], [])?);
        }
        let mut marks = Vec::new();
        for at in 0..=reaches.len() {
            let below = reaches.get(at);
            let above = at.checked_sub(1).and_then(|at| reaches.get(at));
            let not_below = below.map(|below| self.call("Not", &[below], [])).transpose()?;
            marks.push(match (above, not_below) {
                (Some(above), Some(not_below)) => self.call("And", &[above, &not_below], [])?,
                (Some(above), None) => above.clone(),
                (None, Some(not_below)) => not_below,
                (None, None) => self.constant_like(&size, DType::Bool, 1.0)?,
            });
        }
        Ok(marks)
    }

    /// Returns the place of each region among those of all levels, as `int32`, given the places of those of each level.
    pub(crate) fn restored(&mut self, places: &[Value]) -> Made {
        let order = self.concat(&places.iter().collect::<Vec<_>>(), 0)?;
        let [_, restored] = self.highest(&order, None, false)?;
        self.cast(&restored, DType::Int32)
    }
}

//! Matrix products.

use lodstone_schema::Finding;

use crate::call::{Call, Outputs, one};
use crate::fast;
use crate::fast::Packing;
use crate::operator::Operator;
use crate::tensor::product;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Gemm", gemm).packed(Packing::Matrix).error(1e-6).working(2, 2).copies(),
    Operator::dense("MatMul", |call| one(product(call.input(0)?, call.input(1)?)?))
        .fast(fast::matrix::PRODUCT)
        .packed(Packing::Matrix)
        .error(1e-6)
        .copies(),
];

pub(super) fn gemm(call: &Call<'_>) -> Outputs {
    let turned = |number: usize, name: &str| {
        let x = call.input(number)?;
        Ok::<_, Finding>(if call.int(name, 0) != 0 { x.permuted(&[1, 0])? } else { x.clone() })
    };
    let (a, b) = (turned(0, "transA")?, turned(1, "transB")?);
    let mut y = product(&a, &b)?;
    let alpha = call.float("alpha", 1.0);
    if alpha != 1.0 {
        y = y.scaled(alpha.into())?;
    }
    if let Some(c) = call.optional(2) {
        let c = c.scaled(call.float("beta", 1.0).into())?;
        y = y.plus(&c.fitted(y.dims())?)?;
    }
    one(y)
}

//! NumPy's descriptions of arrays, in its own files and in pickles.

pub(crate) mod elements;

use lodstone_model::DType;

/// Maximum rank of an array: NumPy's own limit.
pub(crate) const MAX_RANK: usize = 64;

/// Element types and their codes without the byte order.
pub(crate) const CODES: &[(DType, &str)] = &[
    (DType::Bool, "b1"),
    (DType::Int8, "i1"),
    (DType::Int16, "i2"),
    (DType::Int32, "i4"),
    (DType::Int64, "i8"),
    (DType::Uint8, "u1"),
    (DType::Uint16, "u2"),
    (DType::Uint32, "u4"),
    (DType::Uint64, "u8"),
    (DType::Float16, "f2"),
    (DType::Float32, "f4"),
    (DType::Float64, "f8"),
    (DType::Complex64, "c8"),
    (DType::Complex128, "c16"),
];

/// Returns the code of an element type.
pub(crate) fn code(dtype: DType) -> Option<&'static str> {
    CODES.iter().find(|(known, _)| *known == dtype).map(|(_, code)| *code)
}

//! The numbers of element types in the code of TorchScript (`c10/core/ScalarType.h`).

use lodstone_model::DType;

const CODES: &[(i64, DType)] = &[
    (0, DType::Uint8),
    (1, DType::Int8),
    (2, DType::Int16),
    (3, DType::Int32),
    (4, DType::Int64),
    (5, DType::Float16),
    (6, DType::Float32),
    (7, DType::Float64),
    (8, DType::Complex32),
    (9, DType::Complex64),
    (10, DType::Complex128),
    (11, DType::Bool),
    (15, DType::BFloat16),
    (23, DType::Float8E5M2),
    (24, DType::Float8E4M3Fn),
    (25, DType::Float8E5M2Fnuz),
    (26, DType::Float8E4M3Fnuz),
    (27, DType::Uint16),
    (28, DType::Uint32),
    (29, DType::Uint64),
    (44, DType::Float8E8M0Fnu),
];

/// Types of quantized elements, which a model has as integers.
const QUANTIZED: &[(i64, DType)] = &[(12, DType::Int8), (13, DType::Uint8), (14, DType::Int32)];

/// Returns the element type with a number.
pub fn script_type(code: i64) -> Option<DType> {
    CODES.iter().chain(QUANTIZED).find(|(known, _)| *known == code).map(|(_, dtype)| *dtype)
}

/// Returns the number of an element type.
pub fn script_code(dtype: DType) -> Option<i64> {
    CODES.iter().find(|(_, known)| *known == dtype).map(|(code, _)| *code)
}

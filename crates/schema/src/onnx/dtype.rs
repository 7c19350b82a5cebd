//! Element types: the codes of `TensorProto.DataType`, and the names that it gives them.
//!
//! Source of truth: `onnx.proto` of ONNX 1.23 (IR version 13).

use lodstone_model::DType;

const DTYPES: &[(i32, &str, DType)] = &[
    (1, "FLOAT", DType::Float32),
    (2, "UINT8", DType::Uint8),
    (3, "INT8", DType::Int8),
    (4, "UINT16", DType::Uint16),
    (5, "INT16", DType::Int16),
    (6, "INT32", DType::Int32),
    (7, "INT64", DType::Int64),
    (8, "STRING", DType::String),
    (9, "BOOL", DType::Bool),
    (10, "FLOAT16", DType::Float16),
    (11, "DOUBLE", DType::Float64),
    (12, "UINT32", DType::Uint32),
    (13, "UINT64", DType::Uint64),
    (14, "COMPLEX64", DType::Complex64),
    (15, "COMPLEX128", DType::Complex128),
    (16, "BFLOAT16", DType::BFloat16),
    (17, "FLOAT8E4M3FN", DType::Float8E4M3Fn),
    (18, "FLOAT8E4M3FNUZ", DType::Float8E4M3Fnuz),
    (19, "FLOAT8E5M2", DType::Float8E5M2),
    (20, "FLOAT8E5M2FNUZ", DType::Float8E5M2Fnuz),
    (21, "UINT4", DType::Uint4),
    (22, "INT4", DType::Int4),
    (23, "FLOAT4E2M1", DType::Float4E2M1),
    (24, "FLOAT8E8M0", DType::Float8E8M0Fnu),
    (25, "UINT2", DType::Uint2),
    (26, "INT2", DType::Int2),
];

/// The element type of a code; `None` if ONNX has none.
pub fn from_code(code: i32) -> Option<DType> {
    DTYPES.iter().find(|(known, ..)| *known == code).map(|(.., dtype)| *dtype)
}

/// The element type that ONNX calls `name`; `None` if it calls none so.
pub fn from_name(name: &str) -> Option<DType> {
    DTYPES.iter().find(|(_, known, _)| *known == name).map(|(.., dtype)| *dtype)
}

/// The code of an element type; `None` if ONNX has none.
pub fn code(dtype: DType) -> Option<i32> {
    DTYPES.iter().find(|(.., known)| *known == dtype).map(|(code, ..)| *code)
}

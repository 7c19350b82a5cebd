//! Element types: the codes of `TensorProto.DataType`, the names of these codes and of the types in operators, and the
//! IR versions that introduced them.
//!
//! Source of truth: `onnx.proto` and `data_type_utils.cc` of ONNX 1.23.2 (IR version 14).

use lodstone_model::DType;

/// The code, the name of the code, the name in types of operators, and the first IR version that has it.
const DTYPES: &[(i32, &str, &str, i64, DType)] = &[
    (1, "FLOAT", "float", 1, DType::Float32),
    (2, "UINT8", "uint8", 1, DType::Uint8),
    (3, "INT8", "int8", 1, DType::Int8),
    (4, "UINT16", "uint16", 1, DType::Uint16),
    (5, "INT16", "int16", 1, DType::Int16),
    (6, "INT32", "int32", 1, DType::Int32),
    (7, "INT64", "int64", 1, DType::Int64),
    (8, "STRING", "string", 1, DType::String),
    (9, "BOOL", "bool", 1, DType::Bool),
    (10, "FLOAT16", "float16", 1, DType::Float16),
    (11, "DOUBLE", "double", 1, DType::Float64),
    (12, "UINT32", "uint32", 1, DType::Uint32),
    (13, "UINT64", "uint64", 1, DType::Uint64),
    (14, "COMPLEX64", "complex64", 1, DType::Complex64),
    (15, "COMPLEX128", "complex128", 1, DType::Complex128),
    (16, "BFLOAT16", "bfloat16", 4, DType::BFloat16),
    (17, "FLOAT8E4M3FN", "float8e4m3fn", 9, DType::Float8E4M3Fn),
    (18, "FLOAT8E4M3FNUZ", "float8e4m3fnuz", 9, DType::Float8E4M3Fnuz),
    (19, "FLOAT8E5M2", "float8e5m2", 9, DType::Float8E5M2),
    (20, "FLOAT8E5M2FNUZ", "float8e5m2fnuz", 9, DType::Float8E5M2Fnuz),
    (21, "UINT4", "uint4", 10, DType::Uint4),
    (22, "INT4", "int4", 10, DType::Int4),
    (23, "FLOAT4E2M1", "float4e2m1", 11, DType::Float4E2M1),
    (24, "FLOAT8E8M0", "float8e8m0", 12, DType::Float8E8M0Fnu),
    (25, "UINT2", "uint2", 13, DType::Uint2),
    (26, "INT2", "int2", 13, DType::Int2),
    (27, "FLOAT6E2M3", "float6e2m3", 14, DType::Float6E2M3),
    (28, "FLOAT6E3M2", "float6e3m2", 14, DType::Float6E3M2),
];

/// Returns the element type of a code; `None` if ONNX has none.
pub fn from_code(code: i32) -> Option<DType> {
    DTYPES.iter().find(|(known, ..)| *known == code).map(|(.., dtype)| *dtype)
}

/// Returns the element type that ONNX calls `name`; `None` if there is none.
pub fn from_name(name: &str) -> Option<DType> {
    DTYPES.iter().find(|(_, known, ..)| *known == name).map(|(.., dtype)| *dtype)
}

/// Returns the code of an element type; `None` if ONNX has none.
pub fn code(dtype: DType) -> Option<i32> {
    DTYPES.iter().find(|(.., known)| *known == dtype).map(|(code, ..)| *code)
}

/// Returns the name of an element type in types of operators, such as `float`; `None` if ONNX has none.
pub fn element_name(dtype: DType) -> Option<&'static str> {
    DTYPES.iter().find(|(.., known)| *known == dtype).map(|(_, _, name, ..)| *name)
}

/// Returns the first IR version that has an element type.
pub fn ir_version(dtype: DType) -> i64 {
    // Without one, the first version has it as much as any other.
    DTYPES.iter().find(|(.., known)| *known == dtype).map_or(1, |(.., version, _)| *version)
}

//! The numbers of enumerations, which differ from those in TorchScript.

use lodstone_model::DType;

const DTYPES: [(i64, DType); 21] = [
    (1, DType::Uint8),
    (2, DType::Int8),
    (3, DType::Int16),
    (4, DType::Int32),
    (5, DType::Int64),
    (6, DType::Float16),
    (7, DType::Float32),
    (8, DType::Float64),
    (9, DType::Complex32),
    (10, DType::Complex64),
    (11, DType::Complex128),
    (12, DType::Bool),
    (13, DType::BFloat16),
    (28, DType::Uint16),
    (29, DType::Float8E4M3Fn),
    (30, DType::Float8E5M2),
    (31, DType::Float8E4M3Fnuz),
    (32, DType::Float8E5M2Fnuz),
    (33, DType::Float8E8M0Fnu),
    (34, DType::Uint32),
    (35, DType::Uint64),
];

const LAYOUTS: [(i64, &str); 7] = [
    (1, "sparse_coo"),
    (2, "sparse_csr"),
    (3, "sparse_csc"),
    (4, "sparse_bsr"),
    (5, "sparse_bsc"),
    (6, "mkldnn"),
    (7, STRIDED),
];

/// The layout of dense tensors.
pub(super) const STRIDED: &str = "strided";

const MEMORY_FORMATS: [(i64, &str); 4] =
    [(1, "contiguous"), (2, "channels_last"), (3, "channels_last_3d"), (4, "preserve")];

/// Returns an element type.
pub(super) fn dtype(code: i64) -> Option<DType> {
    DTYPES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype)
}

/// Returns the name of a layout.
pub(super) fn layout(code: i64) -> Option<&'static str> {
    LAYOUTS.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

/// Returns the name of a memory format.
pub(super) fn memory_format(code: i64) -> Option<&'static str> {
    MEMORY_FORMATS.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

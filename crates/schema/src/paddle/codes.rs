//! `VarType.Type`: element types and kinds of variables, which share one enum.

use lodstone_model::{DType, VarKind};

const DTYPES: &[(i32, DType)] = &[
    (0, DType::Bool),
    (1, DType::Int16),
    (2, DType::Int32),
    (3, DType::Int64),
    (4, DType::Float16),
    (5, DType::Float32),
    (6, DType::Float64),
    (20, DType::Uint8),
    (21, DType::Int8),
    (22, DType::BFloat16),
    (23, DType::Complex64),
    (24, DType::Complex128),
    (32, DType::Float8E4M3Fn),
    (33, DType::Float8E5M2),
    (37, DType::Uint32),
    (38, DType::Uint64),
];

/// `SIZE_T`, which is stored as 64 bits and read as `uint64`; written back only by the residual.
const SIZE_T: i32 = 19;

const KINDS: &[(i32, VarKind)] = &[
    (7, VarKind::Tensor),
    (8, VarKind::SelectedRows),
    (9, VarKind::FeedMinibatch),
    (10, VarKind::FetchList),
    (11, VarKind::StepScopes),
    (12, VarKind::LodRankTable),
    (13, VarKind::TensorArray),
    (14, VarKind::PlaceList),
    (15, VarKind::Reader),
    (17, VarKind::Raw),
    (18, VarKind::Tuple),
    (25, VarKind::String),
    (26, VarKind::Strings),
    (27, VarKind::Vocabulary),
    (28, VarKind::FeedList),
    (29, VarKind::PString),
    (30, VarKind::SparseCoo),
    (31, VarKind::SparseCsr),
];

/// The element type of a code.
pub fn dtype(code: i32) -> DType {
    if code == SIZE_T {
        return DType::Uint64;
    }
    let known = DTYPES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype);
    known.unwrap_or(DType::Unknown(code.cast_unsigned()))
}

/// The code of an element type; `None` if PaddlePaddle has none.
pub fn dtype_code(dtype: DType) -> Option<i32> {
    if let DType::Unknown(code) = dtype {
        return Some(code.cast_signed());
    }
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|(code, _)| *code)
}

/// The kind of variable of a code.
pub fn kind(code: i32) -> VarKind {
    if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == code) {
        return *kind;
    }
    match dtype(code) {
        DType::Unknown(_) => VarKind::Unknown(code),
        dtype => VarKind::Scalar(dtype),
    }
}

/// The code of a kind of variable; `None` if PaddlePaddle has none.
pub fn kind_code(kind: VarKind) -> Option<i32> {
    match kind {
        VarKind::Unknown(code) => Some(code),
        VarKind::Scalar(dtype) => dtype_code(dtype),
        kind => KINDS.iter().find(|(_, known)| *known == kind).map(|(code, _)| *code),
    }
}

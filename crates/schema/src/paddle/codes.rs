//! `VarType.Type`: element types and kinds of variables, which share one enum.

use lodstone_model::{DType, Holder, Layout, TensorType, ValueType};

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

/// `SIZE_T`, which is stored as 64 bits and read as `uint64`; only the residual writes it back.
const SIZE_T: i32 = 19;

/// Returns the element type of a code.
pub fn dtype(code: i32) -> DType {
    if code == SIZE_T {
        return DType::Uint64;
    }
    let known = DTYPES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype);
    known.unwrap_or(DType::Unknown(code.cast_unsigned()))
}

/// Returns the code of an element type; `None` if PaddlePaddle has none.
pub fn dtype_code(dtype: DType) -> Option<i32> {
    if let DType::Unknown(code) = dtype {
        return Some(code.cast_signed());
    }
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|(code, _)| *code)
}

/// Returns the kind of variable of a code, without its contents.
pub fn kind(code: i32) -> ValueType {
    let unknown = TensorType::default;
    let holder = match code {
        7 => return ValueType::Tensor(unknown()),
        18 => return ValueType::tuple(Vec::new()).unwrap_or_default(),
        30 => return ValueType::Sparse(TensorType::with_layout(Layout::Coo)),
        31 => return ValueType::Sparse(TensorType::with_layout(Layout::Csr)),
        8 => Holder::SelectedRows(unknown()),
        9 => Holder::FeedMinibatch,
        10 => Holder::FetchList,
        11 => Holder::StepScopes,
        12 => Holder::LodRankTable,
        13 => Holder::TensorArray(unknown()),
        14 => Holder::PlaceList,
        15 => Holder::Reader(Vec::new()),
        17 => Holder::Raw,
        25 => Holder::String(unknown()),
        26 => Holder::Strings(unknown()),
        27 => Holder::Vocabulary(unknown()),
        28 => Holder::FeedList,
        29 => Holder::PString,
        _ => {
            return match dtype(code) {
                DType::Unknown(_) => ValueType::Unknown(code),
                dtype => ValueType::Scalar(dtype),
            };
        }
    };
    holder.into()
}

/// Returns the code of the kind of a variable; `None` if PaddlePaddle has none.
pub fn kind_code(value: &ValueType) -> Option<i32> {
    Some(match value {
        ValueType::Tensor(_) => 7,
        ValueType::Tuple(_) => 18,
        ValueType::Sparse(tensor) => match tensor.layout {
            Some(Layout::Coo) => 30,
            Some(Layout::Csr) => 31,
            Some(Layout::Strided(_)) | None => return None,
        },
        ValueType::Holder(holder) => match holder {
            Holder::SelectedRows(_) => 8,
            Holder::FeedMinibatch => 9,
            Holder::FetchList => 10,
            Holder::StepScopes => 11,
            Holder::LodRankTable => 12,
            Holder::TensorArray(_) => 13,
            Holder::PlaceList => 14,
            Holder::Reader(_) => 15,
            Holder::Raw => 17,
            Holder::String(_) => 25,
            Holder::Strings(_) => 26,
            Holder::Vocabulary(_) => 27,
            Holder::FeedList => 28,
            Holder::PString => 29,
        },
        ValueType::Scalar(dtype) => return dtype_code(*dtype),
        ValueType::Unknown(code) => *code,
        ValueType::Unspecified
        | ValueType::List(_)
        | ValueType::Dict(..)
        | ValueType::Optional(_)
        | ValueType::Class(_) => return None,
    })
}

//! Element types of tensors.

use std::fmt;

/// The type of one element of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are standard")]
pub enum DType {
    Bool,
    Int2,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint2,
    Uint4,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float4E2M1,
    Float6E2M3,
    Float6E3M2,
    Float8E4M3,
    Float8E4M3Fn,
    Float8E4M3Fnuz,
    Float8E5M2,
    Float8E5M2Fnuz,
    Float8E8M0Fnu,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Complex32,
    Complex64,
    Complex128,
    /// A string of any length; string tensors have no fixed size.
    String,
    /// A type code of the format that the reader does not support.
    Unknown(u32),
    /// Undeclared: the program does not describe the tensor.
    #[default]
    Unspecified,
}

/// Every known type, its name as NumPy or `ml_dtypes` spells it, and its size in bits.
const TABLE: &[(DType, &str, u32)] = &[
    (DType::Bool, "bool", 8),
    (DType::Int2, "int2", 2),
    (DType::Int4, "int4", 4),
    (DType::Int8, "int8", 8),
    (DType::Int16, "int16", 16),
    (DType::Int32, "int32", 32),
    (DType::Int64, "int64", 64),
    (DType::Uint2, "uint2", 2),
    (DType::Uint4, "uint4", 4),
    (DType::Uint8, "uint8", 8),
    (DType::Uint16, "uint16", 16),
    (DType::Uint32, "uint32", 32),
    (DType::Uint64, "uint64", 64),
    (DType::Float4E2M1, "float4_e2m1fn", 4),
    (DType::Float6E2M3, "float6_e2m3fn", 6),
    (DType::Float6E3M2, "float6_e3m2fn", 6),
    (DType::Float8E4M3, "float8_e4m3", 8),
    (DType::Float8E4M3Fn, "float8_e4m3fn", 8),
    (DType::Float8E4M3Fnuz, "float8_e4m3fnuz", 8),
    (DType::Float8E5M2, "float8_e5m2", 8),
    (DType::Float8E5M2Fnuz, "float8_e5m2fnuz", 8),
    (DType::Float8E8M0Fnu, "float8_e8m0fnu", 8),
    (DType::Float16, "float16", 16),
    (DType::BFloat16, "bfloat16", 16),
    (DType::Float32, "float32", 32),
    (DType::Float64, "float64", 64),
    (DType::Complex32, "complex32", 32),
    (DType::Complex64, "complex64", 64),
    (DType::Complex128, "complex128", 128),
];

impl DType {
    /// Returns every known type of a fixed size.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(dtype, ..)| *dtype)
    }

    /// Returns the size of an element in bits; `None` for strings and unknown types.
    pub fn bits(self) -> Option<u32> {
        TABLE.iter().find(|(dtype, ..)| *dtype == self).map(|(.., bits)| *bits)
    }

    /// Returns the name in NumPy or `ml_dtypes`; `None` for unknown types.
    pub fn name(self) -> Option<&'static str> {
        TABLE.iter().find(|(dtype, ..)| *dtype == self).map(|(_, name, _)| *name)
    }

    /// Returns the type that NumPy or `ml_dtypes` calls `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|(_, known, _)| *known == name).map(|(dtype, ..)| *dtype)
    }

    /// Returns the size in bytes of a dense tensor of this type and `shape`, packed without padding except in
    /// the last byte; `None` if the size overflows `u64` or the type has no fixed size.
    pub fn size_of(self, shape: &[u64]) -> Option<u64> {
        let bits = u64::from(self.bits()?);
        // A dim of 0 makes the tensor empty, even if the product of the other dims overflows.
        if shape.contains(&0) {
            return Some(0);
        }
        let count = shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim))?;
        Some(count.checked_mul(bits)?.div_ceil(8))
    }

    /// Returns whether the type is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::Float4E2M1
                | Self::Float6E2M3
                | Self::Float6E3M2
                | Self::Float8E4M3
                | Self::Float8E4M3Fn
                | Self::Float8E4M3Fnuz
                | Self::Float8E5M2
                | Self::Float8E5M2Fnuz
                | Self::Float8E8M0Fnu
                | Self::Float16
                | Self::BFloat16
                | Self::Float32
                | Self::Float64
        )
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.name()) {
            (_, Some(name)) => f.pad(name),
            (Self::Unknown(code), None) => f.pad(&format!("unknown({code})")),
            (Self::Unspecified, None) => f.pad("unspecified"),
            _ => f.pad("string"),
        }
    }
}

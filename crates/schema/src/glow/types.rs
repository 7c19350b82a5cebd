//! Types of values, as attributes and doc strings encode them.

use lodstone_model::{AttributeValue, DType, Op, Packing};

use crate::Finding;

/// An element type, named as in files.
///
/// Integer types without `index` in their name are quantized: `i32` is, `index32` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are Glow's own")]
pub enum ElemKind {
    Float,
    Float16,
    BFloat16,
    Float64,
    Int8Q,
    UInt8Q,
    Int16Q,
    Int32Q,
    UInt8I,
    Int32I,
    Int64I,
    UInt8FusedQ,
    UInt8FusedFP16Q,
    UInt4FusedFP16Q,
    UInt4FusedQ,
    Bool,
    Int64Q,
}

use ElemKind as K;

/// Every type, its name, the element type of a tensor of it, and whether it has a scale and an offset.
const KINDS: &[(ElemKind, &str, DType, bool)] = &[
    (K::Float, "float", DType::Float32, false),
    (K::Float16, "float16", DType::Float16, false),
    (K::BFloat16, "bfloat16", DType::BFloat16, false),
    (K::Float64, "float64", DType::Float64, false),
    (K::Int8Q, "i8", DType::Int8, true),
    (K::UInt8Q, "ui8", DType::Uint8, true),
    (K::Int16Q, "i16", DType::Int16, true),
    (K::Int32Q, "i32", DType::Int32, true),
    (K::UInt8I, "uindex8", DType::Uint8, false),
    (K::Int32I, "index32", DType::Int32, false),
    (K::Int64I, "index64", DType::Int64, false),
    (K::UInt8FusedQ, "ui8fused", DType::Uint8, true),
    (K::UInt8FusedFP16Q, "ui8fusedfp16", DType::Uint8, true),
    (K::UInt4FusedFP16Q, "ui4fusedfp16", DType::Uint8, true),
    (K::UInt4FusedQ, "ui4fused", DType::Uint8, true),
    (K::Bool, "bool", DType::Bool, false),
    (K::Int64Q, "i64", DType::Int64, true),
];

impl ElemKind {
    /// Returns the type with the name `name` in files.
    pub fn from_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known, ..)| *known == name).map(|(kind, ..)| *kind)
    }

    /// Returns the name of the type in files.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the element type of a tensor of this type.
    pub fn dtype(self) -> DType {
        self.row().2
    }

    /// Whether it has a scale and an offset: an element q stands for scale * (q - offset). (Rows of fused types have
    /// their own; the one of the type is written but has no meaning.)
    pub fn is_quantized(self) -> bool {
        self.row().3
    }

    /// Returns how elements and scales share bytes, if each row ends with its own scale and offset.
    pub fn packing(self) -> Option<Packing> {
        let (bits, scale) = match self {
            K::UInt8FusedQ => (8, DType::Float32),
            K::UInt8FusedFP16Q => (8, DType::Float16),
            K::UInt4FusedQ => (4, DType::Float32),
            K::UInt4FusedFP16Q => (4, DType::Float16),
            _ => return None,
        };
        Some(Packing::RowwiseFused { bits, scale })
    }

    /// Whether each row ends with its own scale and offset.
    pub fn is_fused(self) -> bool {
        self.packing().is_some()
    }

    fn row(self) -> (Self, &'static str, DType, bool) {
        let row = KINDS.iter().find(|(kind, ..)| *kind == self).copied();
        row.unwrap_or((Self::Float, "float", DType::Float32, false))
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// The element type.
    pub kind: ElemKind,
    /// The dims, outermost first.
    pub shape: Vec<i64>,
    /// The stride of each dim in elements, if rows are padded.
    pub strides: Option<Vec<i64>>,
    /// The scale and offset, if it is quantized.
    pub quantization: Option<(f32, i32)>,
}

impl Type {
    /// Reads the type of a value from the attributes of its operator: `i0`, `o1`, or `NAME_i2` for the values of a
    /// member.
    ///
    /// # Errors
    /// If an attribute is missing or malformed; the finding has what was expected and what was found.
    pub fn of(op: &Op, value: &str) -> Result<Self, Finding> {
        let attribute = |what: &str| op.attribute(&format!("{value}_{what}"));
        let absent = |what: &str| {
            let name = format!("{value}_{what}");
            let wrong = format!("expected the attribute `{name}`, found none");
            Finding::from(wrong).about_attribute(&name)
        };
        let other = |what: &str| format!("attribute `{value}_{what}` has the wrong type");
        let kind = match attribute("elemKind").ok_or_else(|| absent("elemKind"))? {
            AttributeValue::String(name) => ElemKind::from_name(&name.to_string())
                .ok_or_else(|| format!("expected a type in `{value}_elemKind`, found `{name}`"))?,
            _ => return Err(other("elemKind").into()),
        };
        let longs = |what: &str| match attribute(what) {
            None => Ok(None),
            Some(AttributeValue::Longs(numbers)) => Ok(Some(numbers.clone())),
            Some(_) => Err(other(what)),
        };
        let shape = longs("shape")?.ok_or_else(|| absent("shape"))?;
        if let Some(dim) = shape.iter().find(|dim| **dim < 0) {
            return Err(
                format!("expected dims of at least 0 in `{value}_shape`, found {dim}").into()
            );
        }
        let strides = longs("strides")?;
        let quantization = match (attribute("qScale"), attribute("qOffset")) {
            _ if !kind.is_quantized() => None,
            (Some(AttributeValue::Float(scale)), Some(AttributeValue::Long(offset))) => {
                let offset = i32::try_from(*offset)
                    .map_err(|_| format!("expected a 32-bit integer in `{value}_qOffset`"))?;
                Some((*scale, offset))
            }
            (None, _) => return Err(absent("qScale")),
            (_, None) => return Err(absent("qOffset")),
            _ => return Err(other("qScale` or `qOffset").into()),
        };
        Ok(Self { kind, shape, strides, quantization })
    }
}

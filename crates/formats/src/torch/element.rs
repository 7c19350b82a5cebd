//! Element types: the names that PyTorch has for them, and how their elements are stored.
//!
//! | name | where it occurs |
//! |---|---|
//! | `float32` | `GLOBAL torch float32`, in pickles |
//! | `FloatStorage` | the class of a storage, in pickles |
//! | 7 | the enum of exported programs (`torch/_export/serde/schema.py`) |
//! | 6 | the enum of TorchScript (`c10/core/ScalarType.h`) |
//!
//! Types whose elements PyTorch itself does not interpret (`bits8`), and integers of fewer than eight bits that take up
//! a byte each (`uint4`), are bytes in the model; `Element::is_exact` distinguishes them.

use lodstone_model::DType;

/// An element type of PyTorch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// The name in the module `torch`.
    pub(crate) name: &'static str,
    /// The type in the model.
    pub(crate) dtype: DType,
    /// The size of an element in bytes. Of packed types, that of a byte of elements.
    pub(crate) size: u64,
    /// The size in bytes of the numbers whose byte order may be reversed.
    pub(crate) number: usize,
    /// The number of elements in the model for each of PyTorch along the last axis.
    pub(crate) packed: u64,
    /// Whether the type in the model represents the same values.
    pub(crate) is_exact: bool,
    /// The number in the enum of exported programs.
    exported: Option<u64>,
    /// The number in the enum of TorchScript.
    script: u64,
}

const fn element(
    name: &'static str,
    dtype: DType,
    size: u64,
    exported: u64,
    script: u64,
) -> Element {
    let number = size as usize;
    let exported = if exported == 0 { None } else { Some(exported) };
    Element { name, dtype, size, number, packed: 1, is_exact: true, exported, script }
}

/// A type that the model does not have.
const fn opaque(name: &'static str, dtype: DType, size: u64, script: u64) -> Element {
    Element { is_exact: false, ..element(name, dtype, size, 0, script) }
}

/// A complex type of two numbers.
const fn complex(
    name: &'static str,
    dtype: DType,
    size: u64,
    exported: u64,
    script: u64,
) -> Element {
    Element { number: size as usize / 2, ..element(name, dtype, size, exported, script) }
}

/// All element types.
#[rustfmt::skip]
const ELEMENTS: &[Element] = &[
    element("uint8", DType::Uint8, 1, 1, 0),
    element("int8", DType::Int8, 1, 2, 1),
    element("int16", DType::Int16, 2, 3, 2),
    element("int32", DType::Int32, 4, 4, 3),
    element("int64", DType::Int64, 8, 5, 4),
    element("float16", DType::Float16, 2, 6, 5),
    element("float32", DType::Float32, 4, 7, 6),
    element("float64", DType::Float64, 8, 8, 7),
    complex("complex32", DType::Complex32, 4, 9, 8),
    complex("complex64", DType::Complex64, 8, 10, 9),
    complex("complex128", DType::Complex128, 16, 11, 10),
    element("bool", DType::Bool, 1, 12, 11),
    element("qint8", DType::Int8, 1, 0, 12),
    element("quint8", DType::Uint8, 1, 0, 13),
    element("qint32", DType::Int32, 4, 0, 14),
    element("bfloat16", DType::BFloat16, 2, 13, 15),
    opaque("quint4x2", DType::Uint8, 1, 16),
    opaque("quint2x4", DType::Uint8, 1, 17),
    opaque("bits1x8", DType::Uint8, 1, 18),
    opaque("bits2x4", DType::Uint8, 1, 19),
    opaque("bits4x2", DType::Uint8, 1, 20),
    opaque("bits8", DType::Uint8, 1, 21),
    opaque("bits16", DType::Uint16, 2, 22),
    element("float8_e5m2", DType::Float8E5M2, 1, 30, 23),
    element("float8_e4m3fn", DType::Float8E4M3Fn, 1, 29, 24),
    element("float8_e5m2fnuz", DType::Float8E5M2Fnuz, 1, 32, 25),
    element("float8_e4m3fnuz", DType::Float8E4M3Fnuz, 1, 31, 26),
    element("uint16", DType::Uint16, 2, 28, 27),
    element("uint32", DType::Uint32, 4, 34, 28),
    element("uint64", DType::Uint64, 8, 35, 29),
    opaque("uint1", DType::Uint8, 1, 30),
    opaque("uint2", DType::Uint8, 1, 31),
    opaque("uint3", DType::Uint8, 1, 32),
    opaque("uint4", DType::Uint8, 1, 33),
    opaque("uint5", DType::Uint8, 1, 34),
    opaque("uint6", DType::Uint8, 1, 35),
    opaque("uint7", DType::Uint8, 1, 36),
    opaque("int1", DType::Int8, 1, 37),
    opaque("int2", DType::Int8, 1, 38),
    opaque("int3", DType::Int8, 1, 39),
    opaque("int4", DType::Int8, 1, 40),
    opaque("int5", DType::Int8, 1, 41),
    opaque("int6", DType::Int8, 1, 42),
    opaque("int7", DType::Int8, 1, 43),
    element("float8_e8m0fnu", DType::Float8E8M0Fnu, 1, 33, 44),
    Element { packed: 2, ..element("float4_e2m1fn_x2", DType::Float4E2M1, 1, 0, 45) },
    Element { number: 2, ..opaque("bcomplex32", DType::Uint32, 4, 46) },
];

/// Other names of types, and the names of their storages.
#[rustfmt::skip]
const OTHER_NAMES: &[(&str, &str)] = &[
    ("half", "float16"), ("float", "float32"), ("double", "float64"), ("chalf", "complex32"),
    ("cfloat", "complex64"), ("cdouble", "complex128"), ("long", "int64"), ("int", "int32"), ("short", "int16"),
];

/// The classes of storages, and the types of their elements.
#[rustfmt::skip]
const STORAGES: &[(&str, &str)] = &[
    ("BFloat16Storage", "bfloat16"), ("BoolStorage", "bool"), ("ByteStorage", "uint8"),
    ("CharStorage", "int8"), ("ComplexDoubleStorage", "complex128"),
    ("ComplexFloatStorage", "complex64"), ("DoubleStorage", "float64"), ("FloatStorage", "float32"),
    ("HalfStorage", "float16"), ("IntStorage", "int32"), ("LongStorage", "int64"),
    ("QInt32Storage", "qint32"), ("QInt8Storage", "qint8"), ("QUInt2x4Storage", "quint2x4"),
    ("QUInt4x2Storage", "quint4x2"), ("QUInt8Storage", "quint8"), ("ShortStorage", "int16"),
    ("UntypedStorage", "uint8"),
];

impl Element {
    /// Returns the type called `name` in the module `torch`.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        let name = other.map_or(name, |(_, name)| name);
        ELEMENTS.iter().find(|element| element.name == name)
    }

    /// Returns the type of the elements of a storage, by the module and name of its class. A storage without a type has
    /// bytes.
    pub(crate) fn of_storage(module: &str, class: &str) -> Option<&'static Self> {
        // Storages of CUDA: `torch.cuda`.
        if !matches!(module, "torch" | "torch.storage" | "torch.cuda") {
            return None;
        }
        let (_, name) = STORAGES.iter().find(|(known, _)| *known == class)?;
        Self::named(name)
    }

    /// Returns the type of this number in exported programs.
    pub(crate) fn exported(number: u64) -> Option<&'static Self> {
        ELEMENTS.iter().find(|element| element.exported == Some(number))
    }

    /// Returns the type of this number in TorchScript.
    pub(crate) fn script(number: u64) -> Option<&'static Self> {
        ELEMENTS.iter().find(|element| element.script == number)
    }

    /// Returns the type that PyTorch has for a type of the model.
    pub(crate) fn of(dtype: DType) -> Option<&'static Self> {
        let is_it = |element: &&Self| {
            element.dtype == dtype && element.is_exact && !element.name.starts_with('q')
        };
        ELEMENTS.iter().find(is_it)
    }

    /// Returns the class of the storage of the type in the module `torch`; `None` if it has none.
    pub(crate) fn storage(&self) -> Option<&'static str> {
        let mut storages = STORAGES.iter();
        storages.find(|(_, name)| *name == self.name).map(|(class, _)| *class)
    }

    /// Returns whether the type is complex.
    pub(crate) fn is_complex(&self) -> bool {
        matches!(self.dtype, DType::Complex32 | DType::Complex64 | DType::Complex128)
    }
}

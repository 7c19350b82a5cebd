//! Access to tensor elements as Rust types.

use std::fmt;

use bytes::Bytes;
use half::{bf16, f16};
use lodstone_store::Blob;
use zerocopy::{FromBytes, Immutable, IntoBytes, TryFromBytes};

use crate::{DType, Kind, Tensor};

#[cfg(target_endian = "big")]
compile_error!("elements are little-endian in files and are used without conversion");

/// A Rust type that represents an element type in memory.
pub trait Element: Copy + Send + Sync + 'static + sealed::Element {
    /// The element type.
    const DTYPE: DType;
}

mod sealed {
    /// Conversions between elements and bytes.
    pub trait Element: Sized {
        /// Returns the elements in place; `None` if they are unaligned or invalid for the type.
        fn slice(bytes: &[u8]) -> Option<&[Self]>;
        /// Copies the elements, whatever their alignment.
        fn read(bytes: &[u8]) -> Vec<Self>;
        /// Returns the bytes of the elements.
        fn bytes(elements: &[Self]) -> &[u8];
    }
}

/// The reason why the elements of a tensor cannot be accessed as a Rust type.
#[derive(Debug)]
#[non_exhaustive]
pub enum ElementError {
    /// The elements are of another type.
    DType {
        /// The requested type.
        expected: DType,
        /// The type of the tensor.
        found: DType,
    },
    /// The tensor is not dense: it consists of more than its elements.
    Kind(&'static str),
    /// The number of elements does not match the shape.
    Count {
        /// The number of elements of the shape; `None` if it overflows `u64`.
        expected: Option<u64>,
        /// The actual number of elements.
        found: u64,
    },
    /// Reading failed.
    Read(lodstone_store::Error),
}

impl fmt::Display for ElementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DType { expected, found } => {
                write!(f, "expected element type {expected}, found {found}")
            }
            Self::Kind(kind) => write!(f, "expected a dense tensor, found {kind}"),
            Self::Count { expected: Some(expected), found } => {
                write!(f, "expected {expected} elements, found {found}")
            }
            Self::Count { expected: None, found } => {
                write!(f, "expected more elements than fit `u64`, found {found}")
            }
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ElementError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<lodstone_store::Error> for ElementError {
    fn from(error: lodstone_store::Error) -> Self {
        Self::Read(error)
    }
}

impl Tensor {
    /// Creates a dense tensor of row-major elements.
    ///
    /// # Errors
    /// [`ElementError::Count`] if the number of elements does not match the shape.
    pub fn from_vec<T: Element>(shape: Vec<u64>, elements: Vec<T>) -> Result<Self, ElementError> {
        check_count::<T>(&shape, size_of_val(elements.as_slice()) as u64)?;
        let data = Blob::memory(Bytes::from_owner(Elements(elements)));
        Ok(Self::dense(T::DTYPE, shape, data))
    }

    /// Returns the elements of a dense tensor in row-major order.
    ///
    /// # Errors
    /// [`ElementError::DType`] if the elements are of another type, [`ElementError::Kind`] if the tensor is not dense,
    /// [`ElementError::Count`] if their number does not match the shape, [`ElementError::Read`] if reading fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, ElementError> {
        self.check_elements::<T>()?;
        Ok(T::read(&self.data.bytes()?))
    }

    /// Returns the elements of a dense tensor without copying; `None` if they are in a file, or not aligned for the
    /// type. [`Model::load`](crate::Model::load) reads them into aligned memory.
    ///
    /// # Errors
    /// The errors of [`to_vec`](Self::to_vec), except for reading.
    pub fn as_slice<T: Element>(&self) -> Result<Option<&[T]>, ElementError> {
        self.check_elements::<T>()?;
        Ok(self.data.in_memory().and_then(|bytes| T::slice(bytes)))
    }

    fn check_elements<T: Element>(&self) -> Result<(), ElementError> {
        match self.kind {
            Kind::Dense if self.dtype == T::DTYPE => check_count::<T>(&self.shape, self.data.len()),
            Kind::Dense => Err(ElementError::DType { expected: T::DTYPE, found: self.dtype }),
            _ => Err(ElementError::Kind(self.kind.name())),
        }
    }
}

/// Fails if `bytes` is not the size of a tensor of `shape`.
fn check_count<T: Element>(shape: &[u64], bytes: u64) -> Result<(), ElementError> {
    let size = T::DTYPE.size_of(shape);
    if size == Some(bytes) {
        return Ok(());
    }
    let each = size_of::<T>() as u64;
    Err(ElementError::Count { expected: size.map(|size| size / each), found: bytes / each })
}

/// Owns elements and exposes them as bytes.
struct Elements<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Elements<T> {
    fn as_ref(&self) -> &[u8] {
        T::bytes(&self.0)
    }
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }

        impl sealed::Element for $rust {
            fn slice(bytes: &[u8]) -> Option<&[Self]> {
                slice(bytes)
            }

            fn read(bytes: &[u8]) -> Vec<Self> {
                read(bytes)
            }

            fn bytes(elements: &[Self]) -> &[u8] {
                elements.as_bytes()
            }
        }
    )*};
}

elements! {
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    f16 => Float16, bf16 => BFloat16, f32 => Float32, f64 => Float64,
    [f32; 2] => Complex64, [f64; 2] => Complex128,
}

fn slice<T: FromBytes + Immutable>(bytes: &[u8]) -> Option<&[T]> {
    <[T]>::ref_from_bytes(bytes).ok()
}

fn read<T: FromBytes>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).filter_map(|one| T::read_from_bytes(one).ok()).collect()
}

impl Element for bool {
    const DTYPE: DType = DType::Bool;
}

/// Any value but 0 is true, because some frameworks write other values.
impl sealed::Element for bool {
    fn slice(bytes: &[u8]) -> Option<&[Self]> {
        <[Self]>::try_ref_from_bytes(bytes).ok()
    }

    fn read(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|byte| *byte != 0).collect()
    }

    fn bytes(elements: &[Self]) -> &[u8] {
        elements.as_bytes()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_as_they_were_given() {
        let numbers = vec![1.5f32, -0.0, f32::NAN, f32::INFINITY, 1e-40, 3.0];
        let tensor = Tensor::from_vec(vec![2, 3], numbers.clone()).unwrap();
        let bits = |numbers: &[f32]| numbers.iter().map(|one| one.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&tensor.to_vec::<f32>().unwrap()), bits(&numbers));
        assert_eq!(bits(tensor.as_slice::<f32>().unwrap().unwrap()), bits(&numbers));
        let little = numbers.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(tensor.data.bytes().unwrap(), little);

        let flags = Tensor::from_vec(vec![2], vec![true, false]).unwrap();
        assert_eq!(flags.to_vec::<bool>().unwrap(), [true, false]);
        let halves = Tensor::from_vec(vec![1], vec![bf16::from_f32(1.5)]).unwrap();
        assert_eq!(halves.as_slice::<bf16>().unwrap().unwrap(), [bf16::from_f32(1.5)]);
        let none = Tensor::from_vec(vec![3, 0], Vec::<i64>::new()).unwrap();
        assert_eq!(none.to_vec::<i64>().unwrap(), [0i64; 0]);
        assert!(Tensor::from_vec(vec![u64::MAX, 2, 0], Vec::<i64>::new()).is_ok());
    }

    #[test]
    fn elements_that_are_not_aligned_are_copied() {
        let bytes = Bytes::from(vec![0, 1, 0, 0, 0, 2, 0, 0, 0]).slice(1..);
        let tensor = Tensor::dense(DType::Int32, vec![2], Blob::memory(bytes));
        assert_eq!(tensor.to_vec::<i32>().unwrap(), [1, 2]);
        assert!(tensor.as_slice::<i32>().unwrap().is_none_or(|slice| slice == [1, 2]));
        let odd = Tensor::dense(DType::Bool, vec![2], Blob::memory(vec![0, 2]));
        assert_eq!(odd.to_vec::<bool>().unwrap(), [false, true]);
        assert!(odd.as_slice::<bool>().unwrap().is_none());
    }

    #[test]
    fn other_elements_than_asked_for_are_errors() {
        let tensor = Tensor::from_vec(vec![2], vec![1i32, 2]).unwrap();
        let said = tensor.to_vec::<f32>().unwrap_err().to_string();
        assert_eq!(said, "expected element type float32, found int32");
        assert!(tensor.as_slice::<u32>().is_err());
        let said = Tensor::from_vec(vec![3], vec![1i32]).unwrap_err().to_string();
        assert_eq!(said, "expected 3 elements, found 1");
        assert!(Tensor::from_vec(vec![u64::MAX, 2], vec![1i32]).is_err());
        let short = Tensor::dense(DType::Int32, vec![3], Blob::memory(vec![0; 8]));
        assert!(matches!(short.to_vec::<i32>(), Err(ElementError::Count { .. })));
        assert!(matches!(short.as_slice::<i32>(), Err(ElementError::Count { .. })));
        let odd = Tensor::dense(DType::Int32, vec![2], Blob::memory(vec![0; 9]));
        assert!(matches!(odd.to_vec::<i32>(), Err(ElementError::Count { .. })));
        let absent = Tensor { kind: Kind::Absent, ..tensor };
        assert_eq!(
            absent.to_vec::<i32>().unwrap_err().to_string(),
            "expected a dense tensor, found absent"
        );
    }
}

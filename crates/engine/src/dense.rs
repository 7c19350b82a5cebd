//! Tensors with all their elements, as kernels take and return them.

use std::fmt;
use std::sync::Arc;

use burn_backend::{AllocationProperty, TensorData};
use burn_flex::{FlexTensor, Layout};
use bytes::Bytes;
use lodstone_model::{DType, Dim, Kind, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{MOST_ELEMENTS, ValueInfo};
use lodstone_store::Blob;

use crate::item::{Item, Outcome, TYPES, burn_type};
use crate::kernels::converted;
use crate::threads::Threads;

/// A dense tensor of any element type: dims, strides, and bytes that it may share with others.
///
/// Transposing, slicing and repeating make another `Dense` of the same bytes. Elements smaller than a byte are packed
/// as [`DType::size_of`] counts them, without strides.
#[derive(Clone)]
pub struct Dense {
    dtype: DType,
    dims: Vec<usize>,
    /// Elements from one index to the next along each dimension.
    strides: Vec<isize>,
    /// Elements before the first one.
    offset: usize,
    storage: Arc<burn_backend::Bytes>,
}

impl fmt::Debug for Dense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}

/// Bytes of a tensor, for holders of [`Bytes`].
struct Owner(Arc<burn_backend::Bytes>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Dense {
    /// A tensor of bytes in row-major order; they are copied only where their address is not a multiple of the size of
    /// an element.
    ///
    /// # Errors
    /// If the type has no size, or the bytes are not those of so many elements.
    pub fn new(dtype: DType, dims: Vec<usize>, bytes: Bytes) -> Outcome<Self> {
        let shape: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        if dtype.size_of(&shape) != Some(bytes.len() as u64) {
            return Err(format!("{} bytes are not those of {dims:?}", bytes.len()).into());
        }
        if dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
            return Err("a truth value is neither 0 nor 1".into());
        }
        let size = dtype.bits().map_or(1, |bits| (bits as usize / 8).max(1));
        let aligned = bytes.as_ptr().addr().is_multiple_of(size);
        let storage = match aligned {
            true => burn_backend::Bytes::from_shared(bytes, AllocationProperty::Other),
            false => burn_backend::Bytes::from_bytes_vec(bytes.to_vec()),
        };
        let strides = row_major(&dims);
        Ok(Self { dtype, dims, strides, offset: 0, storage: Arc::new(storage) })
    }

    /// The elements of a dense tensor of a model, which are read if they are not in memory.
    ///
    /// # Errors
    /// If it is not dense, or cannot be read.
    pub fn of(tensor: &Tensor) -> Outcome<Self> {
        if !matches!(tensor.kind, Kind::Dense) {
            return Err(format!("expected a dense tensor, found {}", tensor.kind.name()).into());
        }
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        let dims = tensor.shape.iter().map(|dim| usize::try_from(*dim));
        let dims = dims.collect::<Result<_, _>>().map_err(|_| "it is too large")?;
        Self::new(tensor.dtype, dims, bytes)
    }

    /// A tensor of a model that shares the bytes, if they lie in row-major order.
    ///
    /// # Errors
    /// An internal one if elements cannot be put in order.
    pub fn tensor(&self) -> Outcome<Tensor> {
        let shape = self.dims.iter().map(|dim| *dim as u64).collect();
        Ok(Tensor::dense(self.dtype, shape, Blob::memory(self.bytes()?)))
    }

    /// The elements in row-major order, copied if they do not lie so.
    ///
    /// # Errors
    /// An internal one if elements cannot be put in order.
    pub fn bytes(&self) -> Outcome<Bytes> {
        if self.strides == row_major(&self.dims) {
            let size = self.dtype.bits().map_or(1, |bits| (bits as usize / 8).max(1));
            let begin = self.offset.saturating_mul(size);
            let end = usize::try_from(self.nbytes()).ok().and_then(|all| begin.checked_add(all));
            return match end.filter(|end| *end <= self.storage.len()) {
                Some(end) => {
                    Ok(Bytes::from_owner(Owner(Arc::clone(&self.storage))).slice(begin..end))
                }
                None => Err(Finding::internal("elements lie outside of their storage")),
            };
        }
        if burn_type(self.dtype).is_err() {
            return self.gathered();
        }
        let data: TensorData = self.view()?.into_data();
        let (bytes, _, _) = data.into_parts();
        Ok(Bytes::from_owner(Owner(Arc::new(bytes))))
    }

    /// The elements one by one in row-major order.
    fn gathered(&self) -> Outcome<Bytes> {
        let size = self.dtype.bits().map_or(1, |bits| (bits as usize / 8).max(1));
        let mut bytes = Vec::new();
        let mut at = vec![0; self.dims.len()];
        for _ in 0..self.count() {
            let skipped: isize = at
                .iter()
                .zip(&self.strides)
                .map(|(at, stride)| usize::cast_signed(*at) * stride)
                .sum();
            let begin = self.offset.checked_add_signed(skipped).map(|offset| offset * size);
            let element = begin.and_then(|begin| self.storage.get(begin..begin + size));
            let lost = || Finding::internal("elements lie outside of their storage");
            bytes.extend_from_slice(element.ok_or_else(lost)?);
            for (at, dim) in at.iter_mut().zip(&self.dims).rev() {
                *at += 1;
                if *at < *dim {
                    break;
                }
                *at = 0;
            }
        }
        Ok(bytes.into())
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// How many elements it has.
    pub fn count(&self) -> usize {
        self.dims.iter().fold(1, |count, dim| count.saturating_mul(*dim))
    }

    /// How many bytes its elements take.
    pub fn nbytes(&self) -> u64 {
        let bits = u64::from(self.dtype.bits().unwrap_or(8));
        (self.count() as u64).saturating_mul(bits).div_ceil(8)
    }

    /// Its type, with its elements if they are few.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn info(&self) -> Outcome<ValueInfo> {
        if self.count() <= MOST_ELEMENTS {
            return Ok(ValueInfo::of(&self.tensor()?));
        }
        Ok(self.type_info())
    }

    /// Its type.
    pub fn type_info(&self) -> ValueInfo {
        let dims = self.dims.iter().map(|dim| Dim::Known(*dim as u64)).collect();
        ValueInfo::tensor(self.dtype, Some(dims))
    }

    /// The same elements of another type: numbers are rounded towards 0, or to the nearest that the type has.
    ///
    /// # Errors
    /// If nothing is computed of one of the types, or the system gives no threads.
    pub fn cast(&self, to: DType, threads: &Threads) -> Outcome<Self> {
        let (item, to) = (Item::of(self)?, burn_type(to)?);
        threads.run_if(self.nbytes(), || converted(item, to)?.dense())?
    }

    /// The elements as numbers of double precision, in row-major order.
    ///
    /// # Errors
    /// If nothing is computed of their type.
    pub fn to_f64(&self) -> Outcome<Vec<f64>> {
        Item::of(self)?.to_doubles()
    }

    /// The elements at an index of an axis, which goes; nothing is copied.
    ///
    /// # Errors
    /// If there is no such index, or elements are smaller than a byte.
    pub(crate) fn index(&self, axis: usize, at: usize) -> Outcome<Self> {
        let mut part = self.narrowed(axis, at, 1)?;
        part.dims.remove(axis);
        part.strides.remove(axis);
        Ok(part)
    }

    /// So many elements along an axis, from `begin` on; nothing is copied.
    ///
    /// # Errors
    /// If there are not as many, or elements are smaller than a byte.
    pub(crate) fn narrowed(&self, axis: usize, begin: usize, count: usize) -> Outcome<Self> {
        if self.dtype.bits().is_some_and(|bits| bits < 8) {
            return Err(format!("elements of {} are not taken apart", self.dtype).into());
        }
        let mut part = self.clone();
        let (Some(dim), Some(stride)) = (part.dims.get_mut(axis), self.strides.get(axis)) else {
            return Err(format!("there is no axis {axis}").into());
        };
        if begin.checked_add(count).is_none_or(|end| end > *dim) {
            return Err(format!("expected {count} elements from {begin} on of {dim}").into());
        }
        *dim = count;
        // A part of nothing begins where the whole does.
        if count > 0 {
            let skipped = stride.saturating_mul(begin.cast_signed());
            let offset = self.offset.checked_add_signed(skipped);
            part.offset = offset.ok_or_else(|| Finding::internal("it begins before its bytes"))?;
        }
        Ok(part)
    }

    /// Tensors of the same type and dims as one, with a new axis for them.
    ///
    /// # Errors
    /// If there are none, they differ, or elements are smaller than a byte.
    pub(crate) fn stacked(all: &[&Self], axis: usize) -> Outcome<Self> {
        let first = all.first().ok_or("there is nothing to stack")?;
        let mut bytes = Vec::new();
        for one in all {
            if one.dtype != first.dtype || one.dims != first.dims {
                return Err(format!("expected {first:?} again, found {one:?}").into());
            }
            bytes.extend_from_slice(&one.bytes()?);
        }
        let dims = [&[all.len()], &first.dims[..]].concat();
        let mut stack = Self::new(first.dtype, dims, bytes.into())?;
        if axis > 0 {
            if axis > first.dims.len() || first.dtype.bits().is_some_and(|bits| bits < 8) {
                return Err(format!("{first:?} is not stacked along axis {axis}").into());
            }
            let (dim, stride) = (stack.dims.remove(0), stack.strides.remove(0));
            stack.dims.insert(axis, dim);
            stack.strides.insert(axis, stride);
        }
        Ok(stack)
    }

    /// The same elements for kernels that compute with burn; nothing is copied.
    pub(crate) fn view(&self) -> Outcome<FlexTensor> {
        let dtype = burn_type(self.dtype)?;
        let layout = Layout::new(self.dims.clone().into(), self.strides.clone(), self.offset);
        Ok(FlexTensor::from_arc(Arc::clone(&self.storage), layout, dtype))
    }

    /// What a kernel made with burn; nothing is copied.
    pub(crate) fn of_view(tensor: &FlexTensor) -> Outcome<Self> {
        let found = tensor.dtype();
        let dtype = TYPES.iter().find(|(_, theirs)| *theirs == found).map(|(ours, _)| *ours);
        let layout = tensor.layout();
        Ok(Self {
            dtype: dtype.ok_or_else(|| Finding::internal(format!("it has become {found:?}")))?,
            dims: layout.shape().to_vec(),
            strides: layout.strides().to_vec(),
            offset: layout.start_offset(),
            storage: tensor.data_arc(),
        })
    }
}

/// The strides of elements that lie row by row.
fn row_major(dims: &[usize]) -> Vec<isize> {
    let mut stride = 1_usize;
    let mut strides: Vec<isize> = dims
        .iter()
        .rev()
        .map(|dim| {
            let here = stride.cast_signed();
            stride = stride.saturating_mul(*dim);
            here
        })
        .collect();
    strides.reverse();
    strides
}

//! Dense tensors: the inputs and results of kernels.

use std::fmt;
use std::sync::{Arc, OnceLock};

use burn_backend::{AllocationProperty, TensorData};
use burn_flex::{FlexTensor, Layout};
use bytes::Bytes;
use lodstone_model::{DType, Dim, Kind, Tensor};
use lodstone_schema::onnx::infer::{MAX_ELEMENTS, ValueInfo};
use lodstone_schema::{Code, Finding};
use lodstone_store::Blob;

use crate::budget::{Charge, Memory};
use crate::fast::layout::{Elements, Order, ordered};
use crate::item::{Outcome, TYPES, burn_type};
use crate::narrow::{Rounding, narrowed, widened};
use crate::threads::Threads;

/// A dense tensor of any element type: dims, strides, and bytes that it may share with others.
///
/// Transposing, slicing and broadcasting create another `Dense` with the same bytes. Elements smaller than a byte are
/// packed, as [`DType::size_of`] counts them, without strides.
#[derive(Clone)]
pub struct Dense {
    dtype: DType,
    dims: Vec<usize>,
    /// The distance in elements between successive indices of each dim.
    strides: Vec<isize>,
    /// The index of the first element in the bytes.
    offset: usize,
    storage: Storage,
    /// The charge for the bytes, which all views of them share; `None` if the values of a run do not count them.
    charge: Option<Arc<Charge>>,
}

/// The bytes of a tensor, which it may share with others.
#[derive(Clone)]
enum Storage {
    Aligned(Arc<burn_backend::Bytes>),
    Unaligned(Arc<Unaligned>),
}

/// Bytes of a file at an address that is no multiple of the element size.
struct Unaligned {
    bytes: Bytes,
    /// A copy that was needed.
    copy: OnceLock<Arc<burn_backend::Bytes>>,
    /// The charge for the copy.
    charge: OnceLock<Charge>,
}

impl Storage {
    fn of(bytes: Bytes, size: usize) -> Self {
        if bytes.as_ptr().addr().is_multiple_of(size) {
            let shared = burn_backend::Bytes::from_shared(bytes, AllocationProperty::Other);
            return Self::Aligned(Arc::new(shared));
        }
        Self::Unaligned(Arc::new(Unaligned {
            bytes,
            copy: OnceLock::new(),
            charge: OnceLock::new(),
        }))
    }

    /// Returns the bytes, at any address.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Aligned(bytes) => bytes,
            Self::Unaligned(it) => &it.bytes,
        }
    }

    /// Returns bytes whose address is a multiple of the element size.
    fn aligned(&self) -> &Arc<burn_backend::Bytes> {
        match self {
            Self::Aligned(bytes) => bytes,
            Self::Unaligned(it) => {
                let copied = || burn_backend::Bytes::from_bytes_vec(it.bytes.to_vec());
                it.copy.get_or_init(|| Arc::new(copied()))
            }
        }
    }
}

impl fmt::Debug for Dense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}

/// Keeps the bytes of a tensor alive for [`Bytes`].
struct Owner(Arc<burn_backend::Bytes>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Dense {
    /// Creates a tensor from bytes in row-major order. If their address is not aligned to the element size, they are copied
    /// when the elements are needed.
    ///
    /// # Errors
    /// If the type has no size, or the number of bytes does not match the dims.
    pub fn new(dtype: DType, dims: Vec<usize>, bytes: Bytes) -> Outcome<Self> {
        let shape: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        if dtype.size_of(&shape) != Some(bytes.len() as u64) {
            return Err(format!("{} bytes do not fill dims {dims:?}", bytes.len()).into());
        }
        if dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
            return Err("a boolean is neither 0 nor 1".into());
        }
        let strides = Order::RowMajor.strides(&dims);
        let storage = Storage::of(bytes, element_size(dtype));
        Ok(Self { dtype, dims, strides, offset: 0, storage, charge: None })
    }

    /// Returns the elements of a dense tensor of a model, reading them if they are not in memory.
    ///
    /// # Errors
    /// If the tensor is not dense, or cannot be read.
    pub fn of(tensor: &Tensor) -> Outcome<Self> {
        if !matches!(tensor.kind, Kind::Dense) {
            return Err(format!("expected a dense tensor, found {}", tensor.kind.name()).into());
        }
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        let dims = tensor.shape.iter().map(|dim| usize::try_from(*dim));
        let dims = dims.collect::<Result<_, _>>().map_err(|_| "it is too large")?;
        Self::new(tensor.dtype, dims, bytes)
    }

    /// Returns the bytes in memory from the first element on, at any address.
    pub(crate) fn stored(&self) -> &[u8] {
        let begin = self.offset.saturating_mul(element_size(self.dtype));
        self.storage.bytes().get(begin..).unwrap_or_default()
    }

    /// Converts to a tensor of a model, which shares the bytes if they are in row-major order.
    ///
    /// # Errors
    /// An internal one if elements cannot be put in order.
    pub fn tensor(&self) -> Outcome<Tensor> {
        let shape = self.dims.iter().map(|dim| *dim as u64).collect();
        Ok(Tensor::dense(self.dtype, shape, Blob::memory(self.bytes()?)))
    }

    /// Returns the elements in row-major order, copied if they are stored in another order.
    ///
    /// # Errors
    /// An internal one if elements cannot be put in order.
    pub fn bytes(&self) -> Outcome<Bytes> {
        // A part of nothing may begin anywhere.
        if self.nbytes() == 0 {
            return Ok(Bytes::new());
        }
        if self.strides == Order::RowMajor.strides(&self.dims) {
            let begin = self.offset.saturating_mul(element_size(self.dtype));
            let end = usize::try_from(self.nbytes()).ok().and_then(|all| begin.checked_add(all));
            let storage = self.storage.aligned();
            return match end.filter(|end| *end <= storage.len()) {
                Some(end) => Ok(Bytes::from_owner(Owner(Arc::clone(storage))).slice(begin..end)),
                None => Err(Finding::internal("elements are outside of their storage")),
            };
        }
        if burn_type(self.dtype).is_err() {
            return self.gathered();
        }
        let view = match self.dtype {
            DType::Float32 => match ordered(self, Order::RowMajor)? {
                Elements::Own(view, _) => view,
                Elements::Copy(values) => {
                    let bytes = burn_backend::Bytes::from_elems(values);
                    return Ok(Bytes::from_owner(Owner(Arc::new(bytes))));
                }
            },
            _ => self.view()?,
        };
        let data: TensorData = view.into_data();
        let (bytes, _, _) = data.into_parts();
        Ok(Bytes::from_owner(Owner(Arc::new(bytes))))
    }

    /// Copies the elements one by one in row-major order.
    fn gathered(&self) -> Outcome<Bytes> {
        let size = element_size(self.dtype);
        let mut bytes = with_capacity(self.nbytes())?;
        let mut at = vec![0; self.dims.len()];
        for _ in 0..self.count() {
            let skipped: isize = at
                .iter()
                .zip(&self.strides)
                .map(|(at, stride)| usize::cast_signed(*at) * stride)
                .sum();
            let begin = self.offset.checked_add_signed(skipped).map(|offset| offset * size);
            let element = begin.and_then(|begin| self.storage.aligned().get(begin..begin + size));
            let lost = || Finding::internal("elements are outside of their storage");
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

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the dims, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the distance in elements between successive indices of each dim.
    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().fold(1, |count, dim| count.saturating_mul(*dim))
    }

    /// Returns the size of the elements in bytes.
    pub fn nbytes(&self) -> u64 {
        let bits = u64::from(self.dtype.bits().unwrap_or(8));
        (self.count() as u64).saturating_mul(bits).div_ceil(8)
    }

    /// Charges the copy of bytes whose address is not aligned, which kernels read, unless there is one.
    ///
    /// # Errors
    /// If it exceeds the budget.
    pub(crate) fn charge_copy(&self, memory: Memory<'_>) -> Outcome<()> {
        if let Storage::Unaligned(it) = &self.storage
            && it.charge.get().is_none()
            && it.copy.get().is_none()
            && let Some(charge) = memory.reserve(it.bytes.len() as u64)?
        {
            // Another thread may have charged it meanwhile.
            let _ = it.charge.set(charge);
        }
        Ok(())
    }

    /// Returns the size of the bytes in memory, of which the elements may be a part.
    pub(crate) fn stored_nbytes(&self) -> u64 {
        self.storage.bytes().len() as u64
    }

    /// Returns the address of the bytes in memory, or that of their owner if there are none.
    pub(crate) fn address(&self) -> usize {
        match (&self.storage, self.storage.bytes()) {
            (Storage::Aligned(owner), []) => Arc::as_ptr(owner).addr(),
            (_, bytes) => bytes.as_ptr().addr(),
        }
    }

    /// Returns the charge for the bytes in memory.
    pub(crate) fn charge(&self) -> Option<&Arc<Charge>> {
        self.charge.as_ref()
    }

    /// Keeps a charge for the bytes in memory until the last view of them is dropped.
    pub(crate) fn charged(&mut self, charge: Arc<Charge>) {
        self.charge = Some(charge);
    }

    /// Returns the type, with the elements if there are few.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn info(&self) -> Outcome<ValueInfo> {
        if self.count() <= MAX_ELEMENTS {
            return Ok(ValueInfo::of(&self.tensor()?));
        }
        Ok(self.type_info())
    }

    /// Returns the type.
    pub fn type_info(&self) -> ValueInfo {
        let dims = self.dims.iter().map(|dim| Dim::Known(*dim as u64)).collect();
        ValueInfo::tensor(self.dtype, Some(dims))
    }

    /// Converts the elements to another type: they are rounded towards 0, or to the nearest value of the type.
    ///
    /// # Errors
    /// If kernels do not support one of the types, or the system cannot start threads.
    pub fn cast(&self, to: DType, threads: &Threads) -> Outcome<Self> {
        let item = widened(self)?;
        threads.run_if(self.nbytes(), || narrowed(item, to, Rounding::default()))?
    }

    /// Returns the elements in double precision, in row-major order.
    ///
    /// # Errors
    /// If kernels do not support the element type.
    pub fn to_f64(&self) -> Outcome<Vec<f64>> {
        widened(self)?.to_doubles()
    }

    /// Returns the elements at an index of an axis, and removes the axis; nothing is copied.
    ///
    /// # Errors
    /// If the index is out of range, or elements are smaller than a byte.
    pub(crate) fn index(&self, axis: usize, at: usize) -> Outcome<Self> {
        let mut part = self.narrowed(axis, at, 1)?;
        part.dims.remove(axis);
        part.strides.remove(axis);
        Ok(part)
    }

    /// Returns `count` elements along an axis, from `begin` on; nothing is copied.
    ///
    /// # Errors
    /// If the range is out of bounds, or elements are smaller than a byte.
    pub(crate) fn narrowed(&self, axis: usize, begin: usize, count: usize) -> Outcome<Self> {
        if self.dtype.bits().is_some_and(|bits| bits < 8) {
            return Err(format!("slicing elements of {} is not supported", self.dtype).into());
        }
        let mut part = self.clone();
        let (Some(dim), Some(stride)) = (part.dims.get_mut(axis), self.strides.get(axis)) else {
            return Err(format!("axis {axis} is out of range").into());
        };
        if begin.checked_add(count).is_none_or(|end| end > *dim) {
            return Err(format!("elements {begin}.. ({count} of them) exceed dim {dim}").into());
        }
        *dim = count;
        // An empty part keeps the offset of the whole.
        if count > 0 {
            let skipped = stride.saturating_mul(begin.cast_signed());
            let offset = self.offset.checked_add_signed(skipped);
            part.offset = offset.ok_or_else(|| Finding::internal("negative offset"))?;
        }
        Ok(part)
    }

    /// Stacks tensors of the same type and dims along a new axis.
    ///
    /// # Errors
    /// If there are no tensors, they differ, or elements are smaller than a byte.
    pub(crate) fn stacked(all: &[&Self], axis: usize) -> Outcome<Self> {
        let first = all.first().ok_or("no tensors to stack")?;
        let mut bytes = with_capacity(first.nbytes().saturating_mul(all.len() as u64))?;
        for one in all {
            if one.dtype != first.dtype || one.dims != first.dims {
                return Err(format!("cannot stack {one:?} on {first:?}").into());
            }
            bytes.extend_from_slice(&one.bytes()?);
        }
        let dims = [&[all.len()], &first.dims[..]].concat();
        let mut stack = Self::new(first.dtype, dims, bytes.into())?;
        if axis > 0 {
            if axis > first.dims.len() || first.dtype.bits().is_some_and(|bits| bits < 8) {
                return Err(format!("cannot stack {first:?} along axis {axis}").into());
            }
            let (dim, stride) = (stack.dims.remove(0), stack.strides.remove(0));
            stack.dims.insert(axis, dim);
            stack.strides.insert(axis, stride);
        }
        Ok(stack)
    }

    /// Returns a view for kernels that compute with burn; nothing is copied.
    pub(crate) fn view(&self) -> Outcome<FlexTensor> {
        let dtype = burn_type(self.dtype)?;
        // An empty tensor may begin behind the end of its storage, which burn does not expect.
        let is_empty = self.dims.contains(&0);
        let offset = if is_empty { 0 } else { self.offset };
        let layout = Layout::new(self.dims.clone().into(), self.strides.clone(), offset);
        Ok(FlexTensor::from_arc(Arc::clone(self.storage.aligned()), layout, dtype))
    }

    /// Wraps a result of burn; nothing is copied.
    pub(crate) fn of_view(tensor: &FlexTensor) -> Outcome<Self> {
        let found = tensor.dtype();
        let dtype = TYPES.iter().find(|(_, theirs)| *theirs == found).map(|(ours, _)| *ours);
        let layout = tensor.layout();
        Ok(Self {
            dtype: dtype.ok_or_else(|| Finding::internal(format!("unexpected type {found:?}")))?,
            dims: layout.shape().to_vec(),
            strides: layout.strides().to_vec(),
            offset: layout.start_offset(),
            storage: Storage::Aligned(tensor.data_arc()),
            charge: None,
        })
    }
}

/// Returns an empty list with room for this many bytes.
fn with_capacity(bytes: u64) -> Outcome<Vec<u8>> {
    let mut list = Vec::new();
    let fits = usize::try_from(bytes).is_ok_and(|bytes| list.try_reserve_exact(bytes).is_ok());
    let wrong = || format!("it would take {bytes} bytes, which the system cannot provide");
    fits.then_some(list).ok_or_else(|| Finding::new(Code::Limit, wrong()))
}

/// Returns the size of an element in bytes; 1 if several share a byte.
fn element_size(dtype: DType) -> usize {
    dtype.bits().map_or(1, |bits| (bits as usize / 8).max(1))
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests fail so")]
mod tests {
    use super::*;
    use crate::fast::layout::raw;

    /// Elements are the same at every address. They are copied only if they have to be, and once.
    #[test]
    fn elements_at_any_address_can_be_read() {
        for skipped in 0..4 {
            let values = [1.5_f32, -2.0, 0.25];
            let mut bytes = vec![0; skipped];
            bytes.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
            let bytes = Bytes::from(bytes).slice(skipped..);
            let dense = Dense::new(DType::Float32, vec![3], bytes).expect("a tensor");
            let copy = || match &dense.storage {
                Storage::Aligned(_) => None,
                Storage::Unaligned(it) => Some(it.copy.get().map(|copy| copy.as_ptr())),
            };
            assert_eq!(copy().is_none(), skipped == 0, "{skipped} bytes before the elements");
            let numbers = |it: &Dense| it.to_f64().expect("numbers");
            let raw = raw(&dense, Order::RowMajor).expect("elements");
            assert_eq!(raw.iter().map(|it| f32::from_ne_bytes(*it)).collect::<Vec<_>>(), values);
            assert_eq!(copy().flatten(), None, "elements were copied that were read in place");
            let other = dense.clone();
            assert_eq!(numbers(&other), [1.5, -2.0, 0.25]);
            let first = copy();
            assert_eq!(numbers(&dense), [1.5, -2.0, 0.25]);
            assert_eq!(copy(), first, "the elements were copied twice");
        }
    }
}

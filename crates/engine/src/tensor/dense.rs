//! Dense tensors: the inputs and results of kernels.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_model::{DType, Dim, Kind, Tensor};
use lodstone_schema::onnx::infer::{MAX_ELEMENTS, ValueInfo};
use lodstone_schema::{Code, Finding};
use lodstone_store::Blob;
use pulp::bytemuck::try_cast_slice;
use smallvec::{SmallVec, smallvec};

use super::element::{Element, bits, bits_of};
use super::order::{Order, elements};
use super::storage::{Storage, bytes_of};
use crate::budget::{Charge, Memory};
use crate::dims::{Dims, INLINE, Strides};
use crate::error::Outcome;
use crate::narrow::{Rounding, narrowed, widened};
use crate::threads::Threads;

/// A dense tensor of any element type: dims, strides, and bytes that it may share with others.
///
/// Transposing, slicing and broadcasting create another `Dense` with the same bytes. Elements smaller than a byte are
/// packed, as [`DType::size_of`] counts them, without strides.
#[derive(Clone)]
pub struct Dense {
    dtype: DType,
    /// The size of an element in bits.
    bits: u32,
    dims: Dims,
    /// The distance in elements between successive indices of each dim.
    strides: Strides,
    /// The index of the first element in the bytes.
    offset: usize,
    storage: Storage,
    /// The charge for the bytes, which all views of them share; `None` if the values of a run do not count them.
    charge: Option<Arc<Charge>>,
}

impl fmt::Debug for Dense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}

impl Dense {
    /// Creates a tensor from bytes in row-major order. If their address is not aligned to the element size, they are copied
    /// when the elements are needed.
    ///
    /// # Errors
    /// If the type has no size, or the number of bytes does not match the dims.
    pub fn new(dtype: DType, dims: impl AsRef<[usize]>, bytes: Bytes) -> Outcome<Self> {
        let dims = dims.as_ref();
        let shape: SmallVec<[u64; INLINE]> = dims.iter().map(|dim| *dim as u64).collect();
        Self::of_shape(dtype, &shape, bytes)
    }

    /// Creates a tensor from bytes in row-major order, as [`new`](Self::new) does.
    fn of_shape(dtype: DType, shape: &[u64], bytes: Bytes) -> Outcome<Self> {
        if dtype.size_of(shape) != Some(bytes.len() as u64) {
            return Err(format!("{} bytes do not fill dims {shape:?}", bytes.len()).into());
        }
        let dims = shape.iter().map(|dim| usize::try_from(*dim));
        let dims = dims.collect::<Result<Dims, _>>().map_err(|_| "it is too large")?;
        if dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
            return Err("a boolean is neither 0 nor 1".into());
        }
        let strides = Order::RowMajor.strides(&dims);
        let size = bits(dtype)?;
        let storage = Storage::of(bytes, in_bytes(size));
        Ok(Self { dtype, bits: size, dims, strides, offset: 0, storage, charge: None })
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
        Self::of_shape(tensor.dtype, &tensor.shape, bytes)
    }

    /// Returns the bytes in memory from the first element on, at any address.
    pub(crate) fn stored(&self) -> &[u8] {
        let begin = self.offset.saturating_mul(in_bytes(self.bits));
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
        if Order::RowMajor.is_of(self) {
            let begin = self.offset.saturating_mul(in_bytes(self.bits));
            let end = usize::try_from(self.nbytes()).ok().and_then(|all| begin.checked_add(all));
            let storage = self.storage.aligned();
            return match end.filter(|end| *end <= storage.len()) {
                Some(end) => Ok(storage.slice(begin..end)),
                None => Err(Finding::internal("elements are outside of their storage")),
            };
        }
        bits_of!(
            self.dtype.bits(),
            T => Ok(bytes_of(elements::<T>(self, Order::RowMajor)?.into_vec())),
            self.gathered()
        )
    }

    /// Copies elements of other sizes one by one in row-major order.
    fn gathered(&self) -> Outcome<Bytes> {
        let size = in_bytes(self.bits);
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

    /// Returns the size of an element in bits.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
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
        (self.count() as u64).saturating_mul(self.bits.into()).div_ceil(8)
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

    /// Returns the address of the bytes in memory.
    pub(crate) fn address(&self) -> usize {
        self.storage.bytes().as_ptr().addr()
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
        let wide = widened(self)?;
        threads.run_if(self.nbytes(), || narrowed(&wide, to, Rounding::default()))?
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

    /// Returns the elements of the whole storage; the first one of the tensor is at [`offset`](Self::offset).
    ///
    /// # Errors
    /// If they are of another type.
    pub(crate) fn typed<T: Element>(&self) -> Outcome<&[T]> {
        if !T::reads(self.dtype) {
            let what = format!("elements of {} as {}", self.dtype, T::DTYPE);
            return Err(Finding::internal(what));
        }
        let storage = self.storage.aligned();
        let whole = storage.len() / size_of::<T>() * size_of::<T>();
        let cast = storage.get(..whole).and_then(|bytes| try_cast_slice(bytes).ok());
        cast.ok_or_else(|| Finding::internal("elements are not aligned"))
    }

    /// Returns the bytes of the whole storage, at an address for elements.
    pub(crate) fn aligned(&self) -> &Bytes {
        self.storage.aligned()
    }

    /// Returns the index of the first element in the storage.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Creates a tensor of a result from bytes at an address for elements, in an order.
    ///
    /// # Errors
    /// If the number of bytes does not match the dims.
    pub(super) fn with_strides(
        dtype: DType,
        dims: Dims,
        strides: Strides,
        bytes: Bytes,
    ) -> Outcome<Self> {
        let size = bits(dtype)?;
        let storage = Storage::of(bytes, in_bytes(size));
        let made = Self { dtype, bits: size, dims, strides, offset: 0, storage, charge: None };
        match made.nbytes() == made.stored_nbytes() {
            true => Ok(made),
            false => Err(Finding::internal("a result has the wrong number of elements")),
        }
    }

    /// Creates a tensor of a result from bytes in row-major order.
    ///
    /// # Errors
    /// As [`with_strides`](Self::with_strides).
    pub(crate) fn of_elements(
        dtype: DType,
        dims: impl AsRef<[usize]>,
        bytes: Bytes,
    ) -> Outcome<Self> {
        let dims = Dims::from_slice(dims.as_ref());
        let strides = Order::RowMajor.strides(&dims);
        Self::with_strides(dtype, dims, strides, bytes)
    }

    /// Creates a tensor of elements in row-major order.
    ///
    /// # Errors
    /// If their number does not match the dims.
    pub(crate) fn from_vec<T: Element>(
        elements: Vec<T>,
        dims: impl AsRef<[usize]>,
    ) -> Outcome<Self> {
        Self::of_elements(T::DTYPE, dims, bytes_of(elements))
    }

    /// Creates a list of integers.
    pub(crate) fn longs(values: &[i64]) -> Self {
        let storage = Storage::Aligned(bytes_of(values.to_vec()));
        let (dims, strides) = (smallvec![values.len()], smallvec![1]);
        let (dtype, bits) = (DType::Int64, i64::BITS);
        Self { dtype, bits, dims, strides, offset: 0, storage, charge: None }
    }

    /// Creates a tensor of booleans.
    ///
    /// # Errors
    /// If their number does not match the dims.
    pub(crate) fn truths(values: &[bool], dims: &[usize]) -> Outcome<Self> {
        let bytes: Vec<u8> = values.iter().map(|it| u8::from(*it)).collect();
        Self::of_elements(DType::Bool, dims, bytes.into())
    }

    /// Creates a tensor of one value, which is stored once.
    ///
    /// # Errors
    /// If kernels do not support the element type.
    pub(crate) fn filled(value: f64, dtype: DType, dims: &[usize]) -> Outcome<Self> {
        let one = Self::from_vec(vec![value], [])?.cast_to(dtype)?;
        one.expanded(dims)
    }

    /// Creates a tensor of numbers, converted to a type.
    ///
    /// # Errors
    /// If their number does not match the dims, or kernels do not support the element type.
    pub(crate) fn numbers(values: Vec<f64>, dtype: DType, dims: &[usize]) -> Outcome<Self> {
        Self::from_vec(values, dims)?.cast_to(dtype)
    }

    /// Returns a copy of the dims.
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.dims.to_vec()
    }

    /// Returns the axes, outermost in memory first, of elements without gaps in another order than the row-major one.
    pub(super) fn order_in_memory(&self) -> Option<Dims> {
        if Order::RowMajor.is_of(self) || self.dims.contains(&0) {
            return None;
        }
        let mut axes: Dims = (0..self.dims.len()).collect();
        axes.sort_by_key(|at| std::cmp::Reverse((self.strides.get(*at), self.dims.get(*at))));
        self.permuted(&axes).is_ok_and(|it| Order::RowMajor.is_of(&it)).then_some(axes)
    }

    /// Returns the tensor with dims in another order; nothing is copied.
    ///
    /// # Errors
    /// If it is no permutation of the axes.
    pub(crate) fn permuted(&self, axes: &[usize]) -> Outcome<Self> {
        let pick = |at: &usize| Some((*self.dims.get(*at)?, *self.strides.get(*at)?));
        let picked: Option<SmallVec<[_; INLINE]>> = axes.iter().map(pick).collect();
        let is_all = axes.len() == self.dims.len() && (0..axes.len()).all(|at| axes.contains(&at));
        let picked = picked.filter(|_| is_all);
        let picked = picked.ok_or_else(|| Finding::internal(format!("axes {axes:?}")))?;
        let (dims, strides) = picked.into_iter().unzip();
        Ok(self.with_view(dims, strides, self.offset))
    }

    /// Returns the tensor with other dims; elements are copied if they are not in row-major order.
    ///
    /// # Errors
    /// If the dims have another number of elements, or memory is insufficient.
    pub(crate) fn reshaped(&self, dims: impl AsRef<[usize]>) -> Outcome<Self> {
        let dims = dims.as_ref();
        if self.dims() == dims {
            return Ok(self.clone());
        }
        if dims.iter().product::<usize>() != self.count() {
            return Err(Finding::internal(format!("{:?} reshaped to {dims:?}", self.dims)));
        }
        let strides = Order::RowMajor.strides(dims);
        if Order::RowMajor.is_of(self) {
            return Ok(self.with_view(Dims::from_slice(dims), strides, self.offset));
        }
        Self::with_strides(self.dtype, Dims::from_slice(dims), strides, self.bytes()?)
    }

    /// Returns the tensor broadcast to dims; nothing is copied.
    ///
    /// # Errors
    /// If it does not broadcast to them.
    pub(crate) fn expanded(&self, dims: &[usize]) -> Outcome<Self> {
        if self.dims() == dims {
            return Ok(self.clone());
        }
        let wrong = || Finding::from(format!("{:?} does not broadcast to {dims:?}", self.dims));
        let missing = dims.len().checked_sub(self.dims.len()).ok_or_else(wrong)?;
        let mut strides: Strides = smallvec![0; dims.len()];
        let own = self.dims.iter().zip(&self.strides);
        for ((into, dim), (own, stride)) in strides.iter_mut().zip(dims).skip(missing).zip(own) {
            match *own {
                own if own == *dim => *into = *stride,
                1 => {}
                _ => return Err(wrong()),
            }
        }
        Ok(self.with_view(Dims::from_slice(dims), strides, self.offset))
    }

    /// Returns other elements of the storage.
    pub(super) fn with_view(&self, dims: Dims, strides: Strides, offset: usize) -> Self {
        let (storage, charge) = (self.storage.clone(), self.charge.clone());
        Self { dtype: self.dtype, bits: self.bits, dims, strides, offset, storage, charge }
    }

    /// Returns the elements of an axis from `start` to before `end`; nothing is copied.
    ///
    /// # Errors
    /// If the range is out of bounds.
    pub(crate) fn cut(&self, axis: usize, start: usize, end: usize) -> Outcome<Self> {
        let count = end.checked_sub(start);
        self.narrowed(axis, start, count.ok_or_else(|| Finding::internal("a range backwards"))?)
    }

    /// Returns the elements in row-major order, converted to a type.
    fn converted<T: Element>(&self) -> Outcome<Vec<T>> {
        let cast = self.cast_to(T::DTYPE)?;
        Ok(elements::<T>(&cast, Order::RowMajor)?.into_vec())
    }

    /// Returns the elements as integers in row-major order. Larger values saturate at the maximum.
    pub(crate) fn to_longs(&self) -> Outcome<Vec<i64>> {
        const MOST: u64 = i64::MAX.cast_unsigned();
        match self.dtype {
            DType::Uint64 => {
                let all = elements::<u64>(self, Order::RowMajor)?;
                Ok(all.iter().map(|it| it.min(&MOST).cast_signed()).collect())
            }
            _ => self.converted(),
        }
    }

    /// Returns the elements in double precision in row-major order.
    pub(crate) fn to_doubles(&self) -> Outcome<Vec<f64>> {
        self.converted()
    }

    /// Returns the elements in single precision in row-major order.
    pub(crate) fn to_singles(&self) -> Outcome<Vec<f32>> {
        self.converted()
    }

    /// Returns whether each element is true or not 0, in row-major order.
    pub(crate) fn to_truths(&self) -> Outcome<Vec<bool>> {
        let truths = self.cast_to(DType::Bool)?;
        Ok(elements::<u8>(&truths, Order::RowMajor)?.iter().map(|it| *it != 0).collect())
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
fn in_bytes(bits: u32) -> usize {
    (bits as usize / 8).max(1)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests fail so")]
mod tests {
    use super::super::storage::Storage;
    use super::*;
    use crate::layout::raw;

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

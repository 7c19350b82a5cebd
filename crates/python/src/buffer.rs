//! The bytes of a tensor in Python's buffer protocol.

#![expect(unsafe_code, reason = "the protocol exposes addresses")]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use bytes::Bytes;
use lodstone::Blob;
use lodstone::store::Memory;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Bytes that stay at their address while they are held.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// Bytes of a file or of a model: shared and read-only.
    Shared(Bytes),
    /// A range of memory that only Python accesses.
    Own(Arc<Region>, Range<usize>),
}

/// Memory that only Python reads and writes.
#[derive(Debug)]
pub(crate) struct Region {
    start: *mut u8,
    len: usize,
    _memory: Memory,
}

// SAFETY: Rust code does not access the memory after `new`; accesses by Python follow its rules for buffers.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Held {
    /// Returns writable bytes: the ranges of `memory`.
    pub(crate) fn own(memory: Memory, ranges: Vec<Range<usize>>) -> Vec<Self> {
        let region = Arc::new(Region::new(memory));
        ranges.into_iter().map(|range| Self::Own(Arc::clone(&region), range)).collect()
    }

    /// Returns the address of the bytes. Shared bytes must not be written to through it.
    pub(crate) fn address(&self) -> *mut u8 {
        match self {
            Self::Shared(bytes) => bytes.as_ptr().cast_mut(),
            Self::Own(region, range) if range.end <= region.len => {
                // SAFETY: the range is inside the region.
                unsafe { region.start.add(range.start) }
            }
            Self::Own(region, _) => region.start,
        }
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Own(region, range) if range.end <= region.len => range.len(),
            Self::Own(..) => 0,
        }
    }

    fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

impl Region {
    fn new(mut memory: Memory) -> Self {
        let (start, len) = (memory.as_mut_ptr(), memory.len());
        Self { start, len, _memory: memory }
    }
}

/// The bytes of a tensor, row-major and little-endian.
#[pyclass(frozen, module = "lodstone")]
#[derive(Debug)]
pub(crate) struct Buffer(pub(crate) Held);

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        let held = &slf.get().0;
        let len = ffi::Py_ssize_t::try_from(held.len())
            .map_err(|_| PyBufferError::new_err("the buffer is too large"))?;
        // Some consumers require an address that is not null even if there are no bytes.
        let address = if len == 0 { ptr::NonNull::dangling().as_ptr() } else { held.address() };
        // SAFETY: `view` is not null, the object keeps the bytes alive, and shared bytes are marked read-only.
        let result = unsafe {
            let readonly = c_int::from(held.is_shared());
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                address.cast::<c_void>(),
                len,
                readonly,
                flags,
            )
        };
        if result == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Returns the bytes of an object with a buffer, without a copy; the blob keeps the buffer alive.
pub(crate) fn blob(object: &Bound<'_, PyAny>) -> PyResult<Blob> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("expected a contiguous buffer"));
    }
    Ok(Blob::memory(Bytes::from_owner(Exporter(buffer))))
}

/// The buffer of a Python object.
struct Exporter(PyUntypedBuffer);

impl AsRef<[u8]> for Exporter {
    fn as_ref(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the object keeps the bytes at their address while the buffer is held. If Python code writes to them
        // meanwhile, it is unspecified which bytes are saved, as in every other library.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// The writable buffer of a Python object.
pub(crate) struct Target(PyUntypedBuffer);

impl Target {
    /// Returns the contiguous buffer of an object.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        match buffer.is_c_contiguous() && !buffer.readonly() {
            true => Ok(Self(buffer)),
            false => Err(PyBufferError::new_err("expected a contiguous, writable buffer")),
        }
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// Returns the addresses of the bytes.
    pub(crate) fn range(&self) -> Range<usize> {
        let start = self.0.buf_ptr().addr();
        start..start.saturating_add(self.len())
    }

    /// Returns the bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        if self.0.len_bytes() == 0 {
            return &mut [];
        }
        // SAFETY: the object keeps the bytes at their address while the buffer is held, and lets them be written to. If Python
        // code uses them meanwhile, it is unspecified what it finds, as in every other library.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

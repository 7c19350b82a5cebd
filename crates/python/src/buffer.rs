//! Bytes of a tensor, by Python's buffer protocol.

#![expect(unsafe_code, reason = "the protocol hands out addresses")]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use bytes::Bytes;
use lodstone::{Blob, Memory};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Bytes that do not move while somebody holds them.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// Those of a file or of a model: others read them, nobody writes.
    Shared(Bytes),
    /// Some of those that Python alone has.
    Own(Arc<Region>, Range<usize>),
}

/// Memory that Python alone reads and writes.
#[derive(Debug)]
pub(crate) struct Region {
    start: *mut u8,
    len: usize,
    _memory: Memory,
}

// SAFETY: nothing of it is used here; what Python does with it is under Python's rules for buffers.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Held {
    /// Bytes that may be written to.
    pub(crate) fn own(memory: Memory, places: Vec<Range<usize>>) -> Vec<Self> {
        let region = Arc::new(Region::new(memory));
        places.into_iter().map(|place| Self::Own(Arc::clone(&region), place)).collect()
    }

    /// Where they are; what is shared is never written to through this.
    pub(crate) fn address(&self) -> *mut u8 {
        match self {
            Self::Shared(bytes) => bytes.as_ptr().cast_mut(),
            Self::Own(region, range) if range.end <= region.len => {
                // SAFETY: the range is inside.
                unsafe { region.start.add(range.start) }
            }
            Self::Own(region, _) => region.start,
        }
    }

    /// How many there are.
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
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let held = &slf.get().0;
        let len = ffi::Py_ssize_t::try_from(held.len())
            .map_err(|_| PyBufferError::new_err("more bytes than there are addresses"))?;
        // Nothing is read of none, but some want an address.
        let address = if len == 0 { ptr::NonNull::dangling().as_ptr() } else { held.address() };
        // SAFETY: `view` is one to be filled, the object keeps the bytes, and those that are shared are
        // said to be read-only.
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

/// The bytes of an object that has a buffer, which it keeps: nothing is copied.
pub(crate) fn blob(object: &Bound<'_, PyAny>) -> PyResult<Blob> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the bytes of a tensor have to be in one piece"));
    }
    Ok(Blob::memory(Bytes::from_owner(Exporter(buffer))))
}

/// Bytes of an object of Python.
struct Exporter(PyUntypedBuffer);

impl AsRef<[u8]> for Exporter {
    fn as_ref(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the object keeps them where they are while the buffer is held. Who writes to them
        // meanwhile saves what there is at that moment, as with every other library.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

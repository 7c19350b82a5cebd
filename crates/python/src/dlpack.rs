//! Export of tensors to other frameworks by DLPack.

#![expect(unsafe_code, reason = "the protocol exposes addresses")]

use std::ffi::c_void;

use dlpark::ffi::{
    DLDataType, DLDataTypeCode, DLDevice, DLManagedTensor, DLManagedTensorVersioned,
};
use dlpark::metadata::Dynamic;
use dlpark::python::{DlpackExporter, ExportRequest};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use lodstone::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::buffer::Held;

/// Elements in memory that the importer may write to.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<i64>,
    pub(crate) held: Held,
}

impl Exported {
    fn managed<M: ManagedTensorBase>(&self) -> PyResult<Managed<M>> {
        let broken = |error: &dyn std::fmt::Display| PyBufferError::new_err(error.to_string());
        let Some(dtype) = code(self.dtype) else {
            return Err(broken(&format!("DLPack has no type for {}", self.dtype)));
        };
        let dims: Result<Vec<u64>, _> = self.shape.iter().map(|&one| one.try_into()).collect();
        let expected = dims.ok().and_then(|dims| self.dtype.size_of(&dims));
        let found = self.held.len() as u64;
        if expected != Some(found) {
            let tensor = format!("{}{:?}", self.dtype, self.shape);
            return Err(broken(&format!("expected the bytes of {tensor}, found {found}")));
        }
        let prepared = Dynamic::compact(&self.shape[..]).prepare_as::<M>();
        let mut tensor =
            prepared.map_err(|error| broken(&error))?.initialize(Box::new(self.held.clone()));
        tensor
            .set_data(self.held.address().cast::<c_void>())
            .set_device(DLDevice::CPU)
            .set_dtype(dtype);
        // SAFETY: the context keeps the bytes alive, and their number matches the shape (checked above).
        Ok(unsafe { tensor.finish() })
    }
}

impl DlpackExporter for Exported {
    fn device(&self) -> DLDevice {
        DLDevice::CPU
    }

    fn flags(&self) -> DlpackFlags {
        DlpackFlags::empty()
    }

    fn prepare_export(&self, _: Python<'_>, _: &ExportRequest<'_>) -> PyResult<()> {
        Ok(())
    }

    fn export_legacy(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensor>> {
        self.managed()
    }

    fn export_versioned(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensorVersioned>> {
        self.managed()
    }
}

/// Returns the DLPack type; `None` if DLPack has none, or packs elements differently.
fn code(dtype: DType) -> Option<DLDataType> {
    use DLDataTypeCode as C;
    let code = match dtype {
        DType::Bool => C::BOOL,
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => C::INT,
        DType::Uint8 | DType::Uint16 | DType::Uint32 | DType::Uint64 => C::UINT,
        DType::Float16 | DType::Float32 | DType::Float64 => C::FLOAT,
        DType::BFloat16 => C::BFLOAT,
        DType::Complex32 | DType::Complex64 | DType::Complex128 => C::COMPLEX,
        DType::Float8E4M3 => C::FLOAT8_E4M3,
        DType::Float8E4M3Fn => C::FLOAT8_E4M3FN,
        DType::Float8E4M3Fnuz => C::FLOAT8_E4M3FNUZ,
        DType::Float8E5M2 => C::FLOAT8_E5M2,
        DType::Float8E5M2Fnuz => C::FLOAT8_E5M2FNUZ,
        DType::Float8E8M0Fnu => C::FLOAT8_E8M0FNU,
        _ => return None,
    };
    Some(DLDataType { code, bits: u8::try_from(dtype.bits()?).ok()?, lanes: 1 })
}

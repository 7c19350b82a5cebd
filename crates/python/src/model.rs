//! Models and tensors.

use std::sync::Arc;

use bytes::Bytes;
use dlpark::python::{ExportRequest, export_dlpack};
use lodstone::{DType, InspectOptions, Kind, Memory, Progress, inspect};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use serde::Serialize;

use crate::buffer::{Buffer, Held};
use crate::dlpack::Exported;
use crate::errors::{raise, raise_absent, raise_store};
use crate::work::run;

/// A model: its tensors by name, in the order of the file, and what else there is.
#[pyclass(frozen, mapping, module = "lodstone")]
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) model: Arc<lodstone::Model>,
    /// Names of the tensors; numbers where the files say none.
    names: Vec<String>,
    /// Numbers of the tensors, sorted by their names.
    by_name: Vec<usize>,
}

impl Model {
    pub(crate) fn new(model: lodstone::Model) -> Self {
        let name = |(number, parameter): (usize, &lodstone::Parameter)| match &*parameter.name {
            "" => number.to_string(),
            name => name.to_owned(),
        };
        let names: Vec<String> = model.parameters.iter().enumerate().map(name).collect();
        let mut by_name: Vec<usize> = (0..names.len()).collect();
        by_name.sort_by_key(|number| names.get(*number));
        Self { model: Arc::new(model), names, by_name }
    }

    fn number(&self, name: &str) -> Option<usize> {
        let of = |number: &usize| self.names.get(*number).map_or("", String::as_str);
        let first = self.by_name.partition_point(|number| of(number) < name);
        self.by_name.get(first).copied().filter(|number| of(number) == name)
    }

    fn tensor(&self, number: usize) -> Option<Tensor> {
        let parameter = self.model.parameters.get(number)?;
        let name = self.names.get(number)?.clone();
        Some(Tensor { name, tensor: parameter.tensor.clone() })
    }
}

#[pymethods]
impl Model {
    /// The format it was read from: `"paddle"`, `"safetensors"`.
    #[getter]
    fn format(&self) -> &str {
        &self.model.format
    }

    /// Free-form facts of the file.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = PyDict::new(py);
        self.model.metadata.iter().try_for_each(|(key, value)| facts.set_item(key, value))?;
        Ok(facts)
    }

    /// What a user should know.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.model.report.warnings.clone()
    }

    /// All tensors, in the order of the file.
    #[getter]
    fn tensors(&self) -> Vec<Tensor> {
        (0..self.names.len()).filter_map(|number| self.tensor(number)).collect()
    }

    #[pyo3(name = "_inspect")]
    fn inspect<'py>(
        &self,
        py: Python<'py>,
        hash: bool,
        operators: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = Arc::clone(&self.model);
        let found = run(py, None, |progress| {
            inspect(&model, &InspectOptions { hash, operators, progress: progress.clone() })
        })?;
        json(py, &found.map_err(|error| raise(py, error))?)
    }

    #[pyo3(name = "_names")]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The same, with all tensors in memory: its files are needed no more.
    #[pyo3(name = "_loaded")]
    fn loaded(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        let mut model = lodstone::Model::clone(&self.model);
        let work = move |progress: &Progress| model.load_with(progress).map(|()| model);
        let loaded = run(py, progress.as_ref(), work)?;
        loaded.map(Self::new).map_err(|error| raise_store(py, error))
    }

    /// The tensors, with their bytes in memory of their own, all of them read at once.
    #[pyo3(name = "_load")]
    fn load(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Vec<(Tensor, Buffer)>> {
        let tensors = self.tensors();
        tensors.iter().try_for_each(|tensor| tensor.check_there(py))?;
        let blobs: Vec<_> = tensors.iter().map(|one| one.tensor.data.clone()).collect();
        let read = run(py, progress.as_ref(), |progress| Memory::read(&blobs, progress))?;
        let (memory, places) = read.map_err(|error| raise_store(py, error))?;
        let held = Held::own(memory, places).into_iter().map(Buffer);
        Ok(tensors.into_iter().zip(held).collect())
    }

    fn __len__(&self) -> usize {
        self.names.len()
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| self.number(name).is_some())
    }

    fn __getitem__(&self, name: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        // What is no name, or no text of Unicode, is a key that is not there, as in every mapping.
        let number = name.extract::<&str>().ok().and_then(|name| self.number(name));
        let tensor = number.and_then(|number| self.tensor(number));
        tensor.ok_or_else(|| PyKeyError::new_err((name.clone().unbind(),)))
    }
}

/// A tensor. Nothing of it is read before it is asked for.
#[pyclass(frozen, module = "lodstone")]
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) tensor: lodstone::Tensor,
}

#[pymethods]
impl Tensor {
    /// A dense tensor of bytes that are row-major and little-endian. They are not copied.
    #[new]
    fn new(name: String, dtype: &str, shape: Vec<u64>, data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Some(dtype) = DType::from_name(dtype) else {
            let what = format!("`{name}`: there is no element type `{dtype}`");
            return Err(PyTypeError::new_err(what));
        };
        let data = crate::buffer::blob(data)?;
        let (found, expected) = (data.len(), dtype.size_of(&shape));
        if expected != Some(found) {
            let what = format!("`{name}`: expected the bytes of {dtype}{shape:?}, found {found}");
            return Err(pyo3::exceptions::PyValueError::new_err(what));
        }
        Ok(Self { name, tensor: lodstone::Tensor::dense(dtype, shape, data) })
    }

    /// The same under another name.
    fn renamed(&self, name: String) -> Self {
        Self { name, tensor: self.tensor.clone() }
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Type of the elements, as NumPy or `ml_dtypes` spells it: `"float32"`, `"bfloat16"`.
    #[getter]
    fn dtype(&self) -> String {
        self.tensor.dtype.to_string()
    }

    /// What safetensors calls that type: `"F32"`, `"BF16"`.
    #[getter]
    fn _safetensors_dtype(&self) -> Option<&'static str> {
        lodstone::safetensors_dtype(self.tensor.dtype)
    }

    /// Extents, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.tensor.shape)
    }

    /// Extents of what `data` has; of a sparse tensor, those of the elements that are stored.
    #[getter]
    fn stored_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.stored_shape())
    }

    /// Size in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.tensor.nbytes()
    }

    /// `"dense"`, `"selected_rows"`, `"row_sparse"`, `"csr"`, `"coo"`, `"strings"`, `"vocab"` or `"absent"`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.tensor.kind.name()
    }

    /// LoD: for each level the offsets at which sequences begin, and the end.
    #[getter]
    fn lod(&self) -> Vec<Vec<u64>> {
        self.tensor.lod.0.clone()
    }

    /// The integers of a sparse tensor, by what they are: `"rows"`, `"indices"`, `"indptr"`.
    #[getter]
    fn parts(&self) -> Vec<Self> {
        let shaped = |name: &str, dtype: DType, shape: Vec<u64>, data: &lodstone::Blob| Self {
            name: name.to_owned(),
            tensor: lodstone::Tensor::dense(dtype, shape, data.clone()),
        };
        let part = |name: &str, dtype: DType, data: &lodstone::Blob| {
            let size = u64::from(dtype.bits().unwrap_or(8) / 8).max(1);
            shaped(name, dtype, vec![data.len() / size], data)
        };
        match &self.tensor.kind {
            Kind::SelectedRows { rows, .. } => vec![part("rows", DType::Int64, rows)],
            Kind::Coo { indices, linear: false } => {
                let mut shape = self.tensor.stored_shape();
                shape.push(self.tensor.shape.len() as u64);
                vec![shaped("indices", indices.dtype, shape, &indices.data)]
            }
            Kind::RowSparse { indices } | Kind::Coo { indices, .. } => {
                vec![part("indices", indices.dtype, &indices.data)]
            }
            Kind::Csr { indptr, indices } => vec![
                part("indptr", indptr.dtype, &indptr.data),
                part("indices", indices.dtype, &indices.data),
            ],
            _ => Vec::new(),
        }
    }

    /// Texts of a tensor of such, row by row; tokens and ids of a vocabulary.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match &self.tensor.kind {
            Kind::Strings { elements } => {
                let elements: Vec<_> = elements.iter().map(|text| PyBytes::new(py, text)).collect();
                Some(elements.into_pyobject(py)?.into_any())
            }
            Kind::Vocabulary { tokens } => Some(tokens.clone().into_pyobject(py)?.into_any()),
            _ => None,
        })
    }

    /// Its bytes: those of the file, which are read-only and not copied where they can be used as they
    /// are, or with `private` memory that is yours to write to.
    #[pyo3(signature = (*, private = false))]
    fn data(&self, py: Python<'_>, private: bool) -> PyResult<Buffer> {
        self.held(py, private).map(Buffer)
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        let device = dlpark::ffi::DLDevice::CPU;
        (device.device_type.0, device.device_id)
    }

    /// Memory of its own, for `from_dlpack`.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        // It is a copy in any case, made where it is written to.
        let request =
            ExportRequest::parse(stream, max_version, dl_device, copy.filter(|copy| !copy))?;
        let extent = |extent: u64| i64::try_from(extent).unwrap_or(i64::MAX);
        let shape = self.tensor.stored_shape().into_iter().map(extent).collect();
        let held = self.held(py, true)?;
        export_dlpack(&Exported { dtype: self.tensor.dtype, shape, held }, py, request)
    }

    /// What NumPy makes an array of: `lodstone.numpy.array`.
    #[pyo3(signature = (dtype = None, *, copy = None))]
    fn __array__<'py>(
        slf: Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = slf.py().import("lodstone.numpy")?;
        array.call_method1("_array_as", (slf, dtype, copy))
    }

    fn __repr__(&self) -> String {
        let shape: Vec<_> = self.tensor.shape.iter().map(u64::to_string).collect();
        let (name, dtype) = (&self.name, self.tensor.dtype);
        format!("<lodstone.Tensor {name:?} {dtype}[{}]>", shape.join(", "))
    }
}

/// So many bytes are there before a thread would have begun to read them.
const SHORT: u64 = 1 << 20;

impl Tensor {
    /// Fails if the files only describe it.
    fn check_there(&self, py: Python<'_>) -> PyResult<()> {
        match self.tensor.kind {
            Kind::Absent => Err(raise_absent(py, &self.name)),
            _ => Ok(()),
        }
    }

    fn held(&self, py: Python<'_>, private: bool) -> PyResult<Held> {
        self.check_there(py)?;
        let data = self.tensor.data.clone();
        let size = usize::try_from(self.tensor.dtype.bits().unwrap_or(8).div_ceil(8)).unwrap_or(1);
        let short = data.len() <= SHORT;
        let work = move |progress: &Progress| {
            let aligned = |held: &Held| held.address().addr().is_multiple_of(size.max(1));
            let held = match private {
                true => {
                    let (memory, place) = data.private()?;
                    Held::own(memory, vec![place]).pop()
                }
                false => Some(Held::Shared(data.bytes()?)),
            };
            if let Some(held) = held.filter(aligned) {
                return Ok(held);
            }
            let (memory, places) = Memory::read(std::slice::from_ref(&data), progress)?;
            Ok(Held::own(memory, places).pop().unwrap_or(Held::Shared(Bytes::new())))
        };
        let held = match short {
            true => py.detach(|| work(&Progress::default())),
            false => run(py, None, work)?,
        };
        held.map_err(|error| raise_store(py, error))
    }
}

/// What `json.loads` makes of the JSON form of a value.
pub(crate) fn json<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value)
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

//! Tensors.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use dlpark::python::{ExportRequest, export_dlpack};
use lodstone::inspect::PropertyKeys;
use lodstone::model::{Indices, Kind};
use lodstone::store::{Error as StoreError, Memory};
use lodstone::{DType, Lod, Loss, Parameter, Progress};
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyBool, PyBytes, PyInt, PyString, PyTuple};

use crate::buffer::{Buffer, Held};
use crate::dlpack::Exported;
use crate::errors::{raise_absent, raise_store};
use crate::model::json;
use crate::work::run;

/// A tensor, which is read on first access.
#[pyclass(frozen, module = "lodstone")]
#[derive(Debug)]
pub(crate) struct Tensor(Of);

/// The owner of a tensor.
#[derive(Debug)]
enum Of {
    /// A model, which its tensors share.
    Model(Arc<lodstone::Model>, usize),
    Itself(Box<Parameter>),
}

#[pymethods]
impl Tensor {
    /// Makes a dense tensor from row-major, little-endian bytes, which are not copied.
    #[new]
    fn new(name: String, dtype: &str, shape: Vec<u64>, data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Some(dtype) = DType::from_name(dtype) else {
            let what = format!("`{name}`: unknown element type `{dtype}`");
            return Err(PyTypeError::new_err(what));
        };
        let data = crate::buffer::blob(data)?;
        let (found, expected) = (data.len(), dtype.size_of(&shape));
        if expected != Some(found) {
            let what = format!("`{name}`: expected the bytes of {dtype}{shape:?}, found {found}");
            return Err(pyo3::exceptions::PyValueError::new_err(what));
        }
        Ok(Self::alone(name, lodstone::Tensor::dense(dtype, shape, data)))
    }

    /// A tensor of strings, in row-major order.
    #[staticmethod]
    #[pyo3(name = "_strings")]
    fn strings(name: String, shape: Vec<u64>, values: Vec<PyBackedBytes>) -> PyResult<Self> {
        let count = shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
        if count != Some(values.len() as u64) {
            let what = format!("`{name}`: {} strings do not fill {shape:?}", values.len());
            return Err(pyo3::exceptions::PyValueError::new_err(what));
        }
        let elements = values.iter().map(|text| Bytes::copy_from_slice(text)).collect();
        let mut tensor =
            lodstone::Tensor::dense(DType::String, shape, lodstone::Blob::memory(Bytes::new()));
        tensor.kind = Kind::Strings { elements };
        Ok(Self::alone(name, tensor))
    }

    /// Returns the same tensor under another name.
    fn renamed(&self, name: String) -> Self {
        Self::alone(name, self.tensor().clone())
    }

    /// The name.
    #[getter(name)]
    fn name_of(&self) -> Cow<'_, str> {
        self.name()
    }

    /// The element type, with its name in NumPy or `ml_dtypes`: `"float32"`, `"bfloat16"`.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        dtype_name(py, self.tensor().dtype)
    }

    /// The code of the element type in safetensors: `"F32"`, `"BF16"`.
    #[getter]
    fn _safetensors_dtype(&self) -> Option<&'static str> {
        lodstone::formats::safetensors_dtype(self.tensor().dtype)
    }

    /// The dims, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.tensor().shape)
    }

    /// The number of dims.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor().shape.len()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        let all = self.tensor().shape.iter().try_fold(1_u64, |all, dim| all.checked_mul(*dim));
        all.ok_or_else(|| PyOverflowError::new_err("it has more elements than 64 bits count"))
    }

    /// The first dim.
    fn __len__(&self) -> PyResult<usize> {
        let first = self.tensor().shape.first();
        let first =
            first.ok_or_else(|| PyTypeError::new_err("a tensor without dims has no len"))?;
        Ok(usize::try_from(*first)?)
    }

    /// A tensor is an object, whatever its elements are.
    fn __bool__(&self) -> bool {
        true
    }

    /// Whether the other is a tensor of the same type and dims, with the same bits and LoD; names are not compared.
    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented().into_bound(py)) };
        let (one, other) = (self.tensor().clone(), other.get().tensor().clone());
        let is_same = run(py, None, move |_| is_same(&one, &other))?;
        let is_same = is_same.map_err(|error| raise_store(py, error))?;
        Ok(PyBool::new(py, is_same).to_owned().into_any())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let tensor = self.tensor();
        (tensor.dtype.to_string(), &tensor.shape, &tensor.lod.0).hash(&mut hasher);
        hasher.finish()
    }

    /// Pickles the tensor with its elements and its LoD, without what its model records about it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Pickled)> {
        self.check_there(py)?;
        let tensor = self.tensor();
        let name = self.name().into_owned();
        let (dtype, shape, lod) = (tensor.dtype.to_string(), tensor.shape.clone(), &tensor.lod.0);
        let elements = match &tensor.kind {
            Kind::Dense => {
                let bytes = tensor.data.bytes().map_err(|error| raise_store(py, error))?;
                PyBytes::new(py, &bytes).into_any().unbind()
            }
            Kind::Strings { elements } => {
                let elements: Vec<_> = elements.iter().map(|text| PyBytes::new(py, text)).collect();
                elements.into_pyobject(py)?.into_any().unbind()
            }
            kind => {
                let what = format!("`{name}`: {} tensors cannot be pickled", kind.name());
                return Err(PyTypeError::new_err(what));
            }
        };
        let unpickle = py.get_type::<Self>().getattr("_unpickled")?;
        Ok((unpickle, (name, dtype, shape, elements, lod.clone())))
    }

    /// Makes a tensor that was pickled.
    #[staticmethod]
    #[pyo3(name = "_unpickled")]
    fn unpickled(
        name: String,
        dtype: &str,
        shape: Vec<u64>,
        elements: &Bound<'_, PyAny>,
        lod: Vec<Vec<u64>>,
    ) -> PyResult<Self> {
        let tensor = match elements.is_instance_of::<PyBytes>() {
            true => Self::new(name, dtype, shape, elements)?,
            false => Self::strings(name, shape, elements.extract()?)?,
        };
        if lod.is_empty() { Ok(tensor) } else { tensor.with_lod(lod) }
    }

    /// A tensor does not change.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Returns the elements as lists of Python numbers.
    fn tolist(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Self::numpy(slf)?.call_method0("tolist")
    }

    /// The dims of `data`; for a sparse tensor, those of the stored elements.
    #[getter]
    fn stored_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self.tensor().kind {
            Kind::Dense => self.shape(py),
            _ => PyTuple::new(py, self.tensor().stored_shape()),
        }
    }

    /// The size in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.tensor().nbytes()
    }

    /// The file, and the offset and length of the elements in it, if they are stored there as they are.
    fn _place(&self) -> Option<(PathBuf, u64, u64)> {
        let data = &self.tensor().data;
        let (file, offset) = data.file_range()?;
        Some((file.path().to_path_buf(), offset, data.len()))
    }

    /// `"dense"`, `"selected_rows"`, `"row_sparse"`, `"csr"`, `"coo"`, `"strings"`, `"vocab"` or `"absent"`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.tensor().kind.name()
    }

    /// The LoD: for each level, the start offsets of the sequences, and the end.
    #[getter]
    fn lod(&self) -> Vec<Vec<u64>> {
        self.tensor().lod.0.clone()
    }

    /// Returns the lengths of the sequences of each level of the LoD.
    fn recursive_sequence_lengths(&self) -> Vec<Vec<u64>> {
        let lengths = |level: &Vec<u64>| {
            level
                .iter()
                .zip(level.iter().skip(1))
                .map(|(from, to)| to.saturating_sub(*from))
                .collect()
        };
        self.tensor().lod.0.iter().map(lengths).collect()
    }

    /// Returns the same tensor with another LoD.
    fn with_lod(&self, lod: Vec<Vec<u64>>) -> PyResult<Self> {
        let mut tensor = self.tensor().clone();
        tensor.lod = Lod(lod);
        if let Err(error) = tensor.lod.check(tensor.shape.first().copied().unwrap_or(0)) {
            let what = format!("argument 'lod': {error}");
            return Err(pyo3::exceptions::PyValueError::new_err(what));
        }
        Ok(Self::alone(self.name().into_owned(), tensor))
    }

    /// The order of the dims, such as `"NHWC"`, if the model records one.
    #[getter]
    fn layout<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.property(py, "layout")
    }

    /// The stride of each dim in elements, if the model records strides.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.property(py, "strides")
    }

    /// The quantization of the elements, unless operators quantize.
    #[getter]
    fn quantization<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.property(py, "quantization")
    }

    /// Whether an input keeps its value from run to run, if the model records it.
    #[getter]
    fn is_static<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.property(py, "static")
    }

    /// Whether training changes the tensor, if the model records it.
    #[getter]
    fn trainable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.property(py, "trainable")
    }

    /// The device that held the tensor when it was saved, if the file records it.
    #[getter]
    fn context<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.property(py, "context")
    }

    /// The index tensors of a sparse tensor, named by their role: `"rows"`, `"indices"`, `"indptr"`.
    #[getter]
    fn parts(&self) -> Vec<Self> {
        let shaped = |name: &str, dtype: DType, shape: Vec<u64>, data: &lodstone::Blob| {
            Self::alone(name.to_owned(), lodstone::Tensor::dense(dtype, shape, data.clone()))
        };
        let part = |name: &str, dtype: DType, data: &lodstone::Blob| {
            let size = u64::from(dtype.bits().unwrap_or(8) / 8).max(1);
            shaped(name, dtype, vec![data.len() / size], data)
        };
        match &self.tensor().kind {
            Kind::SelectedRows { rows, .. } => vec![part("rows", DType::Int64, rows)],
            Kind::Coo { indices, linear: false } => {
                let mut shape = self.tensor().stored_shape();
                shape.push(self.tensor().shape.len() as u64);
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

    /// The strings of a string tensor, in row-major order; the tokens and ids of a vocabulary.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match &self.tensor().kind {
            Kind::Strings { elements } => {
                let elements: Vec<_> = elements.iter().map(|text| PyBytes::new(py, text)).collect();
                Some(elements.into_pyobject(py)?.into_any())
            }
            Kind::Vocabulary { tokens } => Some(tokens.clone().into_pyobject(py)?.into_any()),
            _ => None,
        })
    }

    /// Returns the bytes: the read-only pages of the file, or with `private` copy-on-write pages. Misaligned bytes are
    /// copied.
    #[pyo3(signature = (*, private = false))]
    fn data(&self, py: Python<'_>, private: bool) -> PyResult<Buffer> {
        self.held(py, private).map(Buffer)
    }

    /// The names of the losses in a conversion to an array.
    #[pyo3(name = "_losses")]
    fn losses(&self) -> Vec<&'static str> {
        losses_of(self.tensor()).iter().map(|loss| loss.name()).collect()
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        let device = dlpark::ffi::DLDevice::CPU;
        (device.device_type.0, device.device_id)
    }

    /// Exports private memory, for `from_dlpack`.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        if is_sparse(self.tensor()) {
            let what = format!("`{}` is sparse, which DLPack does not support", self.name());
            return Err(PyBufferError::new_err(what));
        }
        // `copy=True` needs no extra copy: private pages are copied on write.
        let request =
            ExportRequest::parse(stream, max_version, dl_device, copy.filter(|copy| !copy))?;
        export_dlpack(&self.exported(self.held(py, true)?), py, request)
    }

    /// Exports these bytes of the tensor as a capsule, without the arguments of the protocol.
    #[pyo3(name = "_dlpack")]
    fn capsule(&self, py: Python<'_>, data: &Bound<'_, Buffer>) -> PyResult<Py<PyAny>> {
        let request = ExportRequest::parse(None, None, None, None)?;
        export_dlpack(&self.exported(data.get().0.clone()), py, request)
    }

    /// Converts the tensor to a NumPy array.
    #[pyo3(signature = (dtype = None, *, copy = None))]
    fn __array__<'py>(
        slf: Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = slf.py().import("lodstone.numpy")?;
        array.call_method1("_array_as", (slf, dtype, copy))
    }

    /// Converts the tensor to a NumPy array: a read-only view of the file.
    fn numpy(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("lodstone.numpy")?.call_method1("array", (slf,))
    }

    /// Selects a part, as a NumPy array.
    fn __getitem__<'py>(
        slf: Bound<'py, Self>,
        index: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = slf.py().import("lodstone.numpy")?;
        array.call_method1("_part", (slf, index))
    }

    fn __repr__(&self) -> String {
        let shape: Vec<_> = self.tensor().shape.iter().map(u64::to_string).collect();
        let (name, dtype) = (self.name(), self.tensor().dtype);
        format!("<lodstone.Tensor {name:?} {dtype}[{}]>", shape.join(", "))
    }
}

/// The arguments of `_unpickled`: name, element type, dims, elements, LoD.
type Pickled = (String, String, Vec<u64>, Py<PyAny>, Vec<Vec<u64>>);

/// Returns whether two tensors have the same type, dims, kind, LoD and bits.
fn is_same(one: &lodstone::Tensor, other: &lodstone::Tensor) -> Result<bool, StoreError> {
    let same_bytes = |one: &lodstone::Blob, other: &lodstone::Blob| -> Result<bool, StoreError> {
        Ok(one.len() == other.len() && one.bytes()? == other.bytes()?)
    };
    let same_indices = |one: &Indices, other: &Indices| -> Result<bool, StoreError> {
        Ok(one.dtype == other.dtype && same_bytes(&one.data, &other.data)?)
    };
    let is_alike = one.dtype == other.dtype
        && one.shape == other.shape
        && one.lod == other.lod
        && one.stored_shape() == other.stored_shape();
    let parts = match (&one.kind, &other.kind) {
        (Kind::Dense, Kind::Dense) => true,
        (Kind::Strings { elements }, Kind::Strings { elements: others }) => elements == others,
        (Kind::Vocabulary { tokens }, Kind::Vocabulary { tokens: others }) => tokens == others,
        (
            Kind::SelectedRows { rows, height },
            Kind::SelectedRows { rows: others, height: high },
        ) => height == high && same_bytes(rows, others)?,
        (Kind::RowSparse { indices }, Kind::RowSparse { indices: others }) => {
            same_indices(indices, others)?
        }
        (Kind::Coo { indices, linear }, Kind::Coo { indices: others, linear: is_linear }) => {
            linear == is_linear && same_indices(indices, others)?
        }
        (Kind::Csr { indptr, indices }, Kind::Csr { indptr: pointers, indices: others }) => {
            same_indices(indptr, pointers)? && same_indices(indices, others)?
        }
        _ => false,
    };
    Ok(is_alike && parts && same_bytes(&one.data, &other.data)?)
}

/// Maximum size in bytes of a tensor that is read by the calling thread: starting another would take longer.
const MAX_READ_INLINE: u64 = 1 << 20;

impl Tensor {
    /// Returns a tensor of a model, which must have this index.
    pub(crate) fn of(model: &Arc<lodstone::Model>, number: usize) -> Self {
        Self(Of::Model(Arc::clone(model), number))
    }

    pub(crate) fn alone(name: String, tensor: lodstone::Tensor) -> Self {
        Self(Of::Itself(Box::new(Parameter { name, tensor })))
    }

    pub(crate) fn parameter(&self) -> &Parameter {
        match &self.0 {
            Of::Model(model, number) => &model.parameters[*number],
            Of::Itself(parameter) => parameter,
        }
    }

    /// Returns what the model records about the tensor under a key of `inspect --json`; `None` if it records nothing.
    fn property<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let properties = match &self.0 {
            Of::Model(model, _) => lodstone::inspect::properties(model, self.parameter()),
            Of::Itself(parameter) => {
                lodstone::inspect::properties(&lodstone::Model::default(), parameter)
            }
        };
        json(py, &PropertyKeys(&properties))?.call_method1("get", (key,))
    }

    pub(crate) fn tensor(&self) -> &lodstone::Tensor {
        &self.parameter().tensor
    }

    /// Returns the name; for a tensor without a name in the files of its model, its index.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        match (&*self.parameter().name, &self.0) {
            ("", Of::Model(_, number)) => number.to_string().into(),
            (name, _) => name.into(),
        }
    }

    fn model(&self) -> Option<&lodstone::Model> {
        match &self.0 {
            Of::Model(model, _) => Some(model),
            Of::Itself(_) => None,
        }
    }

    /// Fails if the files contain no elements of the tensor.
    pub(crate) fn check_there(&self, py: Python<'_>) -> PyResult<()> {
        match self.tensor().kind {
            Kind::Absent => Err(raise_absent(py, self.model(), &self.name())),
            _ => Ok(()),
        }
    }

    /// The elements as keys of a map: strings or integers.
    pub(crate) fn keys<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if let Kind::Strings { elements } = &self.tensor().kind {
            let key =
                |text: &Bytes| Ok(String::from_utf8_lossy(text).into_pyobject(py)?.into_any());
            return elements.iter().map(key).collect();
        }
        let dtype = self.tensor().dtype;
        let is_signed = matches!(dtype, DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64);
        let width = dtype.bits().map_or(1, |bits| (bits as usize / 8).max(1));
        let bytes = self.tensor().data.bytes().map_err(|error| raise_store(py, error))?;
        let key = |key: &[u8]| {
            let options = [("signed", is_signed)].into_py_dict(py)?;
            let int = py.get_type::<PyInt>();
            int.call_method("from_bytes", (PyBytes::new(py, key), "little"), Some(&options))
        };
        bytes.chunks_exact(width).map(key).collect()
    }

    fn exported(&self, held: Held) -> Exported {
        let dim = |dim: u64| i64::try_from(dim).unwrap_or(i64::MAX);
        let shape = self.tensor().stored_shape().into_iter().map(dim).collect();
        Exported { dtype: self.tensor().dtype, shape, held }
    }

    fn held(&self, py: Python<'_>, private: bool) -> PyResult<Held> {
        self.check_there(py)?;
        let data = self.tensor().data.clone();
        let size =
            usize::try_from(self.tensor().dtype.bits().unwrap_or(8).div_ceil(8)).unwrap_or(1);
        let is_short = data.len() <= MAX_READ_INLINE;
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
        let held = match is_short {
            true => py.detach(|| work(&Progress::default())),
            false => run(py, None, work)?,
        };
        held.map_err(|error| raise_store(py, error))
    }
}

/// Returns the losses in a conversion of a tensor to an array.
pub(crate) fn losses_of(tensor: &lodstone::Tensor) -> Vec<Loss> {
    let lod = (!tensor.lod.is_empty()).then_some(Loss::Lod);
    let parts = match tensor.kind {
        Kind::SelectedRows { .. } => Some(Loss::SelectedRows),
        Kind::RowSparse { .. } | Kind::Csr { .. } | Kind::Coo { .. } => Some(Loss::Sparse),
        Kind::Dense | Kind::Strings { .. } | Kind::Vocabulary { .. } | Kind::Absent => None,
    };
    lod.into_iter().chain(parts).collect()
}

fn is_sparse(tensor: &lodstone::Tensor) -> bool {
    losses_of(tensor).iter().any(|loss| *loss != Loss::Lod)
}

/// Returns the name of an element type: one Python object for all tensors.
fn dtype_name(py: Python<'_>, dtype: DType) -> Bound<'_, PyString> {
    static NAMES: PyOnceLock<Vec<(DType, Py<PyString>)>> = PyOnceLock::new();
    let names = NAMES.get_or_init(py, || {
        let name = |dtype: DType| (dtype, PyString::intern(py, &dtype.to_string()).unbind());
        DType::all().map(name).collect()
    });
    match names.iter().find(|(known, _)| *known == dtype) {
        Some((_, name)) => name.bind(py).clone(),
        None => PyString::new(py, &dtype.to_string()),
    }
}

/// Returns a tensor with a copy of the elements: Python may write to an array while its bytes are used.
pub(crate) fn own(tensor: &lodstone::Tensor) -> Result<lodstone::Tensor, lodstone::store::Error> {
    let data = lodstone::Blob::memory(tensor.data.bytes()?.to_vec());
    Ok(lodstone::Tensor { data, ..tensor.clone() })
}

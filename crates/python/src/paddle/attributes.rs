//! Attributes of operators as Python objects.

use bytes::Bytes;
use lodstone::DType;
use lodstone::model::{AttributeValue, Scalar};
use lodstone::paddle::schema::attributes;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

/// The key of the dictionary that stands for a block.
const BLOCK: &str = "block";

/// Returns the Python object for a value; a block is `{"block": index}`.
pub(super) fn to_python<'py>(
    py: Python<'py>,
    value: &AttributeValue,
) -> PyResult<Bound<'py, PyAny>> {
    let text = |text: &lodstone::model::ByteString| match std::str::from_utf8(&text.0) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, &text.0).into_any(),
    };
    let block = |index: i32| {
        let block = PyDict::new(py);
        block.set_item(BLOCK, index).map(|()| block.into_any())
    };
    match value {
        AttributeValue::None => Ok(py.None().into_bound(py)),
        AttributeValue::Bool(value) => value.into_bound_py_any(py),
        AttributeValue::Int(value) => value.into_bound_py_any(py),
        AttributeValue::Long(value) => value.into_bound_py_any(py),
        AttributeValue::Float(value) => f64::from(*value).into_bound_py_any(py),
        AttributeValue::Double(value) => value.into_bound_py_any(py),
        AttributeValue::String(value) => Ok(text(value)),
        AttributeValue::Bools(values) => values.clone().into_bound_py_any(py),
        AttributeValue::Ints(values) => values.clone().into_bound_py_any(py),
        AttributeValue::Longs(values) => values.clone().into_bound_py_any(py),
        AttributeValue::Floats(values) => values.clone().into_bound_py_any(py),
        AttributeValue::Doubles(values) => values.clone().into_bound_py_any(py),
        AttributeValue::Strings(values) => Ok(PyList::new(py, values.iter().map(text))?.into_any()),
        AttributeValue::Block(index) => block(*index),
        AttributeValue::Blocks(indices) => {
            let blocks = indices.iter().map(|index| block(*index)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, blocks)?.into_any())
        }
        AttributeValue::Var(name) => name.clone().into_bound_py_any(py),
        AttributeValue::Vars(names) => names.clone().into_bound_py_any(py),
        AttributeValue::Scalar(value) => scalar(py, value),
        AttributeValue::Scalars(values) => {
            let values =
                values.iter().map(|value| scalar(py, value)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, values)?.into_any())
        }
        other => Err(PyValueError::new_err(format!(
            "PaddlePaddle has no attribute of this kind: {other:?}"
        ))),
    }
}

fn scalar<'py>(py: Python<'py>, value: &Scalar) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Scalar::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Scalar::Long(value) => value.into_pyobject(py)?.into_any(),
        Scalar::Double(value) => PyFloat::new(py, *value).into_any(),
        Scalar::Complex(value) => {
            pyo3::types::PyComplex::from_doubles(py, value.re, value.im).into_any()
        }
        Scalar::Unknown(kind) => {
            return Err(PyValueError::new_err(format!("unknown type of scalars: {kind}")));
        }
    })
}

/// Returns the value of an attribute of an operator: of the type in the registry, or, if that does not have the
/// attribute, of the type of the object.
pub(super) fn from_python(
    kind: &str,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<AttributeValue> {
    let known = attributes(kind).find(|known| known.name == name);
    let converted = match known.and_then(|known| known.like.as_ref()) {
        Some(like) => alike(value, like),
        None if name == "dtype" && value.is_instance_of::<PyString>() => dtype(value),
        None => inferred(value),
    };
    converted.map_err(|error| {
        let what = error.value(value.py()).to_string();
        PyTypeError::new_err(format!("operator `{kind}`, attribute `{name}`: {what}"))
    })
}

/// Converts an object to the type of another value.
fn alike(value: &Bound<'_, PyAny>, like: &AttributeValue) -> PyResult<AttributeValue> {
    Ok(match like {
        AttributeValue::Bool(_) => AttributeValue::Bool(truth(value)?),
        AttributeValue::Int(_) if value.is_instance_of::<PyString>() => dtype(value)?,
        AttributeValue::Int(_) => AttributeValue::Int(value.extract()?),
        AttributeValue::Long(_) => AttributeValue::Long(value.extract()?),
        AttributeValue::Float(_) => AttributeValue::Float(value.extract()?),
        AttributeValue::Double(_) => AttributeValue::Double(value.extract()?),
        AttributeValue::String(_) => AttributeValue::String(bytes(value)?),
        AttributeValue::Bools(_) => {
            AttributeValue::Bools(members(value)?.iter().map(truth).collect::<PyResult<_>>()?)
        }
        AttributeValue::Ints(_) => AttributeValue::Ints(value.extract()?),
        AttributeValue::Longs(_) => AttributeValue::Longs(value.extract()?),
        AttributeValue::Floats(_) => AttributeValue::Floats(value.extract()?),
        AttributeValue::Doubles(_) => AttributeValue::Doubles(value.extract()?),
        AttributeValue::Strings(_) => {
            AttributeValue::Strings(members(value)?.iter().map(bytes).collect::<PyResult<_>>()?)
        }
        AttributeValue::Scalar(_) => AttributeValue::Scalar(scalar_of(value)?),
        AttributeValue::Scalars(_) => {
            AttributeValue::Scalars(members(value)?.iter().map(scalar_of).collect::<PyResult<_>>()?)
        }
        _ => inferred(value)?,
    })
}

/// The members of a list or tuple.
fn members<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    value.extract()
}

/// A Boolean; numbers are accepted as in PaddlePaddle.
fn truth(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.extract::<bool>() {
        Ok(value) => Ok(value),
        Err(_) => Ok(value.extract::<i64>()? != 0),
    }
}

fn bytes(value: &Bound<'_, PyAny>) -> PyResult<lodstone::model::ByteString> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(lodstone::model::ByteString(Bytes::copy_from_slice(bytes.as_bytes()))),
        Err(_) => Ok(lodstone::model::ByteString::from(value.extract::<String>()?.as_str())),
    }
}

/// The code of an element type, which is given by its name.
fn dtype(value: &Bound<'_, PyAny>) -> PyResult<AttributeValue> {
    let name: String = value.extract()?;
    let code = DType::from_name(&name).and_then(lodstone::paddle::schema::codes::dtype_code);
    let unknown = || PyValueError::new_err(format!("unknown element type `{name}`"));
    code.map(AttributeValue::Int).ok_or_else(unknown)
}

fn scalar_of(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Scalar::Bool(value.is_true()));
    }
    match value.is_instance_of::<PyInt>() {
        true => Ok(Scalar::Long(value.extract()?)),
        false => Ok(Scalar::Double(value.extract()?)),
    }
}

/// Converts an object by its own type.
fn inferred(value: &Bound<'_, PyAny>) -> PyResult<AttributeValue> {
    if let Ok(block) = value.cast::<PyDict>() {
        let index = block.get_item(BLOCK)?;
        let index =
            index.ok_or_else(|| PyTypeError::new_err("expected a block, found a dictionary"))?;
        return Ok(AttributeValue::Block(index.extract()?));
    }
    if let Some(single) = single(value)? {
        return Ok(single);
    }
    let members = members(value)?;
    let Some(first) = members.first() else {
        return Err(PyTypeError::new_err("the type of an empty list is unknown"));
    };
    let like = match single(first)? {
        Some(AttributeValue::Bool(_)) => AttributeValue::Bools(Vec::new()),
        Some(AttributeValue::Int(_)) => AttributeValue::Ints(Vec::new()),
        Some(AttributeValue::Long(_)) => AttributeValue::Longs(Vec::new()),
        Some(AttributeValue::Float(_)) => AttributeValue::Floats(Vec::new()),
        Some(AttributeValue::String(_)) => AttributeValue::Strings(Vec::new()),
        _ => return Err(PyTypeError::new_err("expected a list of numbers or strings")),
    };
    alike(value, &like)
}

/// Converts a number, a Boolean or a string by its own type.
fn single(value: &Bound<'_, PyAny>) -> PyResult<Option<AttributeValue>> {
    Ok(Some(if let Ok(value) = value.cast::<PyBool>() {
        AttributeValue::Bool(value.is_true())
    } else if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        AttributeValue::String(bytes(value)?)
    } else if value.is_instance_of::<PyFloat>() {
        AttributeValue::Float(value.extract()?)
    } else if let Ok(value) = value.extract::<i32>() {
        AttributeValue::Int(value)
    } else if let Ok(value) = value.extract::<i64>() {
        AttributeValue::Long(value)
    } else {
        return Ok(None);
    }))
}

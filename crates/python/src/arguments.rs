//! Arguments from Python, converted to options of the facade.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use lodstone::convert::{CAST_TYPES, ExternalData, ParameterNames};
use lodstone::model::{AttributeValue, Limits};
use lodstone::run::Dirs;
use lodstone::run::dirs_beside;
use lodstone::{ConvertOptions, DType, Dim, Location, Loss, OpenOptions, Renames, Target};
use pyo3::Borrowed;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raise;
use crate::model::Model;

/// Arguments by name.
pub(crate) struct Arguments<'py>(Bound<'py, PyDict>);

impl<'py> FromPyObject<'_, 'py> for Arguments<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(given.cast::<PyDict>()?.to_owned()))
    }
}

impl<'py> Arguments<'py> {
    pub(crate) fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<T> {
        let value = self.0.as_any().get_item(name)?;
        value.extract().map_err(|error: T::Error| {
            let error: PyErr = error.into();
            let what = error.value(self.0.py()).to_string();
            PyTypeError::new_err(format!("argument '{name}': {what}"))
        })
    }

    /// Returns an argument that may be missing or `None`.
    fn optional<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        if self.0.contains(name)? { self.get(name) } else { Ok(None) }
    }

    /// Returns whether an argument is there and true.
    fn has(&self, name: &str) -> PyResult<bool> {
        Ok(self.0.get_item(name)?.is_some_and(|value| value.is_truthy().unwrap_or(false)))
    }

    /// Returns the options for opening a model.
    pub(crate) fn opening(&self) -> PyResult<OpenOptions> {
        Ok(OpenOptions::default()
            .with_params(self.get::<Option<Place>>("params")?.map(Location::from))
            .with_mmap(self.get("mmap")?)
            .with_verify(self.get("verify")?)
            .with_limits(
                Limits::default().raised(self.optional("raise_limits")?.unwrap_or(NonZeroU32::MIN)),
            )
            .with_program(self.optional("program")?)
            .with_as_stored(self.has("as_stored")?))
    }

    /// Returns shapes by name, whose dims are sizes, symbols, or `None` if they are unknown.
    fn shapes(&self, name: &str) -> PyResult<Vec<(String, Vec<Dim>)>> {
        let given: Vec<(String, Vec<Option<Size>>)> = self.get(name)?;
        let dim = |size: Option<Size>| match size {
            None => Dim::Unknown,
            Some(Size::Known(size)) => Dim::Known(size),
            Some(Size::Symbol(symbol)) => Dim::Symbol(symbol.into()),
        };
        let shape =
            |(name, dims): (String, Vec<Option<Size>>)| (name, dims.into_iter().map(dim).collect());
        Ok(given.into_iter().map(shape).collect())
    }

    /// Returns element types by name.
    fn types(&self, name: &str) -> PyResult<Vec<(String, DType)>> {
        dtypes(name, self.get::<Vec<(String, String)>>(name)?)
    }

    /// Returns numbers and truth values by name.
    fn numbers(&self, name: &str) -> PyResult<Vec<(String, AttributeValue)>> {
        let given: Vec<(String, Number)> = self.get(name)?;
        let value = |(name, number)| match number {
            Number::Bool(value) => (name, AttributeValue::Bool(value)),
            Number::Int(value) => (name, AttributeValue::Long(value)),
            Number::Float(value) => (name, AttributeValue::Double(value)),
        };
        Ok(given.into_iter().map(value).collect())
    }

    /// Returns the options of a conversion.
    pub(crate) fn converting(&self) -> PyResult<ConvertOptions> {
        let mut options = ConvertOptions::default()
            .with_include(self.get("include")?)
            .with_exclude(self.get("exclude")?)
            .with_renames(renames(self.0.py(), &self.get("rename")?)?)
            .with_transpose(self.get("transpose")?)
            .with_keep_io(self.get("keep_io")?)
            .with_opset(self.get("opset")?)
            .with_custom_domain(self.get("custom_ops")?)
            .with_lod(self.get("lod")?)
            .with_input_shapes(self.shapes("input_shapes")?)
            .with_input_types(self.types("input_types")?)
            .with_input_values(self.numbers("input_values")?)
            .with_outputs(self.get("outputs")?)
            .with_infer_shapes(self.get("infer_shapes")?)
            .with_weights_only(self.get("weights_only")?)
            .with_strip_source(self.get("strip_source")?);
        options.to = self.get::<Option<String>>("to")?.map(|name| match name.as_str() {
            "same" => Target::Same,
            _ => Target::Format(name),
        });
        let dtype = |name: String| {
            let known = CAST_TYPES.iter().filter_map(|dtype| dtype.name());
            let found = CAST_TYPES.into_iter().find(|dtype| dtype.name() == Some(&*name));
            found.ok_or_else(|| unknown_of("cast", &name, known))
        };
        options.cast = self.get::<Option<String>>("cast")?.map(dtype).transpose()?;
        options.allow = losses(&self.get::<Vec<String>>("allow")?)?;
        options.write.align = self.get("align")?;
        options.write.max_shard_size = self.get("max_shard_size")?;
        options.write.external_data = match self.get::<Option<String>>("external_data")?.as_deref()
        {
            None => None,
            Some("none") => Some(ExternalData::Inside),
            Some("one") => Some(ExternalData::One),
            Some("each") => Some(ExternalData::Each),
            Some(other) => {
                return Err(unknown_of("external_data", other, ["none", "one", "each"]));
            }
        };
        options.names = match self.get::<String>("names")?.as_str() {
            "program" => ParameterNames::Program,
            "structured" => ParameterNames::Structured,
            other => return Err(unknown_of("names", other, ["program", "structured"])),
        };
        options.write.seal = self.get("seal")?;
        options.write.no_clobber = self.get("no_clobber")?;
        Ok(options)
    }
}

/// Returns element types, by the names of inputs, of the argument `argument`.
pub(crate) fn dtypes(
    argument: &str,
    given: impl IntoIterator<Item = (String, String)>,
) -> PyResult<Vec<(String, DType)>> {
    let dtype = |(input, dtype): (String, String)| match DType::from_name(&dtype) {
        Some(known) => Ok((input, known)),
        None => Err(unknown(argument, &dtype)),
    };
    given.into_iter().map(dtype).collect()
}

/// The size of a dim.
#[derive(FromPyObject)]
enum Size {
    Known(u64),
    Symbol(String),
}

/// A number; Python's truth values are integers, too.
#[derive(FromPyObject)]
enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
}

/// Returns the directories of a run for the model at a path; none for a model that is at no path.
pub(crate) fn dirs_of(py: Python<'_>, path: Option<Place>) -> PyResult<Dirs> {
    let beside = path.map(dirs_beside).transpose();
    Ok(beside.map_err(|error| raise(py, error))?.unwrap_or_default())
}

/// Returns the losses with these names.
pub(crate) fn losses(names: &[String]) -> PyResult<Vec<Loss>> {
    let loss = |name: &String| {
        let found = Loss::ALL.iter().copied().find(|loss| loss.name() == name);
        found.ok_or_else(|| unknown_of("allow", name, Loss::ALL.iter().map(|it| it.name())))
    };
    names.iter().map(loss).collect()
}

/// Converts a name map.
pub(crate) fn renames(py: Python<'_>, names: &HashMap<String, String>) -> PyResult<Renames> {
    let text =
        serde_json::to_string(names).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Renames::parse(&text).map_err(|error| raise(py, error))
}

pub(crate) fn unknown(argument: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!("argument '{argument}': unknown value `{value}`"))
}

/// Does the same for an argument with few values.
pub(crate) fn unknown_of<T: AsRef<str>>(
    argument: &str,
    value: &str,
    known: impl IntoIterator<Item = T>,
) -> PyErr {
    let known: Vec<T> = known.into_iter().collect();
    let known = known.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("`, `");
    let what = format!("argument '{argument}': unknown value `{value}`; the values are `{known}`");
    PyValueError::new_err(what)
}

/// A path, or an address of another machine's store, such as `hf://organization/repository/file`.
pub(crate) struct Place(Location);

impl<'py> FromPyObject<'_, 'py> for Place {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let path: PathBuf = object.extract()?;
        #[cfg(feature = "remote")]
        if let Some((scheme, rest)) = lodstone::store::scheme_of(&path) {
            if scheme.eq_ignore_ascii_case("file") {
                return Ok(Self(rest.into()));
            }
            let options = lodstone::remote::Options::default()
                .with_interrupt(lodstone::remote::Interrupt::new(crate::work::is_interrupted));
            let location = lodstone::remote::location(&format!("{scheme}://{rest}"), &options);
            return location.map(Self).map_err(|fault| PyValueError::new_err(fault.to_string()));
        }
        Ok(Self(path.into()))
    }
}

impl From<Place> for Location {
    fn from(place: Place) -> Self {
        place.0
    }
}

/// An open model, or the path of a model.
#[derive(FromPyObject)]
pub(crate) enum Source<'py> {
    Open(Bound<'py, Model>),
    Path(Place),
}

impl Source<'_> {
    /// Converts the source so that another thread can use it.
    pub(crate) fn ready(self) -> Ready {
        match self {
            Self::Open(model) => Ready::Open(Arc::clone(&model.get().model)),
            Self::Path(path) => Ready::Path(path),
        }
    }
}

/// A source that can be sent to another thread.
pub(crate) enum Ready {
    Open(Arc<lodstone::Model>),
    Path(Place),
}

impl Ready {
    pub(crate) fn open(self, options: &OpenOptions) -> lodstone::Result<lodstone::Model> {
        match self {
            Self::Open(model) => Ok(Arc::unwrap_or_clone(model)),
            Self::Path(path) => lodstone::open_with(path, options),
        }
    }
}

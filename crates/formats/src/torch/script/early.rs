//! TorchScript until 1.2.
//!
//! | member | contents |
//! |---|---|
//! | `model.json` | modules, their parameters by the index of a tensor, their attributes by an index; the tensors |
//! | `attributes.pkl` (since 1.2) | the values of attributes; buffers are calls of `build_tensor_from_id` |
//! | `tensors/N` | the elements of a tensor |

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_model::{Limits, Parameter, Tensor};
use lodstone_store::Blob;
use serde::Deserialize;

use super::arranged::{Arranged, arranged};
use super::program::objects;
use crate::encoding::json::malformed;
use crate::error::{Error, Result};
use crate::torch::archive::Archive;
use crate::torch::element::Element;
use crate::torch::object::{self, Contents, Storages};
use crate::torch::view::View;

/// A model: its modules, and the tensors that they refer to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Early {
    pub(super) main_module: Module,
    #[serde(default)]
    pub(super) tensors: Vec<Described>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Module {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) parameters: Vec<Named>,
    #[serde(default)]
    pub(super) attributes: Vec<Attribute>,
    #[serde(default)]
    pub(super) submodules: Vec<Module>,
    /// The file of the code.
    pub(super) torchscript_arena: Option<Data>,
}

/// An attribute: its name, and the index of its value.
#[derive(Deserialize)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) id: Number,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Named {
    pub(super) name: String,
    tensor_id: Number,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    #[serde(default)]
    dims: Vec<Number>,
    #[serde(default)]
    strides: Vec<Number>,
    #[serde(default)]
    offset: Option<Number>,
    data_type: String,
    data: Data,
}

#[derive(Deserialize)]
pub(super) struct Data {
    pub(super) key: String,
}

/// An integer of 64 bits, which the JSON of protobuf spells as a string.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Number {
    Number(u64),
    Text(String),
}

impl Number {
    pub(super) fn value(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(digits) => digits.parse().ok(),
        }
    }
}

/// Element types and their names.
const TYPES: &[(&str, &str)] = &[
    ("FLOAT", "float32"),
    ("BYTE", "uint8"),
    ("UINT8", "uint8"),
    ("INT8", "int8"),
    ("INT16", "int16"),
    ("INT32", "int32"),
    ("INT64", "int64"),
    ("BOOL", "bool"),
    ("FLOAT16", "float16"),
    ("DOUBLE", "float64"),
];

/// The tensors of an archive, by index.
struct Indexed<'a> {
    archive: &'a Archive,
    tensors: &'a [Described],
    /// The indices of those that were found.
    used: RefCell<HashSet<usize>>,
}

impl Indexed<'_> {
    fn at(&self, index: Option<usize>) -> Result<View, String> {
        let described = index.and_then(|at| Some((at, self.tensors.get(at)?)));
        let (at, described) = described.ok_or("the index of a tensor")?;
        self.used.borrow_mut().insert(at);
        view(self.archive, described)
    }
}

impl Storages for Indexed<'_> {
    fn storage(&self, key: &str, _: &'static Element, _: u64) -> Result<Blob, String> {
        Err(format!("the index of a tensor, not a storage `{key}`"))
    }

    fn numbered(&self, number: &str) -> Result<View, String> {
        self.at(number.parse().ok())
    }
}

/// The values of attributes, by index.
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) tensors: HashMap<String, Tensor>,
    pub(super) values: BTreeMap<String, serde_json::Value>,
}

/// Reads the values of attributes.
fn attributes(archive: &Archive, indexed: &Indexed<'_>, limits: &Limits) -> Result<Attributes> {
    if archive.member("attributes.pkl").is_none() {
        return Ok(Attributes::default());
    }
    let values = objects(archive, "attributes.pkl", limits)?;
    let found = object::contents(&values, indexed, limits);
    let found =
        found.map_err(|error| error.inside(format!("member `{}attributes.pkl`", archive.root)))?;
    let mut attributes = Attributes::default();
    attributes.tensors.extend(found.parameters.into_iter().map(|it| (it.name, it.tensor)));
    for (name, value) in found.metadata {
        let value = serde_json::from_str(&value);
        match value.map_err(|_| Error::internal("the value of an attribute is no JSON"))? {
            // Without a tensor, all values are one list.
            serde_json::Value::Array(all) if name.is_empty() => {
                attributes
                    .values
                    .extend((0..).zip(all).map(|(at, one): (u64, _)| (at.to_string(), one)));
            }
            value => {
                attributes.values.insert(name, value);
            }
        }
    }
    Ok(attributes)
}

fn model(archive: &Archive) -> Result<Early> {
    let json = archive.file("model.json")?;
    let bytes = json.bytes()?;
    serde_json::from_slice(&bytes)
        .map_err(|error| malformed(&json, (0, &bytes), "a model of TorchScript", &error))
}

/// Reads the tensors of all modules, and those of the code.
pub(super) fn contents(archive: &Archive, limits: &Limits) -> Result<Contents> {
    let model = model(archive)?;
    let indexed = Indexed { archive, tensors: &model.tensors, used: RefCell::default() };
    let attributes = attributes(archive, &indexed, limits)?;
    let mut contents = Contents::default();
    let blob = &archive.blob;
    let wrong = |name: &str, expected: String| {
        Error::from(blob.malformed(0, expected, "another")).inside(format!("tensor `{name}`"))
    };
    let mut add = |name: String, tensor: Tensor| {
        if contents.parameters.len() >= limits.tensors {
            let limit = limits.at_most_tensors("tensors");
            return Err(Error::from(blob.over_limit(0, limit)));
        }
        contents.parameters.push(Parameter { name, tensor });
        Ok(())
    };
    let mut open = vec![(String::new(), &model.main_module)];
    while let Some((prefix, module)) = open.pop() {
        for named in &module.parameters {
            let name = format!("{prefix}{}", named.name);
            let index = named.tensor_id.value().and_then(|index| usize::try_from(index).ok());
            let tensor = indexed.at(index).and_then(|view| view.tensor());
            let tensor = tensor.map_err(|expected| wrong(&name, expected))?;
            add(name, tensor)?;
        }
        for attribute in &module.attributes {
            let index = attribute.id.value().map(|id| id.to_string()).unwrap_or_default();
            let name = format!("{prefix}{}", attribute.name);
            match (attributes.tensors.get(&index), attributes.values.get(&index)) {
                (Some(tensor), _) => add(name, tensor.clone())?,
                (None, Some(value)) => {
                    contents.metadata.insert(name, value.to_string());
                }
                (None, None) => {}
            }
        }
        let inner = module.submodules.iter().rev();
        open.extend(inner.map(|inner| (format!("{prefix}{}.", inner.name), inner)));
    }
    for at in 0..model.tensors.len() {
        if !indexed.used.borrow().contains(&at) {
            let name = super::constant(&at.to_string());
            let tensor = indexed.at(Some(at)).and_then(|view| view.tensor());
            add(name.clone(), tensor.map_err(|expected| wrong(&name, expected))?)?;
        }
    }
    Ok(contents)
}

/// Returns what the program is translated from.
pub(super) fn program(archive: &Archive, limits: &Limits) -> Result<Arranged> {
    let model = model(archive)?;
    let indexed = Indexed { archive, tensors: &model.tensors, used: RefCell::default() };
    let attributes = attributes(archive, &indexed, limits)?;
    arranged(archive, &model, &attributes, limits)
}

fn view(archive: &Archive, described: &Described) -> Result<View, String> {
    let Described { dims, strides, offset, data_type, data } = described;
    let numbers =
        |numbers: &[Number]| numbers.iter().map(Number::value).collect::<Option<Vec<_>>>();
    let known = TYPES.iter().find(|(name, _)| name == data_type);
    let element = known.and_then(|(_, name)| Element::named(name));
    let element = element.ok_or_else(|| format!("a known element type, not `{data_type}`"))?;
    let sizes = numbers(dims).zip(numbers(strides)).ok_or("dims and strides as integers")?;
    let offset = offset.as_ref().map_or(Some(0), Number::value).ok_or("an offset")?;
    let storage = archive.storage(&data.key, None)?;
    let (shape, strides) = sizes;
    Ok(View { shape, strides, offset, ..View::contiguous(element, Vec::new(), storage) })
}

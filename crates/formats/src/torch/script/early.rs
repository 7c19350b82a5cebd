//! TorchScript until 1.3: `model.json`.

use lodstone_model::{Limits, Parameter};
use serde::Deserialize;

use crate::encoding::json::malformed;
use crate::torch::archive::Archive;
use crate::torch::element::Element;
use crate::torch::object::Contents;
use crate::torch::view::View;
use crate::{Error, Result};

/// A model: its modules, and the tensors that they refer to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Early {
    main_module: Module,
    #[serde(default)]
    tensors: Vec<Described>,
}

#[derive(Deserialize)]
struct Module {
    #[serde(default)]
    name: String,
    #[serde(default)]
    parameters: Vec<Named>,
    #[serde(default)]
    submodules: Vec<Module>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    name: String,
    tensor_id: Number,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
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
struct Data {
    key: String,
}

/// An integer of 64 bits, which the JSON of protobuf spells as a string.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

impl Number {
    fn value(&self) -> Option<u64> {
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

/// Reads the tensors of all modules.
pub(super) fn contents(archive: &Archive, limits: &Limits) -> Result<Contents> {
    let json = archive.file("model.json")?;
    let bytes = json.bytes()?;
    let model: Early = serde_json::from_slice(&bytes)
        .map_err(|error| malformed(&json, (0, &bytes), "a model of TorchScript", &error))?;
    let mut contents = Contents::default();
    let mut open = vec![(String::new(), &model.main_module)];
    while let Some((prefix, module)) = open.pop() {
        for named in &module.parameters {
            let name = format!("{prefix}{}", named.name);
            let wrong = |expected: String| {
                let error = json.malformed(0, expected, "another");
                Error::from(error).inside(format!("tensor `{name}`"))
            };
            let index = named.tensor_id.value().and_then(|index| usize::try_from(index).ok());
            let described = index.and_then(|index| model.tensors.get(index));
            let described = described.ok_or_else(|| wrong("the index of a tensor".to_owned()))?;
            let tensor = view(archive, described).and_then(|view| view.tensor()).map_err(wrong)?;
            if contents.parameters.len() >= limits.tensors {
                let limit = format!("at most {} tensors", limits.tensors);
                return Err(json.over_limit(0, limit).into());
            }
            contents.parameters.push(Parameter { name, tensor });
        }
        let inner = module.submodules.iter().rev();
        open.extend(inner.map(|inner| (format!("{prefix}{}.", inner.name), inner)));
    }
    Ok(contents)
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

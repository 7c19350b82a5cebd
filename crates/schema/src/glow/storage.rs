//! The storage properties in the doc string of a variable or a tensor: `$key:value$key:value`.

use lodstone_model::Quantization;

use super::ElemKind;
use crate::{Finding, Properties};

/// The properties of a placeholder or a constant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    /// Whether a placeholder is static: set once, not for each run.
    pub offline: Option<bool>,
    /// Whether training changes it.
    pub trainable: Option<bool>,
    /// The layout of its dims, such as `NHWC`; `*` for any.
    pub layout: Option<String>,
    /// The element type.
    pub kind: Option<ElemKind>,
    /// The stride of each dim in elements, if rows are padded.
    pub strides: Option<Vec<i64>>,
    /// The scale and offset, if it is quantized.
    pub quantization: Option<(f32, i32)>,
    /// The save node that writes it.
    pub save_name: Option<String>,
    /// Its name in the model that Glow loaded.
    pub loader_name: Option<String>,
}

impl Storage {
    /// Parses the properties of a doc string, in any order. Unknown keys are ignored.
    ///
    /// # Errors
    /// If a value does not fit its key; the finding has what was expected and what was found.
    pub fn parse(text: &str) -> Result<Self, Finding> {
        let mut read = Self::default();
        let (mut scale, mut offset) = (None, None);
        for pair in text.split('$').skip(1) {
            let Some((key, value)) = pair.split_once(':') else {
                return Err(format!("expected `:` after the key `${pair}`").into());
            };
            let wrong = |what: &str| format!("expected {what} as `${key}`, found `{value}`");
            let flag = || match value {
                "0" => Ok(Some(false)),
                "1" => Ok(Some(true)),
                _ => Err(wrong("0 or 1")),
            };
            match key {
                "offline" => read.offline = flag()?,
                "trainable" => read.trainable = flag()?,
                "layout" => read.layout = Some(value.to_owned()),
                // Glow's own page has the second spelling.
                "elemKind" | "ElemKind" => {
                    read.kind = Some(ElemKind::from_name(value).ok_or_else(|| wrong("a type"))?);
                }
                "strides" => {
                    let strides = value.split(',').filter(|stride| !stride.is_empty());
                    let strides: Result<_, _> = strides.map(str::parse).collect();
                    read.strides = Some(strides.map_err(|_| wrong("integers"))?);
                }
                "qScale" => scale = Some(value.parse().map_err(|_| wrong("a number"))?),
                "qOffset" => offset = Some(value.parse().map_err(|_| wrong("an integer"))?),
                "saveName" => read.save_name = Some(value.to_owned()),
                "loaderName" => read.loader_name = Some(value.to_owned()),
                _ => {}
            }
        }
        read.quantization = scale.zip(offset);
        Ok(read)
    }

    /// Formats the properties as Glow writes them for a placeholder or, with `is_constant`, for a tensor.
    pub fn to_text(&self, is_constant: bool) -> String {
        let bit = |flag: bool| if flag { "1" } else { "0" }.to_owned();
        let list = |strides: &Vec<i64>| {
            strides.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        let quantization = |read: &Self| {
            let scale = read.quantization.map(|(scale, _)| format!("{:.30}", f64::from(scale)));
            let offset = read.quantization.map(|(_, offset)| offset.to_string());
            [("qScale", scale), ("qOffset", offset)]
        };
        let kind = ("elemKind", self.kind.map(|kind| kind.name().to_owned()));
        let strides = ("strides", self.strides.as_ref().map(list));
        let layout = ("layout", self.layout.clone());
        let [scale, offset] = quantization(self);
        let pairs = if is_constant {
            vec![kind, strides, scale, offset, layout]
        } else {
            vec![
                strides,
                ("offline", self.offline.map(bit)),
                ("trainable", self.trainable.map(bit)),
                layout,
                kind,
                ("loaderName", self.loader_name.clone()),
                scale,
                offset,
                ("saveName", self.save_name.clone()),
            ]
        };
        let parts = pairs.into_iter().filter_map(|(key, value)| Some(format!("${key}:{}", value?)));
        parts.collect()
    }
}

impl From<Storage> for Properties {
    fn from(storage: Storage) -> Self {
        let packing = storage.kind.and_then(ElemKind::packing);
        let quantization = storage.quantization.map(|(scale, offset)| match packing {
            None => Quantization {
                scales: vec![f64::from(scale)],
                zero_points: vec![offset.into()],
                axis: None,
                packing,
            },
            // Each row has its own; those of the type have no meaning.
            Some(_) => {
                Quantization { scales: Vec::new(), zero_points: Vec::new(), axis: None, packing }
            }
        });
        Self {
            layout: storage.layout.filter(|layout| layout != "*"),
            strides: storage.strides,
            // The scale of another type has no meaning.
            quantization: quantization.filter(|_| storage.kind.is_none_or(ElemKind::is_quantized)),
            is_static: storage.offline,
            trainable: storage.trainable,
            context: None,
        }
    }
}

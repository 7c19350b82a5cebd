//! Properties of variables and tensors beside their types.

use lodstone_model::{Layout, Quantization, TensorType};

/// What files record about a variable or a tensor beside its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    /// The order of the dims as the framework names it, such as `NHWC`; `coo` or `csr` for a sparse type.
    pub layout: Option<String>,
    /// The stride of each dim in elements, if the elements are not contiguous.
    pub strides: Option<Vec<i64>>,
    /// The quantization, unless operators quantize.
    pub quantization: Option<Quantization>,
    /// Whether an input keeps its value from run to run.
    pub is_static: Option<bool>,
    /// Whether training changes the value.
    pub trainable: Option<bool>,
    /// The device that held the value when it was saved: `cpu(0)`.
    pub context: Option<String>,
}

impl Properties {
    /// Returns these properties, and those of `other` where these have none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            layout: self.layout.or(other.layout),
            strides: self.strides.or(other.strides),
            quantization: self.quantization.or(other.quantization),
            is_static: self.is_static.or(other.is_static),
            trainable: self.trainable.or(other.trainable),
            context: self.context.or(other.context),
        }
    }
}

impl From<&TensorType> for Properties {
    fn from(tensor: &TensorType) -> Self {
        let mut properties =
            Self { quantization: tensor.quantization.as_deref().cloned(), ..Self::default() };
        match &tensor.layout {
            None => {}
            Some(Layout::Strided(strides)) => properties.strides = Some(strides.clone()),
            Some(Layout::Coo) => properties.layout = Some("coo".to_owned()),
            Some(Layout::Csr) => properties.layout = Some("csr".to_owned()),
        }
        properties
    }
}

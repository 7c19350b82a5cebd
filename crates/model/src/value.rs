//! Types of variables.

use std::borrow::Cow;

use crate::nested::sealed::Depth;
use crate::{DType, Layout, Nested, TensorType, TooDeep};

/// The type of a variable.
///
/// Nested types are [`Nested`], which bounds their depth: build them with [`list`](Self::list) and its neighbours.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ValueType {
    /// Undeclared: the operators determine the type, if anything does.
    #[default]
    Unspecified,
    /// A dense tensor, with or without LoD.
    Tensor(TensorType),
    /// A sparse tensor; a type without a layout has the dialect's own.
    Sparse(TensorType),
    /// A bare number, boolean or string.
    Scalar(DType),
    /// A list of values of one type.
    List(Nested<ValueType>),
    /// A fixed sequence of values, each with its own type.
    Tuple(Nested<Vec<ValueType>>),
    /// A dictionary whose values have one type; its keys are of an element type.
    Dict(DType, Nested<ValueType>),
    /// An optional value.
    Optional(Nested<ValueType>),
    /// A named class or opaque type; the name is empty if the reader does not keep it.
    Class(String),
    /// An internal object of an executor.
    Holder(Holder),
    /// A type code that the reader does not support.
    Unknown(TypeCode),
}

/// An object other than a tensor that an executor keeps in a variable.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the framework's own")]
pub enum Holder {
    SelectedRows(TensorType),
    TensorArray(TensorType),
    FeedList,
    FeedMinibatch,
    FetchList,
    StepScopes,
    LodRankTable,
    PlaceList,
    /// A source of batches, with the types of the tensors in a batch.
    Reader(Vec<TensorType>),
    Raw,
    String(TensorType),
    Strings(TensorType),
    Vocabulary(TensorType),
    PString,
}

/// A framework's type code that the reader does not support.
pub type TypeCode = i32;

impl ValueType {
    /// Creates the type of a tensor.
    pub fn tensor(tensor: TensorType) -> Self {
        Self::Tensor(tensor)
    }

    /// Creates the type of a list.
    ///
    /// # Errors
    /// [`TooDeep`] if the type is nested too deeply.
    pub fn list(element: Self) -> Result<Self, TooDeep> {
        Nested::new(element).map(Self::List)
    }

    /// Creates the type of a tuple with a type for each member.
    ///
    /// # Errors
    /// [`TooDeep`] if a type is nested too deeply.
    pub fn tuple(members: Vec<Self>) -> Result<Self, TooDeep> {
        Nested::new(members).map(Self::Tuple)
    }

    /// Creates the type of a dictionary.
    ///
    /// # Errors
    /// [`TooDeep`] if the type is nested too deeply.
    pub fn dict(key: DType, value: Self) -> Result<Self, TooDeep> {
        Nested::new(value).map(|value| Self::Dict(key, value))
    }

    /// Creates the type of an optional value.
    ///
    /// # Errors
    /// [`TooDeep`] if the type is nested too deeply.
    pub fn optional(element: Self) -> Result<Self, TooDeep> {
        Nested::new(element).map(Self::Optional)
    }

    /// Returns the type of the first tensor in the value, at any depth; `None` if there is none, or it is unspecified.
    pub fn tensor_type(&self) -> Option<&TensorType> {
        let tensor = match self {
            Self::Tensor(tensor) | Self::Sparse(tensor) => tensor,
            Self::List(inner) | Self::Dict(_, inner) | Self::Optional(inner) => {
                return inner.tensor_type();
            }
            Self::Tuple(members) => return members.iter().find_map(Self::tensor_type),
            Self::Holder(holder) => return holder.tensors().iter().find(|it| !it.is_unspecified()),
            Self::Unspecified | Self::Scalar(_) | Self::Class(_) | Self::Unknown(_) => return None,
        };
        Some(tensor).filter(|tensor| !tensor.is_unspecified())
    }

    /// Returns the types of all tensors in the value that are not unspecified, in order.
    pub fn tensors(&self) -> Vec<&TensorType> {
        let mut tensors = Vec::new();
        let mut open = vec![self];
        while let Some(value) = open.pop() {
            match value {
                Self::Tensor(tensor) | Self::Sparse(tensor) => tensors.push(tensor),
                Self::List(inner) | Self::Dict(_, inner) | Self::Optional(inner) => {
                    open.push(inner);
                }
                Self::Tuple(members) => open.extend(members.iter().rev()),
                Self::Holder(holder) => tensors.extend(holder.tensors()),
                Self::Unspecified | Self::Scalar(_) | Self::Class(_) | Self::Unknown(_) => {}
            }
        }
        tensors.retain(|tensor| !tensor.is_unspecified());
        tensors
    }

    /// The mutable counterpart of [`tensors`](Self::tensors).
    pub fn tensors_mut(&mut self) -> Vec<&mut TensorType> {
        let mut tensors = Vec::new();
        let mut open = vec![self];
        while let Some(value) = open.pop() {
            match value {
                Self::Tensor(tensor) | Self::Sparse(tensor) => tensors.push(tensor),
                Self::List(inner) | Self::Dict(_, inner) | Self::Optional(inner) => {
                    open.push(inner.value_mut());
                }
                Self::Tuple(members) => open.extend(members.value_mut().iter_mut().rev()),
                Self::Holder(holder) => tensors.extend(holder.tensors_mut()),
                Self::Unspecified | Self::Scalar(_) | Self::Class(_) | Self::Unknown(_) => {}
            }
        }
        tensors.retain(|tensor| !tensor.is_unspecified());
        tensors
    }

    /// The mutable counterpart of [`tensor_type`](Self::tensor_type).
    pub fn tensor_type_mut(&mut self) -> Option<&mut TensorType> {
        self.tensors_mut().into_iter().next()
    }

    /// Returns the name of the outermost level in reports.
    pub fn kind(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Unspecified => "Unspecified",
            Self::Tensor(_) => "Tensor",
            Self::Sparse(tensor) => match tensor.layout {
                Some(Layout::Coo) => "SparseCoo",
                Some(Layout::Csr) => "SparseCsr",
                Some(Layout::Strided(_)) | None => "SparseTensor",
            },
            Self::Scalar(dtype) => return Cow::Owned(format!("Scalar({dtype:?})")),
            Self::List(_) => "Sequence",
            Self::Tuple(_) => "Tuple",
            Self::Dict(..) => "Map",
            Self::Optional(_) => "Optional",
            Self::Class(_) => "Opaque",
            Self::Holder(holder) => holder.name(),
            Self::Unknown(code) => return Cow::Owned(format!("Unknown({code})")),
        })
    }

    /// Returns whether the value is a tensor array.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Holder(Holder::TensorArray(_)))
    }

    /// Returns whether the value is selected rows.
    pub fn is_selected_rows(&self) -> bool {
        matches!(self, Self::Holder(Holder::SelectedRows(_)))
    }
}

impl Holder {
    /// Returns the name of the holder in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SelectedRows(_) => "SelectedRows",
            Self::TensorArray(_) => "TensorArray",
            Self::FeedList => "FeedList",
            Self::FeedMinibatch => "FeedMinibatch",
            Self::FetchList => "FetchList",
            Self::StepScopes => "StepScopes",
            Self::LodRankTable => "LodRankTable",
            Self::PlaceList => "PlaceList",
            Self::Reader(_) => "Reader",
            Self::Raw => "Raw",
            Self::String(_) => "String",
            Self::Strings(_) => "Strings",
            Self::Vocabulary(_) => "Vocabulary",
            Self::PString => "PString",
        }
    }

    fn tensors(&self) -> &[TensorType] {
        match self {
            Self::SelectedRows(tensor)
            | Self::TensorArray(tensor)
            | Self::String(tensor)
            | Self::Strings(tensor)
            | Self::Vocabulary(tensor) => std::slice::from_ref(tensor),
            Self::Reader(tensors) => tensors,
            Self::FeedList
            | Self::FeedMinibatch
            | Self::FetchList
            | Self::StepScopes
            | Self::LodRankTable
            | Self::PlaceList
            | Self::Raw
            | Self::PString => &[],
        }
    }

    fn tensors_mut(&mut self) -> &mut [TensorType] {
        match self {
            Self::SelectedRows(tensor)
            | Self::TensorArray(tensor)
            | Self::String(tensor)
            | Self::Strings(tensor)
            | Self::Vocabulary(tensor) => std::slice::from_mut(tensor),
            Self::Reader(tensors) => tensors,
            Self::FeedList
            | Self::FeedMinibatch
            | Self::FetchList
            | Self::StepScopes
            | Self::LodRankTable
            | Self::PlaceList
            | Self::Raw
            | Self::PString => &mut [],
        }
    }
}

impl From<TensorType> for ValueType {
    fn from(tensor: TensorType) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<Holder> for ValueType {
    fn from(holder: Holder) -> Self {
        Self::Holder(holder)
    }
}

impl Depth for ValueType {
    fn depth(&self) -> usize {
        match self {
            Self::List(inner) | Self::Dict(_, inner) | Self::Optional(inner) => inner.depth(),
            Self::Tuple(members) => members.depth(),
            Self::Unspecified
            | Self::Tensor(_)
            | Self::Sparse(_)
            | Self::Scalar(_)
            | Self::Class(_)
            | Self::Holder(_)
            | Self::Unknown(_) => 0,
        }
    }
}

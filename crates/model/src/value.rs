//! Types of values: what a variable holds.

use std::borrow::Cow;

use crate::nested::sealed::Depth;
use crate::{DType, Layout, Nested, TensorType, TooDeep};

/// What a variable holds.
///
/// Types in types are [`Nested`], which bounds their depth: [`list`](Self::list) and its neighbours build them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ValueType {
    /// Not declared: the type follows from the operators, if at all.
    #[default]
    Unspecified,
    /// A dense tensor, with or without LoD.
    Tensor(TensorType),
    /// A sparse tensor; its layout is that of the type, or its dialect's own if there is none.
    Sparse(TensorType),
    /// A bare number, truth value or text.
    Scalar(DType),
    /// Any number of values of one type, in order.
    List(Nested<ValueType>),
    /// Values of a type each, in order.
    Tuple(Nested<Vec<ValueType>>),
    /// Values of one type by keys of an element type.
    Dict(DType, Nested<ValueType>),
    /// A value, or nothing.
    Optional(Nested<ValueType>),
    /// A class or an opaque type by name; the name is empty where the reader does not keep it.
    Class(String),
    /// What an executor keeps in a variable.
    Holder(Holder),
    /// A code that the reader does not know.
    Unknown(TypeCode),
}

/// What an executor keeps in a variable, beside tensors.
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
    /// A source of batches, and the types of the tensors in one.
    Reader(Vec<TensorType>),
    Raw,
    String(TensorType),
    Strings(TensorType),
    Vocabulary(TensorType),
    PString,
}

/// A type code of a framework that the reader does not know.
pub type TypeCode = i32;

impl ValueType {
    /// A tensor of a type.
    pub fn tensor(tensor: TensorType) -> Self {
        Self::Tensor(tensor)
    }

    /// A list of values of a type.
    ///
    /// # Errors
    /// [`TooDeep`].
    pub fn list(element: Self) -> Result<Self, TooDeep> {
        Nested::new(element).map(Self::List)
    }

    /// Values of a type each.
    ///
    /// # Errors
    /// [`TooDeep`].
    pub fn tuple(members: Vec<Self>) -> Result<Self, TooDeep> {
        Nested::new(members).map(Self::Tuple)
    }

    /// Values of a type by keys.
    ///
    /// # Errors
    /// [`TooDeep`].
    pub fn dict(key: DType, value: Self) -> Result<Self, TooDeep> {
        Nested::new(value).map(|value| Self::Dict(key, value))
    }

    /// A value of a type, or nothing.
    ///
    /// # Errors
    /// [`TooDeep`].
    pub fn optional(element: Self) -> Result<Self, TooDeep> {
        Nested::new(element).map(Self::Optional)
    }

    /// The type of the first tensor in it, however deep it lies; `None` if there is none, or nothing is known of it.
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

    /// The types of all tensors in it of which something is known, in order.
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

    /// The same, for edits.
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

    /// The type of the first tensor in it, for edits.
    pub fn tensor_type_mut(&mut self) -> Option<&mut TensorType> {
        self.tensors_mut().into_iter().next()
    }

    /// The word for its outermost level in reports.
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

    /// Whether it is a tensor array.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Holder(Holder::TensorArray(_)))
    }

    /// Whether it is some rows of a tensor.
    pub fn is_selected_rows(&self) -> bool {
        matches!(self, Self::Holder(Holder::SelectedRows(_)))
    }
}

impl Holder {
    /// The word for it in reports.
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

//! The forms of tensors in pickles.

use lodstone_model::DType;

use super::value::Objects;
use crate::encoding::pickle::{Id, Node};
use crate::error::Result;
use crate::torch::element::Element;
use crate::torch::view::Sign;

/// A tensor, as the arguments of a call.
pub(crate) struct Form {
    pub(crate) kind: Kind,
    /// The class, if it is not `torch.Tensor`.
    pub(crate) class: Option<String>,
    /// The attributes of an instance of a subclass.
    pub(crate) state: Option<Id>,
}

/// The kind of a tensor.
pub(crate) enum Kind {
    View(Strided),
    Quantized(Strided, Scheme),
    /// A tensor that is saved elsewhere in the file, by its number.
    Numbered(Id),
    /// A storage by itself.
    Storage(Id),
    /// Indices, values, dims.
    Coo {
        indices: Id,
        values: Id,
        shape: Vec<u64>,
    },
    /// Offsets, indices, values, dims, and the layout.
    Compressed {
        layout: Layout,
        offsets: Id,
        indices: Id,
        values: Id,
        shape: Vec<u64>,
    },
    /// Dims only.
    Meta {
        element: &'static Element,
        shape: Vec<u64>,
    },
    /// A buffer, and the dims, strides and offsets of its parts.
    Nested {
        buffer: Id,
        sizes: Id,
        strides: Id,
        offsets: Id,
    },
}

/// A view of a storage.
pub(crate) struct Strided {
    pub(crate) storage: Id,
    /// The element type, if it is not that of the storage.
    pub(super) element: Option<&'static Element>,
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<u64>,
    pub(super) sign: Sign,
}

/// The mapping of quantized elements to real values.
pub(crate) enum Scheme {
    Tensor { scale: f64, zero_point: i64 },
    Channel { scales: Id, zero_points: Id, axis: u64 },
}

/// A layout of compressed tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Csr,
    Csc,
    Bsr,
    Bsc,
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Csr => "sparse_csr",
            Self::Csc => "sparse_csc",
            Self::Bsr => "sparse_bsr",
            Self::Bsc => "sparse_bsc",
        }
    }
}

/// Maximum number of calls around the call of a tensor.
const MAX_SUBCLASSES: usize = 8;

/// Returns the tensor that a value represents, if it is one.
///
/// # Errors
/// Fails if the arguments are not those of PyTorch.
pub(super) fn form(objects: &Objects, id: Id) -> Result<Option<Form>> {
    let tree = objects.tree();
    let plain = |kind| Some(Form { kind, class: None, state: None });
    let object = match tree.node(id) {
        Node::Object(object) => object,
        Node::Persistent(inner) => {
            return Ok(match tree.node(*inner) {
                Node::Tuple(items) => match items.first().and_then(|kind| tree.short(*kind)) {
                    Some(kind) if kind == "storage" => plain(Kind::Storage(id)),
                    _ => None,
                },
                Node::Int(_) | Node::Text(..) => plain(Kind::Numbered(*inner)),
                _ => None,
            });
        }
        _ => return Ok(None),
    };
    let (mut callable, mut arguments) = (object.callable, objects.arguments(object));
    let (mut class, mut state) = (None, None);
    for _ in 0..MAX_SUBCLASSES {
        let Some((module, name)) = objects.import(callable) else { return Ok(None) };
        let is_subclass = matches!(module.as_str(), "torch._tensor" | "torch.tensor")
            && matches!(name.as_str(), "_rebuild_from_type_v2" | "_rebuild_from_type");
        if !is_subclass {
            let kind = kind(objects, id, (&module, &name), arguments)?;
            return Ok(kind.map(|kind| Form { kind, class, state }));
        }
        let [function, of, inner, given] = arguments else { return Err(odd(objects, id)) };
        let inner = match tree.node(*inner) {
            Node::Tuple(inner) => inner,
            _ => return Err(odd(objects, id)),
        };
        class = Some(objects.name(*of)).filter(|class| !is_plain_class(class)).or(class);
        state = Some(*given).filter(|state| !matches!(tree.node(*state), Node::None)).or(state);
        (callable, arguments) = (*function, inner);
    }
    Err(odd(objects, id))
}

fn is_plain_class(class: &str) -> bool {
    matches!(class, "torch.Tensor" | "torch._tensor.Tensor" | "torch.nn.parameter.Parameter")
}

fn odd(objects: &Objects, id: Id) -> crate::error::Error {
    let found = format!("`{}`", objects.tree().describe(id));
    objects.tree().error(id, "a tensor as PyTorch pickles it", found)
}

/// Returns the tensor that a call creates; `None` if the function creates none.
fn kind(
    objects: &Objects,
    id: Id,
    (module, name): (&str, &str),
    arguments: &[Id],
) -> Result<Option<Kind>> {
    // The attributes of archives of TorchScript until 1.2.
    if (module, name) == ("torch.jit._pickle", "build_tensor_from_id") {
        let [number] = arguments else { return Err(odd(objects, id)) };
        return Ok(Some(Kind::Numbered(*number)));
    }
    if module != "torch._utils" {
        return Ok(None);
    }
    let made = match (name, arguments) {
        ("_rebuild_tensor", [storage, offset, shape, strides]) => {
            strided(objects, [*storage, *offset, *shape, *strides]).map(Kind::View)
        }
        ("_rebuild_tensor_v2", [storage, offset, shape, strides, _, _, rest @ ..])
            if rest.len() < 2 =>
        {
            strided(objects, [*storage, *offset, *shape, *strides])
                .and_then(|it| signed(objects, it, rest.first()).map(Kind::View))
        }
        ("_rebuild_tensor_v3", [storage, offset, shape, strides, _, _, dtype, rest @ ..])
            if rest.len() < 2 =>
        {
            let made = strided(objects, [*storage, *offset, *shape, *strides]);
            let made = made.and_then(|it| signed(objects, it, rest.first()));
            let element = element(objects, *dtype);
            made.zip(element)
                .map(|(it, element)| Kind::View(Strided { element: Some(element), ..it }))
        }
        ("_rebuild_qtensor", [storage, offset, shape, strides, scheme, _, ..]) => {
            let made = strided(objects, [*storage, *offset, *shape, *strides]);
            made.zip(quantization(objects, *scheme)).map(|(it, how)| Kind::Quantized(it, how))
        }
        ("_rebuild_sparse_tensor", arguments) => sparse(objects, arguments),
        ("_rebuild_meta_tensor_no_storage", [dtype, shape, _, _]) => meta(objects, *dtype, *shape),
        ("_rebuild_wrapper_subclass", [_, dtype, shape, ..]) => meta(objects, *dtype, *shape),
        ("_rebuild_nested_tensor", [buffer, sizes, strides, offsets]) => Some(Kind::Nested {
            buffer: *buffer,
            sizes: *sizes,
            strides: *strides,
            offsets: *offsets,
        }),
        (
            "_rebuild_tensor"
            | "_rebuild_tensor_v2"
            | "_rebuild_tensor_v3"
            | "_rebuild_qtensor"
            | "_rebuild_meta_tensor_no_storage"
            | "_rebuild_wrapper_subclass"
            | "_rebuild_nested_tensor",
            _,
        ) => None,
        _ => return Ok(None),
    };
    made.map(Some).ok_or_else(|| odd(objects, id))
}

fn strided(objects: &Objects, [storage, offset, shape, strides]: [Id; 4]) -> Option<Strided> {
    Some(Strided {
        storage,
        element: None,
        offset: objects.number(offset)?,
        shape: objects.numbers(shape)?,
        strides: objects.numbers(strides)?,
        sign: Sign::default(),
    })
}

/// Adds the signs in the metadata of a tensor; `None` if it holds anything else.
fn signed(objects: &Objects, it: Strided, metadata: Option<&Id>) -> Option<Strided> {
    let tree = objects.tree();
    let mut sign = Sign::default();
    let pairs = match metadata.map(|id| tree.node(*id)) {
        None | Some(Node::None) => return Some(it),
        Some(Node::Dict(pairs)) => pairs,
        Some(_) => return None,
    };
    for (key, value) in pairs {
        let value = matches!(tree.node(*value), Node::Bool(true));
        match tree.short(*key)?.as_str() {
            "conj" => sign.conj = value,
            "neg" => sign.neg = value,
            _ => return None,
        }
    }
    Some(Strided { sign, ..it })
}

/// Returns an element type: `torch.float32`, or its number in TorchScript.
pub(super) fn element(objects: &Objects, id: Id) -> Option<&'static Element> {
    match objects.tree().node(id) {
        Node::Int(number) => Element::script(u64::try_from(*number).ok()?),
        _ => {
            let (module, name) = objects.import(id)?;
            Element::named(&name).filter(|_| module == "torch")
        }
    }
}

fn meta(objects: &Objects, dtype: Id, shape: Id) -> Option<Kind> {
    let mut shape = objects.numbers(shape)?;
    let element = element(objects, dtype)?;
    if let Some(last) = shape.last_mut() {
        *last = last.checked_mul(element.packed)?;
    }
    Some(Kind::Meta { element, shape })
}

fn quantization(objects: &Objects, id: Id) -> Option<Scheme> {
    let tree = objects.tree();
    let items = objects.items(id)?;
    let (module, name) = objects.import(*items.first()?)?;
    if module != "torch" {
        return None;
    }
    match (name.as_str(), items) {
        ("per_tensor_affine" | "per_tensor_symmetric", [_, scale, zero_point]) => {
            let scale = match tree.node(*scale) {
                Node::Float(scale) => *scale,
                _ => return None,
            };
            let zero_point = match tree.node(*zero_point) {
                Node::Int(zero_point) => *zero_point,
                _ => return None,
            };
            Some(Scheme::Tensor { scale, zero_point })
        }
        (
            "per_channel_affine" | "per_channel_symmetric" | "per_channel_affine_float_qparams",
            [_, scales, zero_points, axis],
        ) => Some(Scheme::Channel {
            scales: *scales,
            zero_points: *zero_points,
            axis: objects.number(*axis)?,
        }),
        _ => None,
    }
}

/// Reads a sparse tensor: the layout and its parts, or in TorchScript the layout, dims and parts.
fn sparse(objects: &Objects, arguments: &[Id]) -> Option<Kind> {
    let tree = objects.tree();
    if let [layout, shape, _, first, second, rest @ ..] = arguments {
        let shape = objects.numbers(*shape)?;
        return match (tree.node(*layout), rest) {
            (Node::Int(1), _) => Some(Kind::Coo { indices: *first, values: *second, shape }),
            (Node::Int(2), [values, ..]) => {
                let (layout, offsets, indices, values) = (Layout::Csr, *first, *second, *values);
                Some(Kind::Compressed { layout, offsets, indices, values, shape })
            }
            _ => None,
        };
    }
    let [layout, parts] = arguments else { return None };
    let parts = objects.items(*parts)?;
    let layout = match tree.node(*layout) {
        Node::Object(object) => tree.short(*objects.arguments(object).first()?)?,
        Node::Int(1) => "torch.sparse_coo".to_owned(),
        _ => objects.import(*layout).map(|(_, name)| format!("torch.{name}"))?,
    };
    let layout = match layout.as_str() {
        "torch.sparse_coo" => {
            let [indices, values, shape, ..] = parts else { return None };
            let shape = objects.numbers(*shape)?;
            return Some(Kind::Coo { indices: *indices, values: *values, shape });
        }
        "torch.sparse_csr" => Layout::Csr,
        "torch.sparse_csc" => Layout::Csc,
        "torch.sparse_bsr" => Layout::Bsr,
        "torch.sparse_bsc" => Layout::Bsc,
        _ => return None,
    };
    let [offsets, indices, values, shape] = parts else { return None };
    let shape = objects.numbers(*shape)?;
    Some(Kind::Compressed { layout, offsets: *offsets, indices: *indices, values: *values, shape })
}

/// Returns whether indices of a sparse tensor may have this type.
pub(super) fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::Int32 | DType::Int64)
}

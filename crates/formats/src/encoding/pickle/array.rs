//! Pickled arrays, element types and scalars of NumPy.
//!
//! | object | pickled form |
//! |---|---|
//! | element type | `dtype('f4', False, True)`, then the state `(3, '<', None, None, None, -1, -1, 0)` |
//! | array | `_reconstruct(ndarray, (0,), b'b')`, then `(1, shape, dtype, fortran, bytes)` |
//! | scalar | `scalar(dtype, bytes)` |
//! | number | `scalar(dtype, bytes)` |

use lodstone_model::DType;

use super::shapes::{Builds, Data, Shapes};
use super::tree::{How, Id, Node, Object};
use crate::encoding::array::{CODES, MAX_RANK};
use crate::error::Result;
use crate::lengths::{item, length};

/// An array whose elements are not read.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    /// The object.
    pub(crate) id: Id,
    pub(crate) dtype: DType,
    /// The size in bytes of the values whose byte order is reversed.
    pub(crate) swap: Option<usize>,
    pub(crate) fortran: bool,
    pub(crate) shape: Vec<u64>,
    pub(crate) data: Data,
}

/// A scalar that is not read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) dtype: DType,
    pub(crate) swap: Option<usize>,
    pub(crate) data: Data,
}

/// Checks an object of the form `_reconstruct(ndarray, (0,), b'b')` with one state.
pub(super) fn check_reconstruct(shapes: &Shapes, id: Id, object: &Object) -> Result<()> {
    reconstructed(shapes, id, object).map(|_| ())
}

pub(super) fn reconstructed(shapes: &Shapes, id: Id, object: &Object) -> Result<Array> {
    let tree = &shapes.tree;
    let odd = |what: &str| {
        let found = format!("`{}`, {what}", tree.describe(id));
        tree.error(id, "an array as NumPy pickles it", found)
    };
    let [class, dims, code] = shapes.arguments(object) else {
        return Err(odd("with other arguments"));
    };
    let empty = match tree.node(*dims) {
        Node::Tuple(items) => matches!(items.as_slice(), [id] if is_zero(shapes, *id)),
        _ => false,
    };
    let is_class = shapes.builds(*class) == Some(Builds::Ndarray);
    let is_code = shapes.data(*code).is_some_and(|data| data.span.len == 1);
    let bare = object.items.is_empty() && object.pairs.is_empty() && object.named.is_none();
    if !(is_class && empty && is_code && bare && object.how == How::Reduce) {
        return Err(odd("with other arguments"));
    }
    let [state] = object.state.as_slice() else { return Err(odd("without one state")) };
    let Node::Tuple(items) = tree.node(*state) else { return Err(odd("with another state")) };
    // No supported release of a framework writes states without a version.
    let [version, shape, dtype, fortran, data] = items.as_slice() else {
        return Err(odd("with another state"));
    };
    if !matches!(tree.node(*version), Node::Int(1)) {
        let found = format!("`{}`", tree.describe(*version));
        return Err(tree.error(*state, "version 1 of the state of an array", found));
    }
    let Some(fortran) = truth(shapes, *fortran) else { return Err(odd("with another state")) };
    build(shapes, id, *shape, *dtype, fortran, *data)
}

pub(super) fn from_buffer(shapes: &Shapes, id: Id, object: &Object) -> Result<Array> {
    let tree = &shapes.tree;
    let odd = || {
        let found = format!("`{}`", tree.describe(id));
        tree.error(id, "`_frombuffer(bytes, dtype, shape, 'C')`", found)
    };
    let [data, dtype, shape, order] = shapes.arguments(object) else { return Err(odd()) };
    let fortran = match tree.short(*order).as_deref() {
        Some("C") => false,
        Some("F") => true,
        _ => return Err(odd()),
    };
    if !plain(object) {
        return Err(odd());
    }
    build(shapes, id, *shape, *dtype, fortran, *data)
}

fn build(shapes: &Shapes, id: Id, shape: Id, dtype: Id, fortran: bool, data: Id) -> Result<Array> {
    let tree = &shapes.tree;
    let (dtype, swap) = element(shapes, dtype)?;
    let dims = dims_from(shapes, shape)?;
    let Some(data) = shapes.data(data) else {
        let found = format!("`{}`", tree.describe(data));
        return Err(tree.error(id, "the elements of an array, as bytes", found));
    };
    let size = dtype.size_of(&dims).ok_or_else(|| {
        let found = format!("{dtype} of shape {dims:?}");
        tree.error(id, "a size that fits 64 bits", found)
    })?;
    // A string encodes each byte in one or more bytes.
    let max = size.saturating_mul(data.spelling.max());
    if !(size..=max).contains(&data.span.len) {
        let expected = format!("{size} bytes, {dtype} of shape {dims:?}");
        return Err(tree.error(id, expected, format!("{} bytes", data.span.len)));
    }
    Ok(Array { id, dtype, swap, fortran, shape: dims, data })
}

/// Returns the dims in a tuple.
fn dims_from(shapes: &Shapes, id: Id) -> Result<Vec<u64>> {
    let tree = &shapes.tree;
    let odd = || {
        let found = format!("`{}`", tree.describe(id));
        tree.error(id, format!("a shape of at most {MAX_RANK} nonnegative dims"), found)
    };
    let Node::Tuple(items) = tree.node(id) else { return Err(odd()) };
    if items.len() > MAX_RANK {
        return Err(odd());
    }
    let dim = |id: &Id| match tree.node(*id) {
        Node::Int(dim) => u64::try_from(*dim).map_err(|_| odd()),
        _ => Err(odd()),
    };
    items.iter().map(dim).collect()
}

/// Reads an object of the form `scalar(dtype, bytes)`.
pub(super) fn scalar(shapes: &Shapes, id: Id, object: &Object) -> Result<Number> {
    let tree = &shapes.tree;
    let odd = || {
        let found = format!("`{}`", tree.describe(id));
        tree.error(id, "`scalar(dtype, bytes)`, a NumPy scalar", found)
    };
    let [dtype, data] = shapes.arguments(object) else { return Err(odd()) };
    let (dtype, swap) = element(shapes, *dtype)?;
    let data = shapes.data(*data).filter(|_| plain(object)).ok_or_else(odd)?;
    let size = item(dtype)?;
    // A string encodes each byte in one or more bytes.
    if data.span.len < size || data.span.len > size * data.spelling.max() {
        return Err(odd());
    }
    Ok(Number { dtype, swap, data })
}

/// Checks an object of the form `dtype('f4', False, True)` with at most one state.
pub(super) fn check_dtype(shapes: &Shapes, id: Id, object: &Object) -> Result<()> {
    let tree = &shapes.tree;
    let good = match shapes.arguments(object) {
        [code, align, copy] => {
            tree.short(*code).is_some()
                && truth(shapes, *align).is_some()
                && truth(shapes, *copy).is_some()
        }
        _ => false,
    };
    let bare = object.items.is_empty() && object.pairs.is_empty() && object.named.is_none();
    if good && bare && object.how == How::Reduce && object.state.len() <= 1 {
        return Ok(());
    }
    let found = format!("`{}`", tree.describe(id));
    Err(tree.error(id, "`dtype('f4', False, True)` and a state", found))
}

/// Returns the element type of an object, and the size of the values whose byte order is
/// reversed.
fn element(shapes: &Shapes, id: Id) -> Result<(DType, Option<usize>)> {
    let tree = &shapes.tree;
    let odd = |expected: &str| {
        let found = format!("`{}`", tree.describe(id));
        tree.error(id, expected, found)
    };
    let object = match tree.node(id) {
        Node::Object(object) if shapes.builds(object.callable) == Some(Builds::Dtype) => object,
        _ => return Err(odd("a NumPy element type")),
    };
    let code = match shapes.arguments(object).first() {
        Some(code) => tree.short(*code).unwrap_or_default(),
        None => String::new(),
    };
    let Some((dtype, code)) = CODES.iter().find(|(_, known)| *known == code) else {
        return Err(odd("a numeric element type"));
    };
    let order = match object.state.as_slice() {
        [] => "=".to_owned(),
        [state] => order(shapes, *state).ok_or_else(|| odd("the state of a plain element type"))?,
        _ => return Err(odd("one state of an element type")),
    };
    let bytes = length(item(*dtype)?)?;
    let number = if code.starts_with('c') { bytes / 2 } else { bytes };
    match order.as_str() {
        ">" => Ok((*dtype, (number > 1).then_some(number))),
        "|" if bytes > 1 => Err(odd("a byte order")),
        "<" | "=" | "|" => Ok((*dtype, None)),
        _ => Err(odd("a byte order")),
    }
}

/// Returns the byte order in the state of an element type without fields or subarrays.
fn order(shapes: &Shapes, state: Id) -> Option<String> {
    let tree = &shapes.tree;
    let Node::Tuple(items) = tree.node(state) else { return None };
    let [version, order, parts, names, fields, ..] = items.as_slice() else { return None };
    let plain = [parts, names, fields].iter().all(|id| matches!(tree.node(**id), Node::None));
    let known = matches!(tree.node(*version), Node::Int(3 | 4));
    if plain && known { tree.short(*order) } else { None }
}

fn is_zero(shapes: &Shapes, id: Id) -> bool {
    matches!(shapes.tree.node(id), Node::Int(0))
}

fn plain(object: &Object) -> bool {
    let bare = object.state.is_empty() && object.items.is_empty() && object.pairs.is_empty();
    bare && object.how == How::Reduce && object.named.is_none()
}

/// Returns a boolean, which Python 2 writes as an integer.
fn truth(shapes: &Shapes, id: Id) -> Option<bool> {
    match shapes.tree.node(id) {
        Node::Bool(value) => Some(*value),
        Node::Int(0) => Some(false),
        Node::Int(1) => Some(true),
        _ => None,
    }
}

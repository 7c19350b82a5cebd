//! Writes tensors to a pickle: unchanged, as the same objects with other tensors, or a new one.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use lodstone_model::{DType, Kind, Limits, Model, Parameter, Tensor};
use lodstone_store::{Blob, Location, Output};

use super::array::{same_bits, written};
use super::contents::{Contents, contents};
use super::{AS_INTEGERS, CUT, NAME, TABLE, builds, edit};
use crate::encoding::array::{MAX_RANK, code};
use crate::encoding::pickle::write as put;
use crate::encoding::pickle::{self, Kept, Node, Piece, Shapes, is_one};
use crate::error::{Error, Result};
use crate::format::signed_dims;
use crate::options::WriteOptions;
use crate::staged::Staged;

/// Writes one file.
///
/// # Errors
/// Fails if the format cannot represent a tensor, or if reading or writing fails.
pub(crate) fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    Staged::file(path, options, |out| put_model(out, model))
}

/// Writes the pickle of a model.
///
/// # Errors
/// The errors of [`write`].
pub(crate) fn put_model(out: &mut Output, model: &Model) -> Result<()> {
    check(&model.parameters, model.residual.of(NAME).is_some())?;
    let Some(kept) = model.residual.of(NAME).and_then(Kept::decode) else {
        return fresh(out, &model.parameters);
    };
    let (shapes, contents) = read(&kept)?;
    let places = places(model, &contents);
    if let Some(pieces) = unedited(model, &contents, &places) {
        return kept.pieces().try_for_each(|piece| match piece {
            Piece::Bytes(bytes) => Ok(out.put(&bytes)?),
            Piece::Hole(start) => match pieces.get(&start) {
                Some(blob) => Ok(out.copy(blob)?),
                None => Ok(()),
            },
        });
    }
    let plan = Plan::new(model, &contents, &places);
    check_keys(model, &contents, &plan)?;
    let is_dict = matches!(shapes.tree.node(shapes.tree.root()), Node::Dict(_));
    if !is_dict && model.metadata.contains_key("__class__") && model.metadata != contents.metadata {
        let what = "edited attributes of an object".to_owned();
        return Err(Error::Incompatible { format: NAME, what });
    }
    if !is_dict && !plan.moved.is_empty() {
        // Without a dict, the parameters have no keys.
        return fresh(out, &model.parameters);
    }
    put::begin(out)?;
    edit::Writer::new(out, model, &shapes, &contents, &plan).root()?;
    Ok(put::end(out)?)
}

/// Returns the contents of a kept pickle, without the elements.
fn read(kept: &Kept) -> Result<(Shapes, Contents)> {
    // The file was within the limits when it was read.
    let limits = Limits::none();
    let shapes = Shapes::check(pickle::read(&kept.blob(), 0, &limits)?, builds)?;
    let contents = contents(&shapes, &limits)?;
    Ok((shapes, contents))
}

/// Fails unless the format can represent every tensor. Those of a `kept` pickle need no names of their own.
pub(in crate::paddle) fn check(parameters: &[Parameter], kept: bool) -> Result<()> {
    let mut names = HashSet::new();
    for Parameter { name, tensor } in parameters {
        let refuse = |what: String| Err(Error::Incompatible { format: NAME, what });
        if name.is_empty() && !kept {
            return refuse("a tensor without a name".to_owned());
        }
        if [TABLE, CUT].contains(&name.as_str()) {
            return refuse(format!("a tensor called `{name}`, which is a reserved key"));
        }
        if !names.insert(name) && !kept {
            return refuse(format!("two tensors called `{name}`"));
        }
        if !matches!(tensor.kind, Kind::Dense) {
            return refuse(format!("the {} tensor `{name}`", tensor.kind.name()));
        }
        if !tensor.lod.is_empty() {
            return refuse(format!("the LoD of the tensor `{name}`"));
        }
        if tensor.shape.len() > MAX_RANK {
            let found = tensor.shape.len();
            let what = format!("the {found} dims of the tensor `{name}`, more than {MAX_RANK}");
            return refuse(what);
        }
        if tensor.shape.iter().any(|dim| i64::try_from(*dim).is_err()) {
            let shape = &tensor.shape;
            return refuse(format!("the tensor `{name}` of shape {shape:?}: larger than 2^63 - 1"));
        }
        signed_dims(NAME, name, &tensor.shape)?;
        if code(as_integer(tensor.dtype)).is_none() {
            return Err(Error::dtype(NAME, name, tensor.dtype));
        }
        if tensor.dtype.size_of(&tensor.shape) != Some(tensor.data.len()) {
            let (dtype, shape, len) = (tensor.dtype, &tensor.shape, tensor.data.len());
            return refuse(format!("the tensor `{name}`: {dtype} {shape:?} in {len} bytes"));
        }
    }
    Ok(())
}

/// Fails if the new name of a tensor is that of another value or tensor, because one of them
/// would be lost.
fn check_keys(model: &Model, contents: &Contents, plan: &Plan) -> Result<()> {
    let refuse = |what: String| Err(Error::Incompatible { format: NAME, what });
    let mut free: HashMap<&str, usize> = HashMap::new();
    for found in &contents.tensors {
        *free.entry(&found.path).or_default() += 1;
    }
    let mut taken: HashMap<&str, usize> = HashMap::new();
    for Parameter { name, .. } in &model.parameters {
        let taken = taken.entry(name).or_default();
        *taken += 1;
        if *taken > 1 && free.get(name.as_str()).is_none_or(|free| *taken > *free) {
            return refuse(format!("two tensors called `{name}`"));
        }
    }
    let renamed = plan.renamed.values().flatten();
    let clash = renamed.into_iter().find(|name| model.metadata.contains_key(*name));
    match clash {
        Some(name) => {
            refuse(format!("a tensor called `{name}`, which is also the name of another value"))
        }
        None => Ok(()),
    }
}

/// Returns the type as which the bits of another are pickled.
fn as_integer(dtype: DType) -> DType {
    AS_INTEGERS.iter().find(|(known, _)| *known == dtype).map_or(dtype, |(_, integer)| *integer)
}

/// Writes a dict of arrays.
fn fresh(out: &mut Output, parameters: &[Parameter]) -> Result<()> {
    put_arrays(out, parameters).map(drop)
}

/// Writes a dict of arrays, whose names are unique and whose types NumPy has; returns the places of their elements.
pub(in crate::paddle) fn put_arrays(
    out: &mut Output,
    parameters: &[Parameter],
) -> Result<Vec<Range<u64>>> {
    put::begin(out)?;
    put::op(out, put::EMPTY_DICT)?;
    let (mut arrays, mut places) = (Arrays::default(), Vec::with_capacity(parameters.len()));
    if !parameters.is_empty() {
        put::op(out, put::MARK)?;
        for Parameter { name, tensor } in parameters {
            put::text(out, name)?;
            places.push(arrays.put(out, tensor)?);
        }
        put::op(out, put::SETITEMS)?;
    }
    put::end(out)?;
    Ok(places)
}

/// The writer of arrays; shared objects are written once.
#[derive(Default)]
pub(super) struct Arrays {
    memo: put::Memo,
}

impl Arrays {
    pub(super) fn global(&mut self, out: &mut Output, module: &str, name: &str) -> Result<()> {
        Ok(self.memo.global(out, module, name)?)
    }

    pub(super) fn dtype(&mut self, out: &mut Output, dtype: DType) -> Result<()> {
        let code = code(dtype).ok_or_else(|| Error::internal("an element type has no code"))?;
        self.memo.shared(out, code, |memo, out| {
            memo.global(out, "numpy", "dtype")?;
            put::op(out, put::MARK)?;
            put::text(out, code)?;
            put::bool(out, false)?;
            put::bool(out, true)?;
            put::op(out, put::TUPLE)?;
            put::op(out, put::REDUCE)?;
            put::op(out, put::MARK)?;
            put::int(out, 3)?;
            put::text(out, if dtype.bits() == Some(8) { "|" } else { "<" })?;
            (0..3).try_for_each(|_| put::op(out, put::NONE))?;
            put::int(out, -1)?;
            put::int(out, -1)?;
            put::int(out, 0)?;
            put::op(out, put::TUPLE)?;
            Ok(put::op(out, put::BUILD)?)
        })
    }

    /// Writes an array, and returns the place of its elements.
    pub(super) fn put(&mut self, out: &mut Output, tensor: &Tensor) -> Result<Range<u64>> {
        self.global(out, "numpy.core.multiarray", "_reconstruct")?;
        put::op(out, put::MARK)?;
        self.global(out, "numpy", "ndarray")?;
        put::op(out, put::MARK)?;
        put::int(out, 0)?;
        put::op(out, put::TUPLE)?;
        put::bytes(out, &Blob::memory(&b"b"[..]))?;
        put::op(out, put::TUPLE)?;
        put::op(out, put::REDUCE)?;
        put::op(out, put::MARK)?;
        put::int(out, 1)?;
        put::op(out, put::MARK)?;
        for dim in &tensor.shape {
            let dim = i64::try_from(*dim);
            put::int(out, dim.map_err(|_| Error::internal("a dim was not checked"))?)?;
        }
        put::op(out, put::TUPLE)?;
        self.dtype(out, as_integer(tensor.dtype))?;
        put::bool(out, false)?;
        put::bytes(out, &tensor.data)?;
        let end = out.position();
        put::op(out, put::TUPLE)?;
        put::op(out, put::BUILD)?;
        Ok(end - tensor.data.len()..end)
    }
}

/// Matches each tensor that was read to a parameter: by the index that it holds, by its
/// name, or by order, if the number of the remaining ones is equal.
fn places(model: &Model, contents: &Contents) -> Vec<Option<usize>> {
    let mut places = vec![None; contents.tensors.len()];
    let mut placed = vec![false; model.parameters.len()];
    let mut place = |place: Option<&mut Option<usize>>, index: usize| {
        if let (Some(place @ None), Some(placed @ false)) = (place, placed.get_mut(index)) {
            *place = Some(index);
            *placed = true;
        }
    };
    for (index, parameter) in model.parameters.iter().enumerate() {
        let number = parameter.tensor.residual.of(NAME);
        let number =
            number.and_then(|bytes| bytes.as_ref().try_into().ok()).map(u64::from_le_bytes);
        if let Some(number) = number.and_then(|number| usize::try_from(number).ok()) {
            place(places.get_mut(number), index);
        }
    }
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (number, found) in contents.tensors.iter().enumerate() {
        by_name.entry(&found.path).or_insert(number);
    }
    for (index, parameter) in model.parameters.iter().enumerate() {
        if let Some(number) = by_name.get(parameter.name.as_str()) {
            place(places.get_mut(*number), index);
        }
    }
    let left: Vec<usize> =
        placed.iter().enumerate().filter(|(_, placed)| !**placed).map(|(index, _)| index).collect();
    if left.len() == places.iter().filter(|place| place.is_none()).count() {
        let open = places.iter_mut().filter(|place| place.is_none());
        open.zip(left).for_each(|(place, index)| *place = Some(index));
    }
    places
}

/// Returns the contents of each hole, by offset, if the pickle is otherwise unedited.
fn unedited(
    model: &Model,
    contents: &Contents,
    places: &[Option<usize>],
) -> Option<HashMap<u64, Blob>> {
    if model.metadata != contents.metadata || model.parameters.len() != places.len() {
        return None;
    }
    let mut holes: HashMap<u64, Blob> = HashMap::new();
    let tensors = places.iter().enumerate().zip(&contents.tensors).zip(&model.parameters);
    for (((number, place), found), Parameter { name, tensor }) in tensors {
        let then = found.parts.first()?.dtype;
        let same = *place == Some(number) && *name == found.path && tensor.shape == found.shape;
        if !same || !same_bits(tensor.dtype, then) {
            return None;
        }
        for (array, piece) in found.parts.iter().zip(written(found, &tensor.data)?) {
            let start = array.data.span.start;
            if holes.get(&start).is_some_and(|other| !is_one(other, &piece)) {
                return None;
            }
            holes.insert(start, piece);
        }
    }
    Some(holes)
}

/// The new state of each tensor that was read.
pub(super) struct Plan {
    /// The parameter in its place, and its key if that changed; `None` if it was removed.
    pub(super) now: Vec<Option<(usize, Option<String>)>>,
    /// Parameters to be added to the outermost dict, under their names.
    pub(super) moved: Vec<usize>,
    /// New names by old ones, for the table of names; `None` for removed ones.
    pub(super) renamed: HashMap<String, Option<String>>,
}

impl Plan {
    fn new(model: &Model, contents: &Contents, places: &[Option<usize>]) -> Self {
        let (mut now, mut renamed) = (Vec::new(), HashMap::new());
        let mut kept = vec![false; model.parameters.len()];
        for (found, place) in contents.tensors.iter().zip(places) {
            let parameter = place.and_then(|index| Some((index, model.parameters.get(index)?)));
            let new_name = parameter.map(|(_, parameter)| parameter.name.clone());
            if new_name.as_ref() != Some(&found.path) {
                renamed.insert(found.path.clone(), new_name);
            }
            let stays = parameter.and_then(|(index, parameter)| {
                if parameter.name == found.path {
                    return Some((index, None));
                }
                // Another key of the same dict.
                let size = found.prefix?;
                let key = parameter.name.get(size..).filter(|key| !key.is_empty())?;
                let prefix = found.path.get(..size)?;
                parameter.name.starts_with(prefix).then(|| (index, Some(key.to_owned())))
            });
            if let Some(kept) = stays.as_ref().and_then(|(index, _)| kept.get_mut(*index)) {
                *kept = true;
            }
            now.push(stays);
        }
        let moved = kept.iter().enumerate().filter(|(_, kept)| !**kept).map(|(index, _)| index);
        Self { now, moved: moved.collect(), renamed }
    }
}

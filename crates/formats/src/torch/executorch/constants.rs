//! The tensors of a program: constants, and the initial values of mutable tensors.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Kind, Parameter, Tensor, some};
use lodstone_store::Blob;

use super::file::{Found, Odd, Segments};
use super::plan::{Plan, TensorValue, Value};
use crate::encoding::flatbuffer::{Contents, FlatBuffer, Table};
use crate::error::Result;
use crate::torch::element::Element;
use crate::torch::view::{MAX_RANK, View, contiguous};

/// The places of data in a program.
pub(super) struct Places {
    /// Data in the tables, in old files.
    pub(super) inline: Vec<(u64, Blob)>,
    /// The segment of constants, and the offset of each.
    constants: Option<(u64, Vec<u64>)>,
    /// The segments of mutable tensors, and the offset of each.
    mutable: Vec<(u64, Vec<u64>)>,
    /// The segments of named data.
    named: HashMap<String, u64>,
}

/// The names of tensors, and what each is.
#[derive(Default)]
pub(super) struct Names {
    known: HashMap<String, Identity>,
    /// The number of tensors that had the name of another one.
    again: HashMap<String, u64>,
    /// The starts of the data of tensors.
    pub(super) starts: HashSet<u64>,
}

/// The start of the data of a tensor, its element type, dims, and their order.
type Identity = (u64, u64, Vec<u64>, Vec<u64>);

impl Places {
    /// Reads the places that the root table of a program lists.
    ///
    /// # Errors
    /// Fails if they are damaged.
    pub(super) fn read(reader: &mut FlatBuffer<'_>, root: &Table) -> Result<Self> {
        let mut inline = Vec::new();
        for buffer in reader.tables(root, 2, "constant data")? {
            inline.push(reader.bytes(&buffer, 0, "constant data")?.unwrap_or_default());
        }
        let constants = reader.table(root, 5, "the segment of constants")?;
        let constants = constants.map(|table| offsets(reader, &table)).transpose()?;
        let mut mutable = Vec::new();
        for table in reader.tables(root, 6, "a segment of mutable data")? {
            mutable.push(offsets(reader, &table)?);
        }
        let mut named = HashMap::new();
        for table in reader.tables(root, 7, "named data")? {
            let key = reader.text(&table, 0, "the name of data")?.unwrap_or_default();
            let index = reader.number(&table, 1, 4, "the index of a segment")?;
            if named.insert(key, index).is_some() {
                let why = ("one segment for each name".to_owned(), "two".to_owned());
                return Err(reader.malformed(table.at, why));
            }
        }
        Ok(Self { inline, constants, mutable, named })
    }

    /// Returns the start and the bytes from the first element of a tensor on; `None` if they are in another file.
    fn of(&self, tensor: &TensorValue, segments: &Segments) -> Result<Option<(u64, Blob)>, Odd> {
        if tensor.is_external {
            let name = tensor.name.as_deref().unwrap_or_default();
            let Some(index) = self.named.get(name) else { return Ok(None) };
            return segments.get(*index).map(|(start, blob)| Some((start, blob.clone())));
        }
        let index = tensor.buffer;
        if tensor.is_planned && !self.mutable.is_empty() {
            let list = usize::try_from(tensor.segment).ok().and_then(|at| self.mutable.get(at));
            let why = || {
                let expected = format!("one of {} lists of mutable data", self.mutable.len());
                (expected, format!("index {}", tensor.segment))
            };
            return in_segment(list.ok_or_else(why)?, index, segments).map(Some);
        }
        let inline = usize::try_from(index).ok().and_then(|at| self.inline.get(at));
        match (inline, &self.constants) {
            (Some(found), _) => Ok(Some(found.clone())),
            (None, Some(list)) if self.inline.is_empty() => {
                in_segment(list, index, segments).map(Some)
            }
            _ => Err((format!("one of {} constants", self.inline.len()), format!("index {index}"))),
        }
    }

    /// Adds the data that only a backend can interpret: named data that no tensor is made of.
    ///
    /// # Errors
    /// Fails with what was expected if there is no such segment.
    pub(super) fn describe(
        &self,
        segments: &Segments,
        tensors: &HashSet<u64>,
        found: &mut Found,
    ) -> Result<(), Odd> {
        let mut row = serde_json::Map::new();
        for (name, index) in &self.named {
            let (start, data) = segments.get(*index)?;
            row.insert(name.clone(), data.len().into());
            if !tensors.contains(&start) && !data.is_empty() {
                found.opaque.push((format!("named data at byte {start}"), start, data.clone()));
            }
        }
        if !row.is_empty() {
            row.sort_keys();
            found
                .metadata
                .insert("named_data".to_owned(), serde_json::Value::from(row).to_string());
        }
        Ok(())
    }
}

fn offsets(reader: &mut FlatBuffer<'_>, table: &Table) -> Result<(u64, Vec<u64>)> {
    let segment = reader.number(table, 0, 4, "the index of a segment")?;
    Ok((segment, reader.numbers(table, 1, 8, "offsets of constants")?))
}

fn in_segment(
    (segment, offsets): &(u64, Vec<u64>),
    index: u64,
    segments: &Segments,
) -> Result<(u64, Blob), Odd> {
    let offset = usize::try_from(index).ok().and_then(|index| offsets.get(index));
    let offset = *offset
        .ok_or_else(|| (format!("one of {} constants", offsets.len()), format!("index {index}")))?;
    let (start, segment) = segments.get(*segment)?;
    let outside = || (format!("an offset in {} bytes", segment.len()), format!("offset {offset}"));
    let rest = segment.len().checked_sub(offset).ok_or_else(outside)?;
    let Ok(data) = segment.slice(offset, rest) else { return Err(outside()) };
    Ok((start + offset, data))
}

/// Adds the tensors of a method.
///
/// # Errors
/// Fails if a tensor exceeds its data, or has an unknown type.
pub(super) fn add(
    reader: &mut FlatBuffer<'_>,
    plan: &Plan,
    places: &Places,
    segments: &Segments,
    names: &mut Names,
    found: &mut Found,
) -> Result<()> {
    let mut absent = Vec::new();
    for (number, value) in plan.values.iter().enumerate() {
        let Value::Tensor(value) = value else { continue };
        if value.buffer == 0 && !value.is_external {
            continue;
        }
        let inside = |why: Odd| {
            let error = reader.malformed(value.at, why);
            error.inside(format!("method `{}`, value {number}", plan.name))
        };
        let place = places.of(value, segments).map_err(inside)?;
        let (start, tensor) = match place {
            Some((start, data)) => {
                let tensor = view(value.scalar, &value.sizes, &value.order, value.offset, data);
                (start, tensor.map_err(inside)?)
            }
            None => {
                let dtype = Element::script(value.scalar).map(|element| element.dtype);
                let shape = value.sizes.clone();
                let dtype = dtype.unwrap_or_default();
                (
                    u64::MAX,
                    Tensor { kind: Kind::Absent, ..Tensor::dense(dtype, shape, Blob::default()) },
                )
            }
        };
        let is_mutable = value.is_planned;
        let name = value.name.clone().unwrap_or_else(|| match is_mutable {
            true => format!("mutable.{}.{}", value.segment, value.buffer),
            false => format!("constant.{}", value.buffer),
        });
        let identity = (start, value.scalar, value.sizes.clone(), value.order.clone());
        let Some(name) = names.insert(name, &plan.name, identity) else { continue };
        names.starts.insert(start);
        if start == u64::MAX {
            absent.push(name.clone());
        } else {
            let contents = Contents::Tensor(found.parameters.len());
            reader.record(start, tensor.data.len(), "elements", contents);
        }
        found.parameters.push(Parameter { name, tensor });
    }
    if !absent.is_empty() {
        let names = some(absent.iter().map(|name| format!("`{name}`")));
        found.warnings.push(format!("tensors in another file (`.ptd`): {names}"));
    }
    Ok(())
}

impl Names {
    /// Returns the name of a tensor, with that of the method or a number if another tensor has its name; `None` if it is
    /// known.
    fn insert(&mut self, name: String, plan: &str, identity: Identity) -> Option<String> {
        let mut candidate = name.clone();
        loop {
            match self.known.get(&candidate) {
                None => {
                    self.known.insert(candidate.clone(), identity);
                    return Some(candidate);
                }
                Some(known) if *known == identity => return None,
                Some(_) if candidate == name && !plan.is_empty() => {
                    candidate = format!("{plan}.{name}");
                }
                Some(_) => {
                    let number = self.again.entry(name.clone()).or_insert(1);
                    *number += 1;
                    candidate = format!("{plan}.{name}.{number}");
                }
            }
        }
    }
}

/// Returns the tensor of this type and these dims at the beginning of data.
///
/// # Errors
/// Fails with what was expected.
pub(super) fn view(
    scalar: u64,
    sizes: &[u64],
    order: &[u64],
    offset: u64,
    data: Blob,
) -> Result<Tensor, Odd> {
    let element = Element::script(scalar)
        .ok_or_else(|| ("an element type".to_owned(), format!("{scalar}")))?;
    if sizes.len() > MAX_RANK || sizes.iter().chain([&offset]).any(|dim| *dim > i32::MAX as u64) {
        return Err((format!("at most {MAX_RANK} dims of 31 bits"), format!("{sizes:?}")));
    }
    let strides = strides(sizes, order)
        .ok_or_else(|| (format!("an order of {} dims", sizes.len()), format!("{order:?}")))?;
    let count = sizes.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
    let end = count.and_then(|count| count.checked_add(offset)?.checked_mul(element.size));
    let Some(storage) = end.and_then(|end| data.slice(0, end).ok()) else {
        let name = element.name;
        return Err((format!("the elements of {name} {sizes:?}"), format!("{} bytes", data.len())));
    };
    let view = View { strides, offset, ..View::contiguous(element, sizes.to_vec(), storage) };
    view.tensor().map_err(|expected| (expected, "another view".to_owned()))
}

/// Returns the strides of dims that are stored in an order, the outermost first; that of the dims if it is empty.
fn strides(sizes: &[u64], order: &[u64]) -> Option<Vec<u64>> {
    if order.is_empty() {
        return Some(contiguous(sizes));
    }
    if order.len() != sizes.len() {
        return None;
    }
    let (mut strides, mut stride) = (vec![0; sizes.len()], 1_u64);
    for axis in order.iter().rev() {
        let axis = usize::try_from(*axis).ok()?;
        let this = strides.get_mut(axis).filter(|this| **this == 0)?;
        *this = stride;
        stride = stride.checked_mul((*sizes.get(axis)?).max(1))?;
    }
    Some(strides)
}

//! The methods of a program: what they take, return and call.

use std::collections::{BTreeMap, BTreeSet};

use lodstone_store::Blob;
use serde_json::{Value as Json, json};

use super::file::{Found, Odd, Segments};
use crate::encoding::flatbuffer::{FlatBuffer, Table};
use crate::error::Result;
use crate::torch::element::Element;

/// A method.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) values: Vec<Value>,
    inputs: Vec<u64>,
    outputs: Vec<u64>,
    calls: BTreeMap<String, u64>,
    sources: BTreeSet<String>,
    delegates: Vec<Delegate>,
    /// The sizes of the buffers that tensors are planned into.
    memory: Vec<u64>,
}

/// A value of a method.
pub(super) enum Value {
    Tensor(Box<TensorValue>),
    /// Another value, as it is shown.
    Other(Json),
}

/// The description of a tensor.
#[derive(Clone, Debug, Default)]
pub(super) struct TensorValue {
    /// The position of its table.
    pub(super) at: u64,
    pub(super) scalar: u64,
    pub(super) offset: u64,
    pub(super) sizes: Vec<u64>,
    pub(super) order: Vec<u64>,
    /// The index of its data; 0 if it has none.
    pub(super) buffer: u64,
    /// Whether memory is planned for it.
    pub(super) is_planned: bool,
    /// Whether the dims are fixed (0), upper bounds (1), or unknown.
    dynamism: u64,
    /// The index of the list of mutable data.
    pub(super) segment: u64,
    pub(super) name: Option<String>,
    /// Whether its data is in another file.
    pub(super) is_external: bool,
}

/// A part of a program that a backend runs.
struct Delegate {
    backend: String,
    /// The start and the bytes of its data.
    data: (u64, Blob),
    options: Vec<String>,
}

/// The number of source files that are kept.
const MAX_SOURCES: usize = 100;

/// Reads a method.
///
/// # Errors
/// Fails if it is damaged.
pub(super) fn read(
    reader: &mut FlatBuffer<'_>,
    table: &Table,
    inline: &[(u64, Blob)],
    segments: &Segments,
) -> Result<Plan> {
    let name = reader.text(table, 0, "the name of a method")?.unwrap_or_default();
    let inside = |error: crate::error::Error| error.inside(format!("method `{name}`"));
    if let Some(container) = reader.table(table, 1, "the structure of inputs and outputs")? {
        reader.text(&container, 0, "the structure of inputs")?;
        reader.text(&container, 1, "the structure of outputs")?;
    }
    let mut values = Vec::new();
    for (index, value) in reader.tables(table, 2, "a value")?.iter().enumerate() {
        let place = |error| inside(crate::error::Error::inside(error, format!("value {index}")));
        values.push(self::value(reader, value).map_err(place)?);
    }
    let inputs = reader.numbers(table, 3, 4, "inputs")?;
    let outputs = reader.numbers(table, 4, 4, "outputs")?;
    let mut operators = Vec::new();
    for operator in reader.tables(table, 6, "an operator")? {
        let name = reader.text(&operator, 0, "the name of an operator")?.unwrap_or_default();
        let overload = reader.text(&operator, 1, "the overload of an operator")?;
        let overload = overload.filter(|overload| !overload.is_empty());
        operators.push(overload.map_or(name.clone(), |overload| format!("{name}.{overload}")));
    }
    let mut delegates = Vec::new();
    for (index, delegate) in reader.tables(table, 7, "a delegate")?.iter().enumerate() {
        let place = |error| inside(crate::error::Error::inside(error, format!("delegate {index}")));
        delegates.push(self::delegate(reader, delegate, inline, segments).map_err(place)?);
    }
    let (calls, sources) = calls(reader, table, &operators, delegates.len()).map_err(inside)?;
    let memory = reader.numbers(table, 8, 8, "sizes of planned memory")?;
    for device in reader.tables(table, 9, "the device of planned memory")? {
        reader.number(&device, 0, 4, "the index of planned memory")?;
        reader.number(&device, 1, 1, "a type of device")?;
        reader.number(&device, 2, 1, "the index of a device")?;
    }
    Ok(Plan { name, values, inputs, outputs, calls, sources, delegates, memory })
}

fn value(reader: &mut FlatBuffer<'_>, table: &Table) -> Result<Value> {
    let kind = reader.number(table, 0, 1, "the type of a value")?;
    let Some(inner) = reader.table(table, 1, "a value")? else {
        return Ok(Value::Other(Json::Null));
    };
    let other = match kind {
        2 => {
            let number = reader.number(&inner, 0, 8, "an integer")?;
            json!(i64::from_le_bytes(number.to_le_bytes()))
        }
        3 => json!(reader.is_set(&inner, 0, "a boolean")?),
        4 => {
            let number = f64::from_bits(reader.number(&inner, 0, 8, "a float")?);
            if number.is_finite() { json!(number) } else { json!({"float": number.to_string()}) }
        }
        5 => return Ok(Value::Tensor(Box::new(tensor(reader, &inner)?))),
        6 => json!({"string": reader.text(&inner, 0, "a string")?.unwrap_or_default()}),
        7 | 8 => {
            let (what, name) = if kind == 7 { ("integers", "int") } else { ("floats", "double") };
            let items = reader.numbers(&inner, 0, 8, what)?;
            json!(format!("list of {} {name}", items.len()))
        }
        9 => json!(format!("list of {} bool", reader.numbers(&inner, 0, 1, "booleans")?.len())),
        10 | 11 => {
            let items = reader.numbers(&inner, 0, 4, "a list of tensors")?;
            json!(format!("list of {} tensor", items.len()))
        }
        _ => Json::Null,
    };
    Ok(Value::Other(other))
}

fn tensor(reader: &mut FlatBuffer<'_>, table: &Table) -> Result<TensorValue> {
    let mut tensor = TensorValue {
        at: table.at,
        scalar: reader.number(table, 0, 1, "the element type")?,
        offset: reader.number(table, 1, 4, "the offset in elements")?,
        sizes: reader.numbers(table, 2, 4, "dims")?,
        order: reader.numbers(table, 3, 1, "the order of dims")?,
        buffer: reader.number(table, 5, 4, "the index of the data")?,
        dynamism: reader.number(table, 8, 1, "whether the shape is fixed")?,
        ..TensorValue::default()
    };
    reader.is_set(table, 4, "whether it requires a gradient")?;
    reader.number(table, 7, 1, "the layout")?;
    if let Some(planned) = reader.table(table, 6, "the planned memory")? {
        tensor.is_planned = true;
        reader.number(&planned, 0, 4, "the index of planned memory")?;
        reader.number(&planned, 1, 4, "the low half of an offset")?;
        reader.number(&planned, 2, 4, "the high half of an offset")?;
    }
    if let Some(more) = reader.table(table, 9, "more about a tensor")? {
        tensor.segment = reader.number(&more, 0, 8, "the index of mutable data")?;
        tensor.name = reader.text(&more, 1, "the name of a tensor")?;
        tensor.is_external = reader.is_set(&more, 2, "whether the data is external")?;
        reader.number(&more, 3, 1, "a type of device")?;
        reader.number(&more, 4, 1, "the index of a device")?;
    }
    Ok(tensor)
}

fn delegate(
    reader: &mut FlatBuffer<'_>,
    table: &Table,
    inline: &[(u64, Blob)],
    segments: &Segments,
) -> Result<Delegate> {
    let backend = reader.text(table, 0, "the name of a backend")?.unwrap_or_default();
    let mut data = (0, Blob::default());
    if let Some(place) = reader.table(table, 1, "the place of the data")? {
        let is_segment = reader.is_set(&place, 0, "whether the data is a segment")?;
        let index = reader.number(&place, 1, 4, "the index of the data")?;
        let found = match is_segment {
            true => segments.get(index).map(|(start, blob)| (start, blob.clone())),
            false => {
                let found = usize::try_from(index).ok().and_then(|index| inline.get(index));
                let why =
                    || (format!("one of {} inline data", inline.len()), format!("index {index}"));
                found.cloned().ok_or_else(why)
            }
        };
        data = found.map_err(|why| reader.malformed(place.at, why))?;
    }
    let mut options = Vec::new();
    for option in reader.tables(table, 2, "an option of a backend")? {
        options.push(reader.text(&option, 0, "the name of an option")?.unwrap_or_default());
        reader.numbers(&option, 1, 1, "the value of an option")?;
    }
    Ok(Delegate { backend, data, options })
}

/// The calls of each operator, and the files of the script that defined them.
type Calls = (BTreeMap<String, u64>, BTreeSet<String>);

fn calls(
    reader: &mut FlatBuffer<'_>,
    plan: &Table,
    operators: &[String],
    delegates: usize,
) -> Result<Calls> {
    let (mut numbers, mut others, mut sources) =
        (vec![0_u64; operators.len()], [0; 4], BTreeSet::new());
    for chain in reader.tables(plan, 5, "a chain")? {
        reader.numbers(&chain, 0, 4, "inputs of a chain")?;
        reader.numbers(&chain, 1, 4, "outputs of a chain")?;
        for instruction in reader.tables(&chain, 2, "an instruction")? {
            let kind = reader.number(&instruction, 0, 1, "the type of an instruction")?;
            let Some(inner) = reader.table(&instruction, 1, "an instruction")? else { continue };
            let first = reader.number(&inner, 0, 4, "an index")?;
            let at = usize::try_from(first).ok();
            match kind {
                1 | 2 => {
                    reader.numbers(&inner, 1, 4, "arguments")?;
                    let known = if kind == 1 { operators.len() } else { delegates };
                    if at.is_none_or(|at| at >= known) {
                        let what = if kind == 1 { "operators" } else { "delegates" };
                        let why = (format!("one of {known} {what}"), format!("index {first}"));
                        return Err(reader.malformed(inner.at, why));
                    }
                }
                3 | 4 => _ = reader.number(&inner, 1, 4, "an index")?,
                _ => {}
            }
            let number = match kind {
                1 => at.and_then(|at| numbers.get_mut(at)),
                2..=5 => usize::try_from(kind - 2).ok().and_then(|kind| others.get_mut(kind)),
                _ => None,
            };
            if let Some(number) = number {
                *number += 1;
            }
        }
        for frames in reader.tables(&chain, 3, "a stack trace")? {
            for frame in reader.tables(&frames, 0, "a stack frame")? {
                let file = reader.text(&frame, 0, "the file of a stack frame")?;
                reader.number(&frame, 1, 4, "the line of a stack frame")?;
                reader.text(&frame, 2, "the function of a stack frame")?;
                reader.text(&frame, 3, "the code of a stack frame")?;
                if let Some(file) = file.filter(|_| sources.len() < MAX_SOURCES) {
                    sources.insert(file);
                }
            }
        }
    }
    let mut calls = BTreeMap::new();
    let names = ["(delegate)", "(move)", "(jump)", "(free)"].map(str::to_owned);
    let all = operators.iter().zip(numbers).chain(names.iter().zip(others));
    for (name, number) in all.filter(|(_, number)| *number > 0) {
        *calls.entry(name.clone()).or_insert(0) += number;
    }
    Ok((calls, sources))
}

impl Plan {
    /// Adds the description of the method, and the data of its delegates.
    ///
    /// # Errors
    /// Fails with what was expected if there are two methods of one name, or no value of an index.
    pub(super) fn describe(&self, found: &mut Found) -> Result<(), Odd> {
        let named = |indices: &[u64]| -> Result<Vec<Json>, Odd> {
            let value = |index: &u64| {
                let value = usize::try_from(*index).ok().and_then(|index| self.values.get(index));
                let why =
                    || (format!("one of {} values", self.values.len()), format!("index {index}"));
                value.map(Value::show).ok_or_else(why)
            };
            indices.iter().map(value).collect()
        };
        let mut rows = vec![
            ("inputs", json!(named(&self.inputs)?)),
            ("outputs", json!(named(&self.outputs)?)),
            ("operators", json!(self.calls)),
            ("memory", json!(self.memory.get(1..).unwrap_or_default())),
        ];
        if !self.delegates.is_empty() {
            let row = |delegate: &Delegate| {
                let (backend, (start, data)) = (&delegate.backend, &delegate.data);
                json!({"backend": backend, "bytes": data.len(), "offset": start, "options": delegate.options})
            };
            rows.push(("delegates", self.delegates.iter().map(row).collect()));
        }
        if !self.sources.is_empty() {
            rows.push(("sources", json!(self.sources)));
        }
        for (key, row) in rows {
            let key = format!("{}.{key}", self.name);
            if found.metadata.insert(key, row.to_string()).is_some() {
                return Err((format!("one method called `{}`", self.name), "two".to_owned()));
            }
        }
        for Delegate { data: (start, data), .. } in &self.delegates {
            if !data.is_empty() {
                found.opaque.push((format!("delegate data at byte {start}"), *start, data.clone()));
            }
        }
        Ok(())
    }
}

impl Value {
    fn show(&self) -> Json {
        match self {
            Self::Tensor(tensor) => json!(tensor.show()),
            Self::Other(json) => json.clone(),
        }
    }
}

impl TensorValue {
    /// Returns the type, such as `float32[2, 3]`; with `<=` before dims that are upper bounds.
    fn show(&self) -> String {
        let dtype = Element::script(self.scalar).map_or("?", |element| element.name);
        let bound = if self.dynamism == 0 { "" } else { "<=" };
        let dims: Vec<_> = self.sizes.iter().map(|dim| format!("{bound}{dim}")).collect();
        match self.dynamism {
            0 | 1 => format!("{dtype}[{}]", dims.join(", ")),
            _ => format!("{dtype}[..]"),
        }
    }
}

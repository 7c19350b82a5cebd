//! The tensors of a `.ptd` file.

use std::collections::HashSet;

use lodstone_model::Parameter;

use super::constants::view;
use super::file::{Found, Odd, Segments};
use crate::encoding::flatbuffer::{Contents, FlatBuffer, Table};
use crate::error::Result;

/// The newest version that is read.
const VERSION: u64 = 0;

/// Reads named data: tensors, and data that only a backend can interpret.
///
/// # Errors
/// Fails if a tensor exceeds its segment, or has an unknown type.
pub(super) fn read(
    reader: &mut FlatBuffer<'_>,
    root: &Table,
    segments: &Segments,
    found: &mut Found,
) -> Result<()> {
    let version = reader.number(root, 0, 4, "the version")?;
    if version > VERSION {
        return Err(reader.malformed(root.at, (format!("version {VERSION}"), format!("{version}"))));
    }
    found.metadata.insert("version".to_owned(), version.to_string());
    let (mut names, mut row) = (HashSet::new(), serde_json::Map::new());
    for table in reader.tables(root, 2, "named data")? {
        let name = reader.text(&table, 0, "the name of data")?.unwrap_or_default();
        let index = reader.number(&table, 1, 4, "the index of a segment")?;
        let layout = reader.table(&table, 2, "the layout of a tensor")?;
        let inside = |error: crate::error::Error| error.inside(format!("data `{name}`"));
        let malformed = |why: Odd| inside(reader.malformed(table.at, why));
        if !names.insert(name.clone()) {
            return Err(malformed(("one segment for each name".to_owned(), "two".to_owned())));
        }
        let (start, data) = segments.get(index).map_err(malformed)?;
        let Some(layout) = layout else {
            row.insert(name.clone(), data.len().into());
            if !data.is_empty() {
                found.opaque.push((format!("named data at byte {start}"), start, data.clone()));
            }
            continue;
        };
        let scalar = reader.number(&layout, 0, 1, "the element type").map_err(inside)?;
        let sizes = reader.numbers(&layout, 1, 4, "dims").map_err(inside)?;
        let order = reader.numbers(&layout, 2, 1, "the order of dims").map_err(inside)?;
        let tensor = view(scalar, &sizes, &order, 0, data.clone());
        let tensor = tensor.map_err(|why| inside(reader.malformed(layout.at, why)))?;
        let contents = Contents::Tensor(found.parameters.len());
        reader.record(start, tensor.data.len(), "elements", contents);
        found.parameters.push(Parameter { name, tensor });
    }
    if !row.is_empty() {
        found.metadata.insert("named_data".to_owned(), serde_json::Value::from(row).to_string());
    }
    Ok(())
}

//! `lodstone inspect --bytes`.

use std::io::{self, Write};
use std::path::Path;

use lodstone::byte_map::FileMap;
use lodstone::store::Field;

use super::args::Inspect;
use super::tables;
use crate::console::{self, plain};
use crate::paths::About;
use crate::stores::at;
use crate::{Answer, Failure};

/// Prints the byte maps of the files at a path, and then the damage that was found.
pub(super) fn run(path: &Path, arguments: &Inspect) -> Result<Answer, Failure> {
    let options = arguments.open.options()?;
    let maps = lodstone::byte_map(at(path)?, arguments.tensor.as_deref(), &options)?;
    if arguments.json {
        console::json(&About::new(path, &maps))?;
    } else {
        console::to_stdout(|out| {
            for (number, file) in maps.files.iter().enumerate() {
                if number > 0 {
                    writeln!(out)?;
                }
                write(file, arguments.limit, out)?;
            }
            Ok(())
        })?;
        let unmapped = maps.unmapped.iter().map(|path| format!("`{path}` has no byte map"));
        console::warnings(&unmapped.collect::<Vec<_>>());
    }
    if let Some(why) = &maps.unopened {
        console::warning(&format!("the files are no model: {why}"));
    }
    let damage: Vec<_> = maps.files.iter().filter_map(|file| file.map.error.as_ref()).collect();
    damage.iter().for_each(|error| console::error(*error));
    Ok(if damage.is_empty() { Answer::Yes } else { Answer::Failed })
}

fn write(file: &FileMap, limit: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let fields = &file.map.fields;
    let length = fields.iter().map(|field| field.len).fold(0, u64::saturating_add);
    writeln!(
        out,
        "path    {}\nkind    {}\nfields  {}, {length} bytes\n",
        plain(&file.path),
        file.kind,
        fields.len()
    )?;
    // The fields of a single tensor all have its index.
    let has_tensors =
        fields.iter().any(|field| Some(field.tensor) != fields.first().map(|first| first.tensor));
    let mut header = vec!["offset", "length"];
    header.extend(has_tensors.then_some("tensor"));
    header.extend(["field", "value"]);
    let row = |field: &Field| {
        let mut row = vec![field.offset.to_string(), field.len.to_string()];
        let tensor = || field.tensor.map_or_else(String::new, |tensor| tensor.to_string());
        row.extend(has_tensors.then(tensor));
        row.extend([field.name.clone(), field.value.clone()]);
        row
    };
    let right: &[usize] = if has_tensors { &[0, 1, 2] } else { &[0, 1] };
    tables::write(out, &header, right, (fields.len(), limit), || fields.iter().map(row))
}

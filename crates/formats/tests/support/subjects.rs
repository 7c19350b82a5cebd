//! The formats of single files, as subjects of damage.

use lodstone_formats::{FORMATS, Format, OpenOptions, Result};
use lodstone_model::Model;
use lodstone_store::MemoryStore;

use super::damage::Subject;

/// Returns the subject of each format of single files.
pub fn subjects() -> impl Iterator<Item = Subject> {
    FORMATS.iter().filter_map(|format| {
        let structure = format.structure?;
        Some(Subject { format, structure })
    })
}

/// Returns the subject of a format.
pub fn subject(name: &str) -> Subject {
    subjects().find(|subject| subject.format.name == name).expect("a format")
}

/// Returns the names of the files of a model in a format.
pub fn file_names(format: &Format) -> Vec<String> {
    match (format.files, format.extension) {
        ([], "") => vec!["model".to_owned()],
        ([], extension) => vec![format!("model.{extension}")],
        (files, _) => files.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// Reads bytes in memory as the first file of a model, and the first elements of each tensor, which may be computed.
pub fn read(format: &Format, bytes: &[u8]) -> Result<Model> {
    let store = MemoryStore::default();
    let name = &file_names(format)[0];
    store.insert(name, bytes.to_vec()).expect("a file in memory");
    let model = (format.read)(&store.location(name), &OpenOptions::default())?;
    for parameter in &model.parameters {
        let data = &parameter.tensor.data;
        let _ = data.read_at(0, &mut vec![0; data.len().min(64 << 10) as usize]);
    }
    Ok(model)
}

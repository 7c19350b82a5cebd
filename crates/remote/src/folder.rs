//! A directory of a remote store.

use std::path::PathBuf;

use lodstone_store::{Error, Folder, Listing, Result, Source, plain};

use crate::store::{Opening, RemoteStore};

/// The extensions of files whose headers are read as soon as they are opened. Of others, such as the external data of an
/// ONNX model, only the size is.
const WITH_HEADERS: [&str; 6] = [".safetensors", ".json", ".npz", ".pt", ".bin", ".pth"];

#[derive(Debug)]
pub(crate) struct RemoteFolder {
    pub(crate) store: RemoteStore,
    pub(crate) key: String,
    pub(crate) path: PathBuf,
}

impl Folder for RemoteFolder {
    fn open(&self, name: &str) -> Result<Option<Box<dyn Source>>> {
        let path = self.path.join(name);
        let key = match self.key.is_empty() {
            true => plain(name),
            false => format!("{}/{}", self.key, plain(name)),
        };
        let has_header = WITH_HEADERS.iter().any(|extension| name.ends_with(extension));
        let opening = if has_header { Opening::Head } else { Opening::Size };
        if let Some(source) = self.store.open_key(&key, &path, opening)? {
            return Ok(Some(source));
        }
        match self.store.has_dir(&key) {
            Ok(true) => Err(Error::NotAFile { path, found: "a directory" }),
            Ok(false) => Ok(None),
            Err(fault) => Err(fault.at("open", &path)),
        }
    }

    fn everything(&self, max: usize) -> Result<Listing> {
        let key = self.key.clone();
        let found =
            self.store.call(|shared| async move { shared.backend.everything(&key, max).await });
        let keys = found.map_err(|fault| fault.at("list", &self.path))?;
        if keys.len() > max {
            let (path, found) = (self.path.clone(), "more entries than a model may have");
            return Err(Error::NotAFile { path, found });
        }
        let skip = if self.key.is_empty() { 0 } else { self.key.len() + 1 };
        let files = keys.iter().filter_map(|key| key.get(skip..)).map(str::to_owned).collect();
        Ok(Listing { files, others: Vec::new() })
    }
}

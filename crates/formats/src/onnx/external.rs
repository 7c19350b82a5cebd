//! Elements in other files: the byte range in `external_data`.
//!
//! | key | value |
//! |---|---|
//! | `location` | path of the file, relative to the directory of the model |
//! | `offset` | start of the range in bytes; default 0 |
//! | `length` | size of the range in bytes; default the size that the tensor requires |
//! | `checksum` | SHA-1 of the range; not verified on read |
//!
//! A location never leads out of the directory of the model: neither by its name, nor by symlinks,
//! nor by hard links, which would let a model expose any file of its file system.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_store::{Blob, Links, Location, plain};

use super::tensor::Fields;
use crate::encoding::protobuf::wire::Encoder;
use crate::error::Result;
use crate::lengths::length;
use crate::options::{ExternalData, OpenOptions};
use crate::seal::entries::ModelDir;

/// The files beside a model that hold elements of its tensors.
pub(super) struct External<'a> {
    /// Their directory, if they are opened.
    beside: Option<(Location, &'a OpenOptions)>,
    open: Option<ModelDir>,
    /// The opened files, by location; `None` if a file was not found.
    files: Vec<(String, Option<Blob>)>,
}

impl<'a> External<'a> {
    /// Returns the files of the model at `path`.
    pub(super) fn beside(path: &Location, options: &'a OpenOptions) -> Self {
        Self { beside: Some((path.directory(), options)), open: None, files: Vec::new() }
    }

    /// Creates an instance that opens no files.
    pub(super) fn none() -> Self {
        Self { beside: None, open: None, files: Vec::new() }
    }

    /// Returns the files that were found, in the order in which they were opened.
    pub(super) fn found(&self) -> impl Iterator<Item = &Blob> {
        self.files.iter().filter_map(|(_, blob)| blob.as_ref())
    }

    /// Returns the locations that were not found.
    pub(super) fn absent(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter(|(_, blob)| blob.is_none()).map(|(location, _)| &**location)
    }

    /// Returns the elements of `entries`, `size` bytes if that is known; `None` if the file was not found.
    pub(super) fn range(
        &mut self,
        entries: &Entries<'_>,
        size: Option<u64>,
    ) -> Result<Option<Blob>> {
        let Some(file) = self.file(entries.location)? else { return Ok(None) };
        let offset = entries.offset;
        let left = || file.len().saturating_sub(offset);
        let len = entries.length.or(size).unwrap_or_else(left);
        if offset > file.len() || len > left() {
            let expected = format!("{len} bytes of elements");
            let found = format!("{} bytes left", left());
            return Err(file.malformed(offset, expected, found).into());
        }
        Ok(Some(file.slice(offset, len)?))
    }

    fn file(&mut self, location: &str) -> Result<Option<Blob>> {
        if let Some((_, blob)) = self.files.iter().find(|(known, _)| known == location) {
            return Ok(blob.clone());
        }
        let blob = match &self.beside {
            Some((directory, options)) => {
                let dir = match &mut self.open {
                    Some(dir) => dir,
                    open => open.insert(options.dir(directory)?),
                };
                let blob = dir.open_file(location)?;
                if options.links == Links::Confined
                    && let Some((file, _)) = blob.as_ref().and_then(Blob::file_range)
                {
                    file.check_only_name()?;
                }
                blob
            }
            None => None,
        };
        self.files.push((location.to_owned(), blob.clone()));
        Ok(blob)
    }
}

/// The contents of `external_data`.
#[derive(Debug, Default)]
pub(super) struct Entries<'a> {
    pub(super) location: &'a str,
    pub(super) offset: u64,
    pub(super) length: Option<u64>,
}

impl<'a> Entries<'a> {
    /// Parses keys and values; the error is what was expected, and what was found.
    pub(super) fn of(entries: &'a [(String, String)]) -> Result<Self, (String, String)> {
        let mut read = Self::default();
        let mut seen = Vec::new();
        for (key, value) in entries {
            if seen.contains(&key) {
                return Err((
                    format!("a single `{key}` of external data"),
                    "a duplicate".to_owned(),
                ));
            }
            seen.push(key);
            let number = || {
                let expected = format!("a number as the {key} of external data");
                value.parse::<u64>().map_err(|_| (expected, format!("`{value}`")))
            };
            match key.as_str() {
                "location" => read.location = value,
                "offset" => read.offset = number()?,
                "length" => read.length = Some(number()?),
                _ => {}
            }
        }
        if read.location.is_empty() {
            return Err(("the location of external data".to_owned(), "none".to_owned()));
        }
        Ok(read)
    }
}

/// The location of elements in the output.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// In the model.
    Inside,
    /// Where they were, if they are unchanged.
    AsRead,
    /// In the original files, which are rewritten.
    Again { align: u64 },
    /// In one separate file.
    One { location: String, align: u64 },
    /// In a separate file for each tensor, named after the model and the tensor.
    Each { model: String, align: u64 },
}

impl Layout {
    /// Returns the location that the user requested, for the model in the file `name`.
    pub(super) fn from_option(how: ExternalData, name: &str, align: u64) -> Self {
        match how {
            ExternalData::Inside => Self::Inside,
            ExternalData::One => Self::One { location: format!("{name}.data"), align },
            ExternalData::Each => Self::Each { model: name.to_owned(), align },
        }
    }
}

/// Minimum size of tensors in separate files in bytes, as in the reference implementation.
const MIN_EXTERNAL: u64 = 1024;

/// Minimum size in bytes of elements that are aligned to pages, so that they can be mapped separately.
const MIN_PAGE_ALIGNED: u64 = 1 << 20;

/// The alignment of offsets for elements of that size, and the default for others.
const PAGE: u64 = 4096;
const ELEMENTS: u64 = 64;

/// The files of elements to be written.
pub(super) struct Outside {
    layout: Layout,
    files: Vec<(String, File)>,
    names: HashSet<String>,
    has_moved: bool,
}

#[derive(Default)]
struct File {
    parts: Vec<Blob>,
    len: u64,
}

impl Outside {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, files: Vec::new(), names: HashSet::new(), has_moved: false }
    }

    /// Returns the location of the elements of a tensor, as fields of its message; `None` if they are in the model.
    pub(super) fn place(
        &mut self,
        name: &str,
        data: &Blob,
        then: Option<&Fields<'_>>,
    ) -> Result<Option<Bytes>> {
        let was = then.and_then(Fields::place);
        Ok(match &self.layout {
            Layout::Inside => None,
            Layout::AsRead => {
                let Some((was, then)) = was.zip(then) else { return Ok(None) };
                let location = plain(was.location);
                match data.file_range() {
                    Some((file, offset))
                        if offset == was.offset && file.path().ends_with(&location) =>
                    {
                        if !self.files.iter().any(|(known, _)| *known == location) {
                            let whole = Blob::file(Arc::clone(file));
                            let file = File { len: whole.len(), parts: vec![whole] };
                            self.files.push((location, file));
                        }
                        Some(then.described().external)
                    }
                    _ => {
                        self.has_moved = true;
                        None
                    }
                }
            }
            Layout::Again { align } => {
                let Some(was) = was else { return Ok(None) };
                let (location, align) = (plain(was.location), *align);
                Some(self.add(location, data, align)?)
            }
            _ if data.len() < MIN_EXTERNAL => None,
            Layout::One { location, align } => {
                let (location, align) = (location.clone(), *align);
                Some(self.add(location, data, align)?)
            }
            Layout::Each { model, align } => {
                let (model, align) = (model.clone(), *align);
                let location = self.free_name(&model, name);
                Some(self.add(location, data, align)?)
            }
        })
    }

    /// Returns a file name for a tensor that is valid on all file systems and unique in the model; it includes
    /// the name of the model, so that models in one directory do not overwrite each other's files.
    fn free_name(&mut self, model: &str, tensor: &str) -> String {
        /// Maximum length in bytes that leaves room for the name of the model and for a number.
        const MAX_NAME: usize = 150;
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let tensor: String = tensor.chars().map(safe).take(MAX_NAME).collect();
        let mut name = format!("{model}.{tensor}.data");
        let mut number = 0_u64;
        // Some systems ignore case in file names.
        while !self.names.insert(name.to_lowercase()) {
            number += 1;
            name = format!("{model}.{tensor}_{number}.data");
        }
        name
    }

    fn add(&mut self, location: String, data: &Blob, align: u64) -> Result<Bytes> {
        let index = self.files.iter().position(|(known, _)| *known == location);
        let index = index.unwrap_or_else(|| {
            self.files.push((location.clone(), File::default()));
            self.files.len() - 1
        });
        let align = match align {
            0 if data.len() >= MIN_PAGE_ALIGNED => PAGE,
            0 => ELEMENTS,
            align => align,
        };
        let mut offset = 0;
        if let Some((_, file)) = self.files.get_mut(index) {
            offset = file.len.next_multiple_of(align);
            let padding = length(offset - file.len)?;
            if padding > 0 {
                file.parts.push(Blob::memory(vec![0; padding]));
            }
            file.parts.push(data.clone());
            file.len = offset + data.len();
        }
        let mut out = Encoder::default();
        let entries = [
            ("location", location),
            ("offset", offset.to_string()),
            ("length", data.len().to_string()),
        ];
        for (key, value) in entries {
            out.message(13, |out| {
                out.bytes(1, key.as_bytes());
                out.bytes(2, value.as_bytes());
            });
        }
        out.int(14, 1);
        Ok(out.finish().into())
    }

    /// Returns the files, and whether elements have moved.
    pub(super) fn finish(self) -> (Vec<(String, Blob)>, bool) {
        let files = self.files.into_iter().map(|(name, file)| (name, Blob::concat(file.parts)));
        (files.collect(), self.has_moved)
    }
}

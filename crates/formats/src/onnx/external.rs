//! Elements in other files: the range that `external_data` names.
//!
//! | key | value |
//! |---|---|
//! | `location` | path of the file, relative to the directory of the model |
//! | `offset` | where they begin, in bytes; 0 if absent |
//! | `length` | how many bytes they are; as many as the tensor asks for if absent |
//! | `checksum` | SHA-1 of them; not compared when they are read |
//!
//! A location never leads out of the directory of the model: not by its name, nor by symbolic links,
//! nor by hard links, which would let a model hand out any file of its own file system.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_store::{Blob, Links, Location, plain};

use super::tensor::Fields;
use crate::encoding::protobuf::wire::Encoder;
use crate::{ExternalData, ModelDir, OpenOptions, Result};

/// The files beside a model that have elements of its tensors.
pub(super) struct External<'a> {
    /// Where they are, if they are looked for.
    beside: Option<(Location, &'a OpenOptions)>,
    open: Option<ModelDir>,
    /// What was looked for, by location, and found or not.
    files: Vec<(String, Option<Blob>)>,
}

impl<'a> External<'a> {
    /// Those of the model in the file at `path`.
    pub(super) fn beside(path: &Location, options: &'a OpenOptions) -> Self {
        Self { beside: Some((path.directory(), options)), open: None, files: Vec::new() }
    }

    /// None.
    pub(super) fn none() -> Self {
        Self { beside: None, open: None, files: Vec::new() }
    }

    /// The files that were found, in the order in which they were asked for.
    pub(super) fn found(&self) -> impl Iterator<Item = &Blob> {
        self.files.iter().filter_map(|(_, blob)| blob.as_ref())
    }

    /// The locations of files that are not there.
    pub(super) fn absent(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter(|(_, blob)| blob.is_none()).map(|(location, _)| &**location)
    }

    /// The elements that `entries` name, `size` bytes if that is known; nothing if the file is not there.
    pub(super) fn range(
        &mut self,
        entries: &Entries<'_>,
        size: Option<u64>,
    ) -> Result<Option<Blob>> {
        let Some(file) = self.file(entries.location)? else { return Ok(None) };
        let offset = entries.offset.unwrap_or(0);
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

/// What `external_data` says.
#[derive(Debug, Default)]
pub(super) struct Entries<'a> {
    pub(super) location: &'a str,
    pub(super) offset: Option<u64>,
    pub(super) length: Option<u64>,
}

impl<'a> Entries<'a> {
    /// Takes keys and values; gives what is wrong with them: what was expected, and what was found.
    pub(super) fn of(entries: &'a [(String, String)]) -> Result<Self, (String, String)> {
        let mut read = Self::default();
        let mut seen = Vec::new();
        for (key, value) in entries {
            if seen.contains(&key) {
                return Err((format!("`{key}` of external data once"), "it again".to_owned()));
            }
            seen.push(key);
            let number = || {
                let expected = format!("a number as the {key} of external data");
                value.parse::<u64>().map_err(|_| (expected, format!("`{value}`")))
            };
            match key.as_str() {
                "location" => read.location = value,
                "offset" => read.offset = Some(number()?),
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

/// Where elements are to be.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// In the model.
    Inside,
    /// Where they were, as long as they are what is there.
    AsRead,
    /// In the files that they were in, anew.
    Again { align: u64 },
    /// In one file.
    One { location: String, align: u64 },
    /// In a file for each tensor, called like the model and the tensor.
    Each { model: String, align: u64 },
}

impl Layout {
    /// What the user asked for, for the model in the file `name`.
    pub(super) fn asked(how: ExternalData, name: &str, align: u64) -> Self {
        match how {
            ExternalData::Inside => Self::Inside,
            ExternalData::One => Self::One { location: format!("{name}.data"), align },
            ExternalData::Each => Self::Each { model: name.to_owned(), align },
        }
    }
}

/// Tensors of fewer bytes stay in the model, as the reference has it.
const SMALL: u64 = 1024;

/// From this size on elements begin at pages, so that they can be mapped alone.
const LARGE: u64 = 1 << 20;

/// What offsets are multiples of, of elements of that size and of others.
const PAGE: u64 = 4096;
const ELEMENTS: u64 = 64;

/// Files with elements that are to be written.
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

    /// Where the elements of a tensor are to be, as fields of its message; nothing if inside.
    pub(super) fn place(
        &mut self,
        name: &str,
        data: &Blob,
        then: Option<&Fields<'_>>,
    ) -> Option<Bytes> {
        let was = then.and_then(Fields::place);
        match &self.layout {
            Layout::Inside => None,
            Layout::AsRead => {
                let (was, then) = was.zip(then)?;
                let location = plain(was.location);
                match data.file_range() {
                    Some((file, offset))
                        if offset == was.offset.unwrap_or(0)
                            && file.path().ends_with(&location) =>
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
                let (location, align) = (plain(was?.location), *align);
                Some(self.add(location, data, align))
            }
            _ if data.len() < SMALL => None,
            Layout::One { location, align } => {
                let (location, align) = (location.clone(), *align);
                Some(self.add(location, data, align))
            }
            Layout::Each { model, align } => {
                let (model, align) = (model.clone(), *align);
                let location = self.free_name(&model, name);
                Some(self.add(location, data, align))
            }
        }
    }

    /// A name for the file of a tensor: one that every file system takes, and no other of the model has; with
    /// the name of the model, so that models in one directory do not write over each other.
    fn free_name(&mut self, model: &str, tensor: &str) -> String {
        /// Longest name that leaves room for that of the model and for a number, in bytes.
        const LONGEST: usize = 150;
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let tensor: String = tensor.chars().map(safe).take(LONGEST).collect();
        let mut name = format!("{model}.{tensor}.data");
        let mut number = 0_u64;
        // There are systems on which names differ by more than their case.
        while !self.names.insert(name.to_lowercase()) {
            number += 1;
            name = format!("{model}.{tensor}_{number}.data");
        }
        name
    }

    fn add(&mut self, location: String, data: &Blob, align: u64) -> Bytes {
        let index = self.files.iter().position(|(known, _)| *known == location);
        let index = index.unwrap_or_else(|| {
            self.files.push((location.clone(), File::default()));
            self.files.len() - 1
        });
        let align = match align {
            0 if data.len() >= LARGE => PAGE,
            0 => ELEMENTS,
            align => align,
        };
        let mut offset = 0;
        if let Some((_, file)) = self.files.get_mut(index) {
            offset = file.len.next_multiple_of(align);
            let padding = usize::try_from(offset - file.len).unwrap_or(0);
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
        out.finish().into()
    }

    /// The files, and whether elements are not any more where they were.
    pub(super) fn finish(self) -> (Vec<(String, Blob)>, bool) {
        let files = self.files.into_iter().map(|(name, file)| (name, Blob::concat(file.parts)));
        (files.collect(), self.has_moved)
    }
}

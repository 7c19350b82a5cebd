//! How to open and how to write.

use std::sync::Arc;

use lodstone_model::{DType, Dialect, Limits};
use lodstone_store::{Blob, Dir, Links, Location, Progress, SourceFile};

use crate::{ModelDir, Result, Seals};

/// How to open a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Where the parameters are, if not where the format says: a file or a directory.
    pub params: Option<Location>,
    /// How much a file may make a reader build.
    pub limits: Limits,
    /// Whether files may be mapped into memory.
    pub mmap: bool,
    /// Whether bytes of sealed models are compared with their checksums when they are first read,
    /// and models are refused of which some files are sealed and others not.
    pub verify: bool,
    /// Whether names inside a model may pass symbolic links that leave its directory.
    pub links: Links,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let (limits, links) = (Limits::default(), Links::default());
        Self { params: None, limits, mmap: true, verify: true, links }
    }
}

impl OpenOptions {
    /// The same, where whoever holds `progress` can stop the opening.
    #[must_use]
    pub fn stopped_by(mut self, progress: &Progress) -> Self {
        self.limits.progress = progress.clone();
        self
    }

    /// Opens a file that the user named.
    ///
    /// # Errors
    /// As [`SourceFile::open`]; if it is sealed and has another size, or the seal is damaged.
    pub fn file(&self, path: &Location) -> Result<Blob> {
        let file = SourceFile::open(path, self.mmap)?;
        let file = match self.seals() {
            Some(seals) => seals.checked(file)?,
            None => file,
        };
        Ok(Blob::file(Arc::new(file)))
    }

    /// Opens a directory in which names that come out of a model are resolved.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn dir(&self, path: &Location) -> Result<ModelDir> {
        Ok(ModelDir::new(Dir::open(path, self.links, self.mmap)?, self.seals()))
    }

    /// The seals that files are compared with, if they are.
    pub(crate) fn seals(&self) -> Option<Seals> {
        self.verify.then(Seals::default)
    }
}

/// How to write a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Whether to keep what the files of the model were like beyond what the format asks for: their
    /// names, their number, the layout of their records.
    pub same: bool,
    /// Bytes that elements are aligned to, where the format leaves it open; 0 for what the
    /// framework itself does.
    pub align: u64,
    /// Largest file, for formats that can be split.
    pub max_shard_size: Option<u64>,
    /// Where elements are to be, for formats that can keep them in other files; by default inside, or
    /// with [`same`](Self::same) where they were.
    pub external_data: Option<ExternalData>,
    /// Whether to seal what is written, in the same step.
    pub seal: bool,
    /// Fails instead of replacing an existing file.
    pub no_clobber: bool,
    /// Counts the bytes, and cancels.
    pub progress: Progress,
}

lodstone_model::with_fields!(OpenOptions {
    with_params(params: Option<Location>),
    with_limits(limits: Limits),
    with_mmap(mmap: bool),
    with_verify(verify: bool),
    with_links(links: Links),
});

lodstone_model::with_fields!(WriteOptions {
    with_same(same: bool),
    with_align(align: u64),
    with_max_shard_size(max_shard_size: Option<u64>),
    with_external_data(external_data: Option<ExternalData>),
    with_seal(seal: bool),
    with_no_clobber(no_clobber: bool),
    with_progress(progress: Progress),
});

/// Where the elements of tensors are, of a format that can keep them beside the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalData {
    /// In the model.
    Inside,
    /// In one file for all tensors.
    One,
    /// In a file for each tensor.
    Each,
}

/// What a format has a place for. What it has none for is a loss, which the user has to allow.
#[derive(Clone, Copy, Debug)]
pub struct Holds {
    /// Tensors.
    pub tensors: bool,
    /// Free-form facts of the file.
    pub metadata: bool,
    /// A program, of this dialect.
    pub program: Option<Dialect>,
    /// Names of tensors.
    pub names: bool,
    /// Tensors without names, if none has one.
    pub unnamed: bool,
    /// LoD offsets.
    pub lod: bool,
    /// Rows of a larger tensor.
    pub selected_rows: bool,
    /// Row-sparse and CSR tensors.
    pub sparse: bool,
    /// COO tensors.
    pub coo: bool,
    /// Tensors of texts.
    pub strings: bool,
    /// Tables of tokens.
    pub vocabulary: bool,
    /// Whether it has a code for an element type.
    pub dtype: fn(DType) -> bool,
    /// The element type of the same size as which the framework itself keeps one that has no code.
    pub stand_in: fn(DType) -> Option<DType>,
}

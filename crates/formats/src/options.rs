//! Options for opening and writing models.

use std::sync::Arc;

use lodstone_model::{DType, Dialect, Limits};
use lodstone_store::{Blob, Dir, Links, Location, Progress, SourceFile};

use crate::error::Result;
use crate::seal::entries::{ModelDir, Seals};

/// Options for opening a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The file or directory of the parameters, if it is not the one that the format implies.
    pub params: Option<Location>,
    /// Limits for readers.
    pub limits: Limits,
    /// Whether files may be memory-mapped.
    pub mmap: bool,
    /// Whether bytes of sealed models are verified against their checksums on first read, and models
    /// of which only some files are sealed are rejected.
    pub verify: bool,
    /// Whether names inside a model may pass symlinks that lead out of its directory.
    pub links: Links,
    /// The name of the program to open as the main one, without the others.
    pub program: Option<String>,
    /// Whether only the tensors that are stored are read, if the metadata of a file lists other names of these. By
    /// default, they are read as tensors that share bytes.
    pub as_stored: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let (limits, links) = (Limits::default(), Links::default());
        Self {
            params: None,
            limits,
            mmap: true,
            verify: true,
            links,
            program: None,
            as_stored: false,
        }
    }
}

impl OpenOptions {
    /// Returns the options with a progress handle, through which opening can be cancelled.
    #[must_use]
    pub fn stopped_by(mut self, progress: &Progress) -> Self {
        self.limits.progress = progress.clone();
        self
    }

    /// Opens a file at a path from the user.
    ///
    /// # Errors
    /// The errors of [`SourceFile::open`]; fails if the file does not have its sealed size, or the seal is damaged.
    pub fn file(&self, path: &Location) -> Result<Blob> {
        let file = SourceFile::open(path, self.mmap)?;
        let file = match self.seals() {
            Some(seals) => seals.checked(file)?,
            None => file,
        };
        Ok(Blob::file(Arc::new(file)))
    }

    /// Opens a directory in which names from a model are resolved.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened.
    pub fn dir(&self, path: &Location) -> Result<ModelDir> {
        Ok(ModelDir::new(Dir::open(path, self.links, self.mmap)?, self.seals()))
    }

    /// Returns the seals for verification, if it is enabled.
    pub(crate) fn seals(&self) -> Option<Seals> {
        self.verify.then(Seals::default)
    }
}

/// Options for writing a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Whether to keep properties of the source files that the format leaves open: their
    /// names, their number, the layout of their records.
    pub same: bool,
    /// The alignment of elements in bytes, where the format leaves it open; 0 for the
    /// convention of the framework.
    pub align: u64,
    /// Maximum file size, for formats that can be split.
    pub max_shard_size: Option<u64>,
    /// The location of elements, for formats that can store them in separate files; by default inside the model, or
    /// where they were if [`same`](Self::same) is set.
    pub external_data: Option<ExternalData>,
    /// Whether to store tensors that share their bytes repeatedly, even if the format can record that they share them.
    pub repeats: bool,
    /// Whether to seal the written files in the same commit.
    pub seal: bool,
    /// Whether to fail instead of replacing an existing file.
    pub no_clobber: bool,
    /// Progress in bytes, and cancellation.
    pub progress: Progress,
}

lodstone_model::with_fields!(OpenOptions {
    with_params(params: Option<Location>),
    with_limits(limits: Limits),
    with_mmap(mmap: bool),
    with_verify(verify: bool),
    with_links(links: Links),
    with_program(program: Option<String>),
    with_as_stored(as_stored: bool),
});

lodstone_model::with_fields!(WriteOptions {
    with_same(same: bool),
    with_align(align: u64),
    with_max_shard_size(max_shard_size: Option<u64>),
    with_external_data(external_data: Option<ExternalData>),
    with_repeats(repeats: bool),
    with_seal(seal: bool),
    with_no_clobber(no_clobber: bool),
    with_progress(progress: Progress),
});

/// The location of tensor elements, for formats that can store them in separate files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalData {
    /// In the model file.
    Inside,
    /// In one separate file for all tensors.
    One,
    /// In a separate file for each tensor.
    Each,
}

/// What a format can represent. Anything else is a loss, which the user must allow.
#[derive(Clone, Copy, Debug)]
pub struct Holds {
    /// Tensors.
    pub tensors: bool,
    /// Free-form metadata.
    pub metadata: bool,
    /// A program, of this dialect.
    pub program: Option<Dialect>,
    /// The startup program of such a program, which fills its parameters.
    pub startup: bool,
    /// Tensor names.
    pub names: bool,
    /// Unnamed tensors, if no tensor has a name.
    pub unnamed: bool,
    /// LoD offsets.
    pub lod: bool,
    /// Selected rows.
    pub selected_rows: bool,
    /// Row-sparse and CSR tensors.
    pub sparse: bool,
    /// COO tensors.
    pub coo: bool,
    /// String tensors.
    pub strings: bool,
    /// Vocabularies.
    pub vocabulary: bool,
    /// Returns whether the format has a code for an element type.
    pub dtype: fn(DType) -> bool,
    /// Returns the element type of the same size as which the framework itself stores one without a code.
    pub stand_in: fn(DType) -> Option<DType>,
}

impl Holds {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self {
        tensors: false,
        metadata: false,
        program: None,
        startup: false,
        names: false,
        unnamed: false,
        lod: false,
        selected_rows: false,
        sparse: false,
        coo: false,
        strings: false,
        vocabulary: false,
        dtype: |_| false,
        stand_in: |_| None,
    };
}

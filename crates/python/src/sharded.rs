//! Checkpoints that several processes write.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use lodstone::checkpoint::{Error, Publication, ShardReader, write_items, write_shard};
use lodstone::formats::{SealedFile, Shard};
use lodstone::store::Error as StoreError;
use lodstone::{Blob, DType, Location, Progress};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::buffer::{Buffer, Held, Target, blob};
use crate::errors::{raise_checkpoint, raise_store};
use crate::tensor::Tensor;
use crate::work::run;

/// A checkpoint in progress, in the process that publishes it.
#[pyclass(frozen, module = "lodstone")]
#[derive(Debug)]
pub(crate) struct ShardPublication(Mutex<Option<Publication>>);

#[pymethods]
impl ShardPublication {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, chunked: bool) -> PyResult<Self> {
        let begun = py.detach(|| Publication::begin(&path, chunked, Progress::default()));
        let publication = begun.map_err(|error| raise_checkpoint(py, error))?;
        Ok(Self(Mutex::new(Some(publication))))
    }

    /// The directory into which all processes write.
    fn staged(&self, py: Python<'_>) -> PyResult<String> {
        let publication = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let publication = publication.as_ref().ok_or_else(ended)?;
        let staged = publication.staged().map_err(|error| raise_checkpoint(py, error))?;
        Ok(staged.display().to_string())
    }

    /// Publishes the files, of which each is described by what its process returned, and the index.
    fn publish(
        &self,
        py: Python<'_>,
        format: &str,
        index: &str,
        bytes: &[u8],
        files: Vec<String>,
    ) -> PyResult<()> {
        let file = |text: &String| serde_json::from_str::<SealedFile>(text);
        let files: Result<Vec<_>, _> = files.iter().map(file).collect();
        let files = files.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let published = run(py, None, |_| {
            let publication = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            publication.map(|it| it.publish(format, (index, bytes), files))
        })?;
        published.ok_or_else(ended)?.map_err(|error| raise_checkpoint(py, error))
    }

    /// Removes what has been written, unless it is published.
    fn discard(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

fn ended() -> PyErr {
    PyValueError::new_err("the checkpoint was published or discarded")
}

/// Writes tensors to a file in a staged directory, or, if they are `chunked`, to the chunks beside it; `load` returns a tensor by
/// its index. Returns the checksums of the file.
#[pyfunction]
#[pyo3(name = "write_shard")]
pub(crate) fn write_shard_file(
    py: Python<'_>,
    place: (PathBuf, bool),
    name: &str,
    tensors: Vec<(String, String, Vec<u64>)>,
    metadata: BTreeMap<String, String>,
    load: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let shard = |(name, dtype, shape): (String, String, Vec<u64>)| {
        let what = || PyTypeError::new_err(format!("`{name}`: unknown element type `{dtype}`"));
        let dtype = DType::from_name(&dtype).ok_or_else(what)?;
        Ok::<_, PyErr>(Shard { name, dtype, shape })
    };
    let tensors = tensors.into_iter().map(shard).collect::<PyResult<Vec<_>>>()?;
    let load = load.clone().unbind();
    let written = run(py, None, |progress| {
        let load = |index: usize| {
            Python::attach(|py| {
                let tensor = load.call1(py, (index,))?;
                let tensor = tensor.bind(py).cast::<Tensor>()?.get().tensor().data.clone();
                Ok::<_, PyErr>(tensor)
            })
            .map_err(Into::into)
        };
        let (staged, chunked) = (Location::from(&place.0), place.1);
        write_shard((&staged, chunked), name, &tensors, &metadata, load, progress)
    })?;
    described(py, written)
}

/// Writes values to a file in a staged directory. Returns the checksums of the file.
#[pyfunction]
#[pyo3(name = "write_items")]
pub(crate) fn write_item_file(
    py: Python<'_>,
    staged: PathBuf,
    name: &str,
    items: Vec<(String, Bound<'_, PyAny>)>,
) -> PyResult<String> {
    let item = |(name, bytes): (String, Bound<'_, PyAny>)| Ok::<_, PyErr>((name, blob(&bytes)?));
    let items = items.into_iter().map(item).collect::<PyResult<Vec<_>>>()?;
    let written =
        run(py, None, |progress| write_items(&Location::from(&staged), name, &items, progress))?;
    described(py, written)
}

/// Returns the JSON of the checksums of a file, or raises the exception that a callback raised.
fn described(py: Python<'_>, written: Result<SealedFile, Error>) -> PyResult<String> {
    let file = written.map_err(|error| match error {
        Error::Load(inner) => match inner.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(inner) => raise_checkpoint(py, Error::Load(inner)),
        },
        error => raise_checkpoint(py, error),
    })?;
    serde_json::to_string(&file).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Reads ranges of the files of a checkpoint.
#[pyclass(frozen, module = "lodstone")]
#[derive(Debug)]
pub(crate) struct ShardFiles(Mutex<ShardReader>);

#[pymethods]
impl ShardFiles {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, verify: Option<bool>) -> PyResult<Self> {
        let opened = py.detach(|| ShardReader::open(&path, verify));
        Ok(Self(Mutex::new(opened.map_err(|error| raise_checkpoint(py, error))?)))
    }

    /// Returns bytes of a file, writable without effect on the file.
    fn read(
        &self,
        py: Python<'_>,
        name: &str,
        offset: u64,
        len: Option<u64>,
    ) -> PyResult<Option<Buffer>> {
        let range = self.range(py, name, offset, len)?;
        if range.is_empty() {
            return Ok(None);
        }
        let (memory, within) =
            run(py, None, |_| range.private())?.map_err(|error| raise_store(py, error))?;
        Ok(Held::own(memory, vec![within]).pop().map(Buffer))
    }

    /// Fills writable buffers, each with bytes of a file from an offset on.
    fn read_to(
        &self,
        py: Python<'_>,
        targets: Vec<(String, u64, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let mut read = Vec::with_capacity(targets.len());
        for (name, offset, target) in targets {
            let target = Target::of(&target)?;
            read.push((self.range(py, &name, offset, Some(target.len() as u64))?, target));
        }
        run(py, None, |progress| fill(&mut read, progress))?.map_err(|error| raise_store(py, error))
    }
}

/// Fills buffers: together, unless two of them have bytes in common.
fn fill(targets: &mut [(Blob, Target)], progress: &Progress) -> Result<(), StoreError> {
    targets.sort_by_key(|(_, target)| target.range().start);
    let overlaps = |pair: &[(Blob, Target)]| matches!(pair, [(_, a), (_, b)] if a.range().end > b.range().start);
    let together = match targets.windows(2).any(overlaps) {
        true => 1,
        false => targets.len().max(1),
    };
    targets.chunks_mut(together).try_for_each(|targets| {
        let targets = targets.iter_mut().map(|(blob, target)| (blob.clone(), target.bytes()));
        Blob::fill(targets.collect(), progress)
    })
}

impl ShardFiles {
    fn range(&self, py: Python<'_>, name: &str, offset: u64, len: Option<u64>) -> PyResult<Blob> {
        let range = py.detach(|| {
            let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            files.range(name, offset, len)
        });
        range.map_err(|error| raise_checkpoint(py, error))
    }
}

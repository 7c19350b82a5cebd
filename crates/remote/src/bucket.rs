//! Object stores: Amazon S3, Google Cloud Storage, Azure Blob Storage and compatible ones.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt, stream};
use lodstone_store::Entry;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, PutResult, UpdateVersion,
};

use crate::Fault;
use crate::backend::{Answer, Version, bytes_of};
use crate::http::Transport;

/// A bucket, or a container of Azure.
#[derive(Clone)]
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    parts: Arc<dyn MultipartStore>,
    /// The client, if the store completes uploads conditionally when a request has `If-None-Match`.
    conditional: Option<Arc<Transport>>,
}

/// How an object is put.
#[derive(Clone, Debug)]
pub(crate) enum Put {
    /// Create or replace it.
    Any,
    /// Create it.
    New,
    /// Replace this version of it.
    Over(UpdateVersion),
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bucket({})", self.store)
    }
}

impl Bucket {
    pub(crate) fn new<S: ObjectStore + MultipartStore>(
        store: Arc<S>,
        conditional: Option<Arc<Transport>>,
    ) -> Self {
        Self { store: Arc::clone(&store) as _, parts: store, conditional }
    }

    pub(crate) async fn get(
        &self,
        key: &str,
        range: Range<u64>,
        known: Option<&Version>,
    ) -> Result<Answer, Fault> {
        let path = path_of(key)?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: known.and_then(Version::strong_tag).map(str::to_owned),
            ..GetOptions::default()
        };
        let result = match self.store.get_opts(&path, options).await {
            Ok(result) => result,
            Err(Error::Precondition { .. }) => {
                return Err(Fault::Changed("it was replaced by another object".to_owned()));
            }
            // An empty object has no ranges.
            Err(error) if known.is_none() && range.start == 0 => {
                return self.empty(&path, error).await;
            }
            Err(error) => return Err(fault_of(error)),
        };
        let version = version_of(&result.meta);
        if let Some(known) = known {
            known.expect(&version)?;
        }
        let expected = range.start..range.end.min(version.size);
        if result.range != expected {
            let found = bytes_of(&result.range);
            return Err(Fault::Range { expected: bytes_of(&expected), found });
        }
        let wrong = |found: usize| Fault::Length {
            range: bytes_of(&expected),
            expected: expected.end - expected.start,
            found: found as u64,
        };
        let size = usize::try_from(expected.end - expected.start).map_err(|_| wrong(0))?;
        let mut chunks = result.into_stream();
        let mut bytes = BytesMut::with_capacity(size);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(fault_of)?;
            if bytes.len() + chunk.len() > size {
                return Err(wrong(bytes.len() + chunk.len()));
            }
            bytes.extend_from_slice(&chunk);
        }
        match bytes.len() == size {
            true => Ok(Answer { start: expected.start, bytes: bytes.freeze(), version }),
            false => Err(wrong(bytes.len())),
        }
    }

    /// Returns the object if it is empty, or else the error.
    async fn empty(&self, path: &Path, error: Error) -> Result<Answer, Fault> {
        let fault = fault_of(error);
        if !matches!(fault, Fault::Network(_) | Fault::Status { .. }) {
            return Err(fault);
        }
        match self.store.head(path).await {
            Ok(meta) if meta.size == 0 => {
                Ok(Answer { start: 0, bytes: Bytes::new(), version: version_of(&meta) })
            }
            _ => Err(fault),
        }
    }

    /// Returns the version of an object, with the name by which it can be replaced.
    pub(crate) async fn head(&self, key: &str) -> Result<(Version, UpdateVersion), Fault> {
        let meta = self.store.head(&path_of(key)?).await.map_err(fault_of)?;
        let update = UpdateVersion { e_tag: meta.e_tag.clone(), version: meta.version.clone() };
        Ok((version_of(&meta), update))
    }

    pub(crate) async fn list(&self, key: &str) -> Result<Option<Vec<Entry>>, Fault> {
        let path = path_of(key)?;
        let found = self.store.list_with_delimiter(Some(&path)).await.map_err(fault_of)?;
        let name = |path: &Path| path.filename().map(str::to_owned);
        let files = found.objects.iter().filter_map(|object| name(&object.location));
        let files = files.map(|name| Entry { name, is_dir: false });
        let directories = found.common_prefixes.iter().filter_map(name);
        let directories = directories.map(|name| Entry { name, is_dir: true });
        let entries: Vec<Entry> = files.chain(directories).collect();
        Ok((!entries.is_empty() || key.is_empty()).then_some(entries))
    }

    pub(crate) async fn is_dir(&self, key: &str) -> Result<bool, Fault> {
        if key.is_empty() {
            return Ok(true);
        }
        let first = self.store.list(Some(&path_of(key)?)).next().await;
        Ok(first.transpose().map_err(fault_of)?.is_some())
    }

    pub(crate) async fn everything(&self, key: &str, max: usize) -> Result<Vec<String>, Fault> {
        let objects = self.store.list(Some(&path_of(key)?)).take(max.saturating_add(1));
        let keys = objects.map_ok(|object| object.location.to_string());
        keys.try_collect().await.map_err(fault_of)
    }

    /// Puts an object; returns the name by which it can be replaced.
    ///
    /// # Errors
    /// [`Fault::Exists`] if it exists and must not; [`Fault::Changed`] if it is not the version to be replaced.
    pub(crate) async fn put(
        &self,
        key: &str,
        bytes: Bytes,
        put: Put,
    ) -> Result<UpdateVersion, Fault> {
        let mode = match put {
            Put::Any => PutMode::Overwrite,
            Put::New => PutMode::Create,
            Put::Over(version) => PutMode::Update(version),
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        let result = self.store.put_opts(&path_of(key)?, PutPayload::from(bytes), options).await;
        let PutResult { e_tag, version, .. } = result.map_err(fault_of)?;
        Ok(UpdateVersion { e_tag, version })
    }

    /// Begins a multipart upload; returns its id.
    pub(crate) async fn begin(&self, key: &str) -> Result<String, Fault> {
        self.parts.create_multipart(&path_of(key)?).await.map_err(fault_of)
    }

    /// Uploads a part.
    pub(crate) async fn part(
        &self,
        key: &str,
        upload: &str,
        index: usize,
        bytes: Bytes,
    ) -> Result<PartId, Fault> {
        let (path, id) = (path_of(key)?, upload.to_owned());
        self.parts.put_part(&path, &id, index, PutPayload::from(bytes)).await.map_err(fault_of)
    }

    /// Makes an uploaded object visible.
    ///
    /// With `new`, it must not exist. Amazon S3 and compatible stores compare that in the same step; others before it.
    ///
    /// # Errors
    /// [`Fault::Exists`] if it exists and must not.
    pub(crate) async fn complete(
        &self,
        key: &str,
        upload: &str,
        parts: Vec<PartId>,
        new: bool,
    ) -> Result<(), Fault> {
        let (path, id) = (path_of(key)?, upload.to_owned());
        if new {
            match self.store.head(&path).await {
                Ok(_) => return Err(Fault::Exists),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(fault_of(error)),
            }
            if let Some(transport) = &self.conditional {
                transport.create_only(upload);
            }
        }
        match self.parts.complete_multipart(&path, &id, parts).await {
            Ok(_) => Ok(()),
            Err(Error::Precondition { .. }) => Err(Fault::Exists),
            Err(error) => Err(fault_of(error)),
        }
    }

    /// Removes the parts of an upload.
    pub(crate) async fn abort(&self, key: &str, upload: &str) -> Result<(), Fault> {
        let (path, id) = (path_of(key)?, upload.to_owned());
        self.parts.abort_multipart(&path, &id).await.map_err(fault_of)
    }

    /// Removes objects; those that do not exist are skipped.
    pub(crate) async fn delete(&self, keys: Vec<String>) -> Result<(), Fault> {
        let paths = keys.iter().map(|key| path_of(key)).collect::<Result<Vec<_>, _>>()?;
        let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
        let mut deleted = self.store.delete_stream(paths);
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(fault_of(error)),
            }
        }
        Ok(())
    }
}

fn path_of(key: &str) -> Result<Path, Fault> {
    Path::parse(key).map_err(|error| Fault::Configuration(error.to_string()))
}

fn version_of(meta: &ObjectMeta) -> Version {
    let ObjectMeta { e_tag, size, last_modified, .. } = meta;
    let seconds = last_modified.timestamp();
    Version { tag: e_tag.clone(), modified: Some(last_modified.to_string()), seconds, size: *size }
}

/// Returns the fault of an error: the one that our client has wrapped in it, if there is one.
fn fault_of(error: Error) -> Fault {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = source {
        match cause.downcast_ref() {
            Some(Fault::Private { host, address }) => {
                return Fault::Private { host: host.clone(), address: *address };
            }
            Some(Fault::Silence(seconds)) => return Fault::Silence(*seconds),
            Some(Fault::Limit(limit)) => return Fault::Limit(limit.clone()),
            Some(Fault::Configuration(what)) => return Fault::Configuration(what.clone()),
            Some(Fault::Unreachable(what)) => return Fault::Unreachable(what.clone()),
            Some(Fault::Network(what)) => return Fault::Network(what.clone()),
            _ => source = cause.source(),
        }
    }
    let detail = |error: &Error| format!(": {}", short(&error.to_string()));
    match &error {
        Error::NotFound { .. } => Fault::Missing,
        Error::AlreadyExists { .. } => Fault::Exists,
        Error::Precondition { .. } => {
            Fault::Changed("it was replaced by another object".to_owned())
        }
        Error::PermissionDenied { .. } => Fault::Denied { status: 403, detail: detail(&error) },
        Error::Unauthenticated { .. } => Fault::Denied { status: 401, detail: detail(&error) },
        Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            Fault::Unsupported("the object store does not support this operation")
        }
        _ => Fault::Network(short(&error.to_string())),
    }
}

/// Shortens a message that may quote a whole response.
fn short(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(600).collect()
}

//! The lock of a directory: an object that its writer creates, renews every minute, and removes.
//!
//! It keeps two writers from working at the same time. What they publish does not depend on it: serials are created, not
//! replaced. The lock of a writer that was killed expires after five minutes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lodstone_store::{Error, Held, Result};
use object_store::UpdateVersion;
use tokio::sync::Mutex;

use crate::Fault;
use crate::bucket::Put;
use crate::store::{LOCK, RemoteStore, Shared};

/// The time between renewals.
const RENEWAL: Duration = Duration::from_secs(60);

/// The time after which a lock that was not renewed is nobody's. The clocks of this machine and the server may differ by
/// less.
const EXPIRY: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(crate) struct Lock {
    store: RemoteStore,
    path: PathBuf,
    held: Arc<HeldLock>,
}

#[derive(Debug)]
struct HeldLock {
    key: String,
    owner: u64,
    /// The version of the object, which renewals replace.
    version: Mutex<(UpdateVersion, u64)>,
    is_lost: AtomicBool,
}

impl Lock {
    /// Takes the lock of a directory, without waiting.
    ///
    /// # Errors
    /// [`Error::Locked`] if another writer holds it.
    pub(crate) fn take(store: &RemoteStore, directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK);
        let (key, owner) = (store.key(&path), RandomState::new().build_hasher().finish());
        let name = key.clone();
        let taken = store.call(|shared| async move {
            let bucket = shared.backend.bucket()?;
            match bucket.put(&name, content(owner, 0), Put::New).await {
                Err(Fault::Exists) => {}
                taken => return taken,
            }
            let (found, version) = bucket.head(&name).await?;
            if !is_expired(found.seconds) {
                return Err(Fault::Exists);
            }
            // Of several writers that find it expired, one replaces it.
            bucket.put(&name, content(owner, 0), Put::Over(version)).await
        });
        let version = taken.map_err(|fault| match fault {
            Fault::Exists | Fault::Changed(_) | Fault::Missing => {
                Error::Locked { path: directory.to_path_buf() }
            }
            fault => fault.at("lock", directory),
        })?;
        let held = HeldLock {
            key,
            owner,
            version: Mutex::new((version, 0)),
            is_lost: AtomicBool::new(false),
        };
        let held = Arc::new(held);
        store.0.runtime.spawn(renew(Arc::downgrade(&store.0), Arc::downgrade(&held)));
        Ok(Self { store: store.clone(), path, held })
    }
}

/// The contents of a lock. Each renewal has others, so that it has another entity tag.
fn content(owner: u64, renewals: u64) -> Bytes {
    let process = std::process::id();
    format!("{{\"owner\": \"{owner:016x}\", \"process\": {process}, \"renewals\": {renewals}}}\n")
        .into()
}

fn is_expired(seconds: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let then = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    now.checked_sub(then).is_some_and(|age| age > EXPIRY)
}

/// Renews a lock until it is dropped.
async fn renew(store: std::sync::Weak<Shared>, held: std::sync::Weak<HeldLock>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let (Some(store), Some(held)) = (store.upgrade(), held.upgrade()) else { return };
        let Ok(bucket) = store.backend.bucket() else { return };
        let mut version = held.version.lock().await;
        let (over, renewals) = (version.0.clone(), version.1 + 1);
        match bucket.put(&held.key, content(held.owner, renewals), Put::Over(over)).await {
            Ok(new) => *version = (new, renewals),
            Err(Fault::Changed(_) | Fault::Missing | Fault::Exists) => {
                held.is_lost.store(true, Ordering::Relaxed);
                return;
            }
            // The next renewal may succeed before it expires.
            Err(_) => {}
        }
    }
}

impl Held for Lock {
    fn check(&self) -> Result<()> {
        let held = Arc::clone(&self.held);
        let checked = self.store.call(|shared| async move {
            let version = held.version.lock().await;
            let (_, found) = shared.backend.bucket()?.head(&held.key).await?;
            let is_ours = found.e_tag == version.0.e_tag && !held.is_lost.load(Ordering::Relaxed);
            match is_ours {
                true => Ok(()),
                false => Err(Fault::Changed("another writer has taken the lock".to_owned())),
            }
        });
        checked.map_err(|fault| fault.at("inspect", &self.path))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let (shared, held) = (Arc::clone(&self.store.0), Arc::clone(&self.held));
        self.store.0.runtime.clean_up(async move {
            let version = held.version.lock().await;
            let Ok(bucket) = shared.backend.bucket() else { return };
            // A lock that somebody else has taken stays.
            if let Ok((_, found)) = bucket.head(&held.key).await
                && found.e_tag == version.0.e_tag
            {
                let _ = bucket.delete(vec![held.key.clone()]).await;
            }
        });
        self.store.forget();
    }
}

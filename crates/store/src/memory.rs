//! Memory that is filled once and shared after that.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use memmap2::MmapMut;

use crate::blob::to_usize;
use crate::{Error, Result};

/// Memory of a fixed size, filled with zeros.
#[derive(Debug)]
pub(crate) enum Memory {
    Heap(Vec<u8>),
    /// In pages of its own, large ones where the system has them: the time to load a model is that
    /// of its page faults, of which there are 512 times fewer then.
    Pages(MmapMut),
}

/// From this size on memory has pages of its own.
const PAGES: usize = 4 << 20;

impl Memory {
    /// # Errors
    /// If there is not so much.
    pub(crate) fn new(len: u64) -> Result<Self> {
        let len = to_usize(len);
        if len < PAGES {
            return Ok(Self::Heap(vec![0; len]));
        }
        let pages = MmapMut::map_anon(len).map_err(|source| Error::Memory { len, source })?;
        // Systems without large pages refuse, and give the others.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Ok(Self::Pages(pages))
    }

    pub(crate) fn freeze(self) -> Bytes {
        match self {
            Self::Heap(bytes) => bytes.into(),
            Self::Pages(pages) => Bytes::from_owner(pages),
        }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Pages(pages) => pages,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Pages(pages) => pages,
        }
    }
}

//! Change detection for programs.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use std::{fmt, ptr};

use crate::{Dialect, Topology};

/// A program: a [`Topology`], to which it dereferences, and its [`Revision`].
///
/// Every mutable access drops the revision before anything can change. So two programs of one revision have the same
/// topology, and code that prepares programs can compare revisions instead of contents: see
/// [`revision`](Self::revision).
#[derive(Clone)]
pub struct Program {
    topology: Topology,
    /// Created on first read; dropped by every mutable access.
    revision: OnceLock<Revision>,
}

/// The identity of one state of a program.
///
/// A revision is the address of an allocation that it keeps alive, so that no other revision can equal it while it
/// exists: no counter can wrap around, and no hash can collide.
#[derive(Clone, Debug)]
pub struct Revision(Arc<()>);

impl PartialEq for Revision {
    fn eq(&self, other: &Self) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl Eq for Revision {}

impl Program {
    /// Creates a program of `dialect` without blocks.
    pub fn new(dialect: Dialect) -> Self {
        Topology::new(dialect).into()
    }

    /// Returns the revision: while it stays equal, the program is unchanged. A clone has the same revision until either
    /// program changes.
    pub fn revision(&self) -> Revision {
        self.revision.get_or_init(|| Revision(Arc::new(()))).clone()
    }

    /// Returns the topology.
    pub fn into_topology(self) -> Topology {
        self.topology
    }
}

impl From<Topology> for Program {
    fn from(topology: Topology) -> Self {
        Self { topology, revision: OnceLock::new() }
    }
}

impl Deref for Program {
    type Target = Topology;

    fn deref(&self) -> &Topology {
        &self.topology
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Topology {
        self.revision.take();
        &mut self.topology
    }
}

/// Compares topologies and ignores revisions.
impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.topology == other.topology
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.topology.fmt(f)
    }
}

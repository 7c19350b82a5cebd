//! What tells whether a program was changed.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use std::{fmt, ptr};

use crate::{Dialect, Topology};

/// A program: a [`Topology`], to which it dereferences, and a [`Revision`] of it.
///
/// Every mutable access drops the revision, before anything can be changed through it. So two programs of one revision
/// have one topology, and whoever prepared a program need not compare it to know that it is the same: see
/// [`revision`](Self::revision).
#[derive(Clone)]
pub struct Program {
    topology: Topology,
    /// Made when it is first read; dropped by every mutable access.
    revision: OnceLock<Revision>,
}

/// Identifies one state of a program.
///
/// A revision is the address of an allocation that it keeps alive, so that no other one can be equal to it while it
/// exists: there is no counter that could wrap around, and no hash that could collide.
#[derive(Clone, Debug)]
pub struct Revision(Arc<()>);

impl PartialEq for Revision {
    fn eq(&self, other: &Self) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl Eq for Revision {}

impl Program {
    /// A program of a dialect, without blocks.
    pub fn new(dialect: Dialect) -> Self {
        Topology::new(dialect).into()
    }

    /// The revision: as long as it stays equal, the program is what it was. A clone has the same one, until one of the
    /// two is changed.
    pub fn revision(&self) -> Revision {
        self.revision.get_or_init(|| Revision(Arc::new(()))).clone()
    }

    /// The topology by itself.
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

/// Equal by what they are, whatever their revisions.
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

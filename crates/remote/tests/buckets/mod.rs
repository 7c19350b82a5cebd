//! Object stores: one in memory, and the one that `LODSTONE_OBJECT_STORE` names, such as `s3://bucket/tests`.
//!
//! `cargo xtask interop objects` sets the variable.

mod checkpoints;
mod conformance;
mod writing;

use std::sync::Arc;

use lodstone_remote::Options;
use lodstone_store::Location;
use object_store::memory::InMemory;

/// Opens the same directory anew, as another process would.
type Open<'a> = dyn Fn() -> Location + Sync + 'a;

/// Returns the root of a store in memory.
fn in_memory(store: &Arc<InMemory>) -> Location {
    lodstone_remote::object_store("memory://bucket", Arc::clone(store), &Options::default())
        .unwrap()
}

/// Calls `check` with an empty directory of each store.
fn each(name: &str, check: impl Fn(&Open<'_>)) {
    let store = Arc::new(InMemory::new());
    check(&|| in_memory(&store).join(name));
    if let Ok(address) = std::env::var("LODSTONE_OBJECT_STORE") {
        let address = format!("{address}/{name}");
        check(&|| lodstone_remote::location(&address, &Options::default()).unwrap());
    }
}

//! All fuzz targets: the variable `LODSTONE_FUZZ_TARGET` has the name of the one that runs. Without it, the names of the
//! targets are printed, each with its files.
//!
//! The checks are those of the replay in `crates/lodstone/tests/fuzz.rs`.
#![no_main]

#[path = "../../crates/lodstone/tests/fuzzing/mod.rs"]
mod fuzzing;
#[path = "../../crates/formats/tests/support/mod.rs"]
mod support;

use std::sync::LazyLock;

use fuzzing::{Target, check, targets};

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let Ok(name) = std::env::var("LODSTONE_FUZZ_TARGET") else {
        for target in targets() {
            println!("{} {}", target.name, target.files.join(" "));
        }
        std::process::exit(0);
    };
    let target = targets().into_iter().find(|target| target.name == name);
    target.unwrap_or_else(|| panic!("`{name}` is not a fuzz target"))
});

libfuzzer_sys::fuzz_target!(
    init: {
        LazyLock::force(&TARGET);
    },
    |input: &[u8]| {
        check(&TARGET, input);
    }
);

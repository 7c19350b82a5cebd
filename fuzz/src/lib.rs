//! What fuzz targets share: the checks are those of the replay in `crates/lodstone/tests/fuzz.rs`.

#[path = "../../crates/lodstone/tests/fuzzing/mod.rs"]
pub mod fuzzing;
#[path = "../../crates/formats/tests/support/mod.rs"]
pub mod support;

pub use libfuzzer_sys;

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;

/// The target of that name.
///
/// # Panics
/// If there is none.
pub fn named(name: &str) -> &'static fuzzing::Target {
    let mut targets = fuzzing::TARGETS.iter();
    targets.find(|target| target.name == name).expect("a target of that name")
}

/// A fuzz target of the table.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|input: &[u8]| {
            $crate::fuzzing::check($crate::named($name), input);
        });
    };
}

//! Conformance tests for implementations of [`Store`](lodstone_store::Store).
//!
//! ```
//! use lodstone_store::MemoryStore;
//!
//! for case in lodstone_conformance::CASES {
//!     // Each case starts with an empty directory.
//!     let store = MemoryStore::default();
//!     (case.check)(&store.location(""));
//! }
//! ```
//!
//! A store with links, modes or interrupted processes needs its own tests for these; `system` disturbs single
//! system calls of a program, on Linux.

mod publishing;
mod reading;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod system;

use lodstone_store::{Commit, Location, Output, Progress, Result};

/// A requirement for stores.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The requirement, as a sentence with underscores.
    pub name: &'static str,
    /// The test, which gets an empty directory and panics on a violation.
    pub check: fn(&Location),
}

macro_rules! cases {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($(Case { name: stringify!($name), check: $module::$name },)+)+]
    };
}

/// All requirements for stores.
pub const CASES: &[Case] = cases! {
    reading:
        ranges_of_a_file_are_read,
        a_range_beyond_the_end_is_an_error,
        shared_bytes_equal_read_bytes,
        irregular_files_cannot_be_opened,
        a_replaced_file_has_another_identity,
        an_open_file_keeps_its_content,
        checksums_find_a_flipped_bit,
        parts_of_files_are_concatenated,
        entries_are_listed_and_reserved_names_are_not,
        names_do_not_leave_a_directory,
        files_below_a_directory_are_listed,
        locations_have_the_methods_of_paths;
    publishing:
        a_file_appears_when_it_is_published,
        a_file_is_replaced,
        a_dropped_commit_leaves_nothing,
        a_failed_write_leaves_the_old_contents,
        a_cancelled_write_leaves_the_old_contents,
        bytes_are_patched,
        staged_files_can_be_opened,
        a_directory_appears_whole,
        an_empty_directory_is_created,
        several_files_are_replaced_atomically_or_not_at_all,
        new_files_are_added_to_a_directory,
        names_are_unique_and_inside_the_directory,
        an_obstacle_is_an_error,
        a_failure_at_any_step_leaves_the_old_or_the_new,
        the_file_that_refers_to_others_is_last,
        sealed_files_are_not_replaced,
        concurrent_writers_leave_the_files_of_one,
        a_directory_has_one_writer,
        a_directory_is_removed;
};

/// Writes files into a directory, which may not exist yet.
fn write(root: &Location, files: &[(&str, &[u8])]) -> Result<()> {
    let mut commit = Commit::directory(root, Progress::default())?;
    for (name, bytes) in files {
        commit.write(name, |out: &mut Output| out.put(bytes))?;
    }
    commit.publish()
}

/// Writes one file.
fn put(path: &Location, bytes: &[u8]) -> Result<()> {
    let (mut commit, name) = Commit::file(path, Progress::default())?;
    commit.write(&name, |out: &mut Output| out.put(bytes))?;
    commit.publish()
}

/// Returns the bytes of a file.
fn read(path: &Location) -> Vec<u8> {
    let blob = lodstone_store::Blob::open(path, true).expect("a file");
    blob.read().expect("readable").to_vec()
}

/// Returns the names of all visible entries of a directory; directories end in a slash.
fn names(root: &Location) -> Vec<String> {
    let entries = root.list().expect("a directory");
    entries.into_iter().map(|it| if it.is_dir { it.name + "/" } else { it.name }).collect()
}

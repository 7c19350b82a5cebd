//! What every [`Store`](lodstone_store::Store) has to do, as tests.
//!
//! ```
//! use lodstone_store::MemoryStore;
//!
//! for case in lodstone_conformance::CASES {
//!     // Each begins in an empty directory.
//!     let store = MemoryStore::default();
//!     (case.check)(&store.location(""));
//! }
//! ```
//!
//! A store with links, modes or interrupted processes has tests of its own for these.

mod publishing;
mod reading;

use lodstone_store::{Commit, Location, Output, Progress, Result};

/// One thing that a store has to do.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What it has to do, in a sentence with underscores.
    pub name: &'static str,
    /// Panics if the store does not; gets an empty directory.
    pub check: fn(&Location),
}

macro_rules! cases {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($(Case { name: stringify!($name), check: $module::$name },)+)+]
    };
}

/// Everything that a store has to do.
pub const CASES: &[Case] = cases! {
    reading:
        ranges_of_a_file_are_read,
        a_range_beyond_the_end_is_an_error,
        what_is_shared_is_what_is_read,
        what_is_no_file_cannot_be_opened,
        a_file_that_was_replaced_is_another,
        an_open_file_keeps_its_content,
        checksums_find_a_flipped_bit,
        parts_of_files_are_read_end_to_end,
        entries_are_listed_and_reserved_names_are_not,
        names_do_not_leave_a_directory,
        files_below_a_directory_are_listed,
        locations_are_made_of_paths;
    publishing:
        a_file_appears_when_it_is_published,
        a_file_is_replaced,
        what_is_dropped_leaves_nothing,
        what_fails_leaves_what_was_there,
        what_is_cancelled_leaves_what_was_there,
        bytes_are_patched,
        staged_files_can_be_opened,
        a_directory_appears_whole,
        an_empty_directory_is_made,
        several_files_are_replaced_together_or_not_at_all,
        new_files_are_put_beside_others,
        names_are_written_once_and_inside,
        what_is_in_the_way_is_an_error,
        a_failure_at_any_step_leaves_the_old_or_the_new,
        the_file_that_refers_to_others_is_last,
        files_that_a_seal_lists_stay,
        writers_at_once_leave_what_one_of_them_wrote,
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

/// All the bytes of a file.
fn read(path: &Location) -> Vec<u8> {
    let blob = lodstone_store::Blob::open(path, true).expect("a file");
    blob.read().expect("readable").to_vec()
}

/// The names of everything that is visible in a directory; directories end in a slash.
fn names(root: &Location) -> Vec<String> {
    let entries = root.list().expect("a directory");
    entries.into_iter().map(|it| if it.is_dir { it.name + "/" } else { it.name }).collect()
}

//! The simplest code that moves the same bytes.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

const MIB: usize = 1 << 20;

/// Reads a file through a reused buffer, and discards the bytes.
pub(crate) fn read_through(path: &Path) {
    let mut buffer = vec![0; MIB];
    let mut file = File::open(path).expect("a file");
    while file.read(&mut buffer).expect("readable") > 0 {}
}

/// Reads a file into memory in the usual way.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("readable")
}

/// Reads a file into memory with huge pages.
pub(crate) fn read_large(path: &Path) -> memmap2::MmapMut {
    let mut file = File::open(path).expect("a file");
    let len = usize::try_from(file.metadata().expect("metadata").len()).expect("addressable");
    let mut memory = large(len);
    file.read_exact(&mut memory).expect("readable");
    memory
}

fn large(len: usize) -> memmap2::MmapMut {
    let memory = memmap2::MmapMut::map_anon(len).expect("memory");
    let _ = memory.advise(memmap2::Advice::HugePage);
    memory
}

pub(crate) fn open(path: &Path) {
    drop(File::open(path).expect("a file"));
}

/// Copies memory to new memory.
pub(crate) fn copy_memory(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

/// Writes a file, and syncs it.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("a file");
    file.write_all(bytes).expect("written");
    file.sync_all().expect("synced");
    sync_parent(path);
}

/// Copies a file as `cp` does, and syncs it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).expect("copied");
    File::open(to).expect("a file").sync_all().expect("synced");
    sync_parent(to);
}

fn sync_parent(path: &Path) {
    let parent = path.parent().expect("a directory");
    File::open(parent).expect("a directory").sync_all().expect("synced");
}

/// Touches as much memory as is loaded, and frees it. A virtual machine may have returned free memory to its host, and
/// the first process that allocates it again would pay for that.
pub(crate) fn warm_memory(len: usize) {
    large(len).chunks_mut(4096).for_each(|page| page.fill(1));
}

/// Removes files that others wrote, and syncs, so that later measurements do not wait for that.
pub(crate) fn settle(directory: &Path) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.expect("removed");
    }
    rustix::fs::syncfs(File::open(directory).expect("a directory")).expect("synced");
}

/// Removes a file from the page cache.
pub(crate) fn make_cold(path: &Path) {
    let file = File::open(path).expect("a file");
    file.sync_all().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
}

//! Requirements for opening files and listing directories.

use std::sync::Arc;

use lodstone_store::{
    Blob, Checks, Dir, Error, Links, Location, Part, Progress, ReadRange, SourceFile,
};

use crate::{names, put, read, write};

/// Returns content that is large enough to be mapped, and that has several chunks.
fn content() -> Vec<u8> {
    (0_u32..600_000).flat_map(|number| number.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect()
}

pub(crate) fn ranges_of_a_file_are_read(root: &Location) {
    let (path, content) = (root.join("file"), content());
    put(&path, &content).expect("written");
    for mmap in [false, true] {
        let file = SourceFile::open(&path, mmap).expect("a file");
        assert_eq!(file.len(), content.len() as u64);
        let (mut first, mut second, mut none) = (vec![0; 10], vec![0; 1_000_000], vec![]);
        let mut ranges = [
            ReadRange { offset: 1_234_567, buffer: &mut second },
            ReadRange { offset: 0, buffer: &mut first },
            ReadRange { offset: file.len(), buffer: &mut none },
        ];
        file.read_ranges(&mut ranges).expect("read");
        assert_eq!((&*first, &*second), (&content[..10], &content[1_234_567..2_234_567]));
    }
    put(&root.join("empty"), b"").expect("written");
    assert!(SourceFile::open(root.join("empty"), true).expect("a file").is_empty());
}

pub(crate) fn a_range_beyond_the_end_is_an_error(root: &Location) {
    put(&root.join("file"), b"content").expect("written");
    let file = SourceFile::open(root.join("file"), true).expect("a file");
    for (offset, len) in [(1, 7), (8, 1), (u64::from(u32::MAX) + 5, 1)] {
        let error = file.read_at(offset, &mut vec![0; len]).expect_err("too far");
        assert!(matches!(error, Error::Changed { .. }), "{offset}, {len}: {error}");
    }
}

pub(crate) fn shared_bytes_equal_read_bytes(root: &Location) {
    let (path, content) = (root.join("file"), content());
    put(&path, &content).expect("written");
    let blob = Blob::open(&path, true).expect("a file").slice(77, 1_999_999).expect("a range");
    assert!(blob.bytes().expect("bytes") == content[77..2_000_076]);
    let (memory, range) = blob.private().expect("memory");
    assert!(memory[range] == content[77..2_000_076]);
    let all = Blob::read_all(&[blob], &Progress::default()).expect("read");
    assert!(all[0] == content[77..2_000_076]);
}

pub(crate) fn irregular_files_cannot_be_opened(root: &Location) {
    write(&root.join("directory"), &[("file", b"content")]).expect("written");
    let not_found = |error: &Error| matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound);
    let error = SourceFile::open(root.join("nothing"), true).expect_err("nothing is there");
    assert!(not_found(&error), "{error}");
    let error = SourceFile::open(root.join("directory"), true).expect_err("a directory");
    assert!(matches!(error, Error::NotAFile { .. }), "{error}");
    assert!(SourceFile::open(root.join("directory/file/below"), true).is_err());
    for (name, exists, is_dir) in
        [("nothing", false, false), ("directory", true, true), ("directory/file", true, false)]
    {
        let path = root.join(name);
        assert_eq!(
            (path.exists().expect("inspected"), path.is_dir().expect("inspected")),
            (exists, is_dir),
            "{name}"
        );
        assert_eq!(path.is_there().expect("known"), exists, "{name}");
        assert_eq!(path.stamp().is_ok(), exists, "{name}");
    }
}

pub(crate) fn a_replaced_file_has_another_identity(root: &Location) {
    let path = root.join("file");
    put(&path, b"old").expect("written");
    let (old, stamp) = (SourceFile::open(&path, true).expect("a file"), path.stamp());
    let again = SourceFile::open(&path, true).expect("a file");
    assert_eq!(old.identity(), again.identity());
    old.check_in_place().expect("it is there");
    old.check_unchanged().expect("it is as it was");
    put(&path, b"new").expect("written");
    let new = SourceFile::open(&path, true).expect("a file");
    assert_ne!(old.identity(), new.identity());
    assert_ne!(stamp.expect("a stamp"), path.stamp().expect("a stamp"));
    let error = old.check_in_place().expect_err("another file has its name");
    assert!(matches!(error, Error::Changed { .. }), "{error}");
}

pub(crate) fn an_open_file_keeps_its_content(root: &Location) {
    let (path, content) = (root.join("file"), content());
    put(&path, &content).expect("written");
    let blob = Blob::open(&path, true).expect("a file");
    let shared = blob.bytes().expect("bytes");
    put(&path, b"new").expect("written");
    assert!(shared == content && blob.read().expect("read") == content);
    assert_eq!(read(&path), b"new");
}

pub(crate) fn checksums_find_a_flipped_bit(root: &Location) {
    let (path, mut content) = (root.join("file"), content());
    put(&path, &content).expect("written");
    let blob = Blob::open(&path, false).expect("a file");
    let len = blob.len();
    let stretches = vec![(1000, None), (len - 1000, Some("x".to_owned()))];
    let parts = Part::all_of(&blob, stretches, &Progress::default()).expect("read");
    // Checks keep track of verified pieces.
    let checks = || Arc::new(Checks::new(parts.clone()).expect("end to end"));
    let open = || SourceFile::open(&path, true).expect("a file").checked(checks());
    assert!(open().expect("its size").read_all().expect("as it was") == content);
    content[2_000_000] ^= 4;
    put(&path, &content).expect("written");
    let file = open().expect("its size");
    file.read_at(0, &mut [0; 1000]).expect("not damaged there");
    let error = file.read_at(1_999_000, &mut [0; 10]).expect_err("damaged");
    let Error::Damaged { damage, .. } = &error else { panic!("{error}") };
    assert_eq!(damage.tensor.as_deref(), Some("x"));
    put(&path, &content[1..]).expect("written");
    assert!(matches!(open(), Err(Error::Resized { .. })));
}

pub(crate) fn parts_of_files_are_concatenated(root: &Location) {
    put(&root.join("a"), b"0123456789").expect("written");
    put(&root.join("b"), b"abcdefghij").expect("written");
    let [a, b] = ["a", "b"].map(|name| Blob::open(root.join(name), true).expect("a file"));
    let part = |blob: &Blob, offset, len| blob.slice(offset, len).expect("inside");
    let memory = Blob::memory(b"--".as_slice());
    let joined = Blob::concat(vec![
        part(&a, 8, 2),
        part(&a, 0, 3),
        memory,
        part(&b, 1, 4),
        part(&a, 5, 1),
        part(&b, 9, 1),
    ]);
    assert_eq!(joined.read().expect("read"), b"89012--bcde5j".as_slice());
    let mut some = [0; 6];
    joined.read_at(4, &mut some).expect("read");
    assert_eq!(&some, b"2--bcd");
}

pub(crate) fn entries_are_listed_and_reserved_names_are_not(root: &Location) {
    let model = root.join("model");
    write(&model, &[("b", b""), ("a", b""), ("sub/c", b""), ("sub/deep/d", b"")]).expect("written");
    let mut commit = lodstone_store::Commit::existing(&model, Progress::default()).expect("begun");
    commit.write_seal::<Error>(|out| out.put(br#"{"models":[]}"#)).expect("written");
    commit.publish().expect("published");
    let mut pending = lodstone_store::Commit::existing(&model, Progress::default()).expect("begun");
    pending.write::<Error>("x", |out| out.put(b"")).expect("written");
    assert_eq!(names(&model), ["a", "b", "sub/"]);
    assert_eq!(names(&model.join("sub")), ["c", "deep/"]);
    assert!(root.join("nothing").list().is_err());
}

pub(crate) fn names_do_not_leave_a_directory(root: &Location) {
    put(&root.join("secret"), b"secret").expect("written");
    write(&root.join("model"), &[("sub/file", b"content")]).expect("written");
    for links in [Links::Confined, Links::Follow] {
        let dir = Dir::open(root.join("model"), links, true).expect("a directory");
        for name in ["sub/file", "./sub/file", "sub//./file"] {
            let file = dir.open_file(name).expect("inside").expect("a file");
            assert_eq!(file.read().expect("read"), b"content".as_slice());
        }
        assert!(dir.open_file("nothing").expect("inside").is_none());
        assert!(dir.open_file("sub/nothing").expect("inside").is_none());
        for name in
            ["", "..", "../secret", "sub/../../secret", "/secret", "\\secret", "C:/x", "a\0"]
        {
            let error = dir.open_file(name).expect_err("outside");
            assert!(matches!(error, Error::Escapes { .. }), "{name}: {error}");
        }
        assert!(matches!(dir.open_file("sub"), Err(Error::NotAFile { .. })));
    }
    assert!(Dir::open(root.join("nothing"), Links::Confined, true).is_err());
}

pub(crate) fn files_below_a_directory_are_listed(root: &Location) {
    let model = root.join("model");
    write(&model, &[("b", b""), ("sub/c", b""), ("sub/deep/d", b""), ("a", b"")]).expect("written");
    let dir = Dir::open(&model, Links::Confined, true).expect("a directory");
    assert_eq!(dir.files(100).expect("listed"), ["a", "b", "sub/c", "sub/deep/d"]);
    assert_eq!(dir.everything(100).expect("listed").files, ["a", "b", "sub/c", "sub/deep/d"]);
    assert!(dir.files(2).is_err(), "there are more");
}

pub(crate) fn locations_have_the_methods_of_paths(root: &Location) {
    let path = root.join("a.b/model.tar.gz");
    assert_eq!(path.name(), Some("model.tar.gz"));
    assert_eq!(path.stem(), Some("model.tar"));
    assert_eq!(path.directory(), root.join("a.b"));
    assert_eq!(path.with_file_name("x"), root.join("a.b/x"));
    assert_eq!(root.join("prefix.1").append(".json"), root.join("prefix.1.json"));
    assert_ne!(path, root.join("a.b"));
}

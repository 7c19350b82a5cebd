//! Directories: names from a model cannot reach files outside the model.

#![expect(clippy::disallowed_methods, reason = "creates files and links to be rejected")]

mod common;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{dir, file, in_time, pipe};
use lodstone_store::{Dir, Error, Links, Location, Result, check_relative};

const BOTH: [Links; 2] = [Links::Confined, Links::Follow];

/// Creates `inside/` with `file` and `sub/file`, and beside it `outside/` with `secret`.
fn tree() -> tempfile::TempDir {
    let root = dir();
    for name in ["inside", "inside/sub", "outside"] {
        std::fs::create_dir(root.path().join(name)).expect("a directory");
    }
    file(root.path(), "inside/file", b"content");
    file(root.path(), "inside/sub/file", b"below");
    file(root.path(), "outside/secret", b"secret");
    root
}

/// Returns the content of a file below `inside/`.
fn open(root: &Path, links: Links, name: &str) -> Result<Option<Vec<u8>>> {
    let dir = Dir::open(root.join("inside"), links, true)?;
    dir.open_file(name)?.map(|blob| blob.bytes().map(Vec::from)).transpose()
}

#[test]
fn files_below_the_directory_are_opened() {
    let root = tree();
    for links in BOTH {
        for (name, content) in [
            ("file", &b"content"[..]),
            ("./file", b"content"),
            ("sub/file", b"below"),
            ("sub//file", b"below"),
            ("sub/./file", b"below"),
        ] {
            let found = open(root.path(), links, name).expect("a file");
            assert_eq!(found.as_deref(), Some(content), "{name} {links:?}");
        }
    }
}

#[test]
fn a_blob_reports_the_path_of_its_file() {
    let root = tree();
    let inside = root.path().join("inside");
    for links in BOTH {
        let dir = Dir::open(&inside, links, false).expect("a directory");
        assert_eq!(dir.path(), inside);
        let blob = dir.open_file("sub/file").expect("a file").expect("a file");
        let (source, offset) = blob.file_range().expect("a range of a file");
        assert_eq!((source.path(), offset), (inside.join("sub/file").as_path(), 0));
    }
}

#[test]
fn names_that_lead_out_are_rejected_regardless_of_the_target() {
    let root = tree();
    let absolute = root.path().join("outside/secret").display().to_string();
    for links in BOTH {
        for (name, why) in [
            ("../outside/secret", "it contains `..`"),
            ("sub/../../outside/secret", "it contains `..`"),
            ("sub/../file", "it contains `..`"),
            ("..", "it contains `..`"),
            ("sub/..", "it contains `..`"),
            ("..\\outside\\secret", "it contains `..`"),
            ("sub\\..\\..\\secret", "it contains `..`"),
            (absolute.as_str(), "it is absolute"),
            ("/", "it is absolute"),
            ("//server/share", "it is absolute"),
            ("\\\\server\\share", "it is absolute on another system"),
            ("\\file", "it is absolute on another system"),
            ("C:\\file", "it is absolute on another system"),
            ("", "it is empty"),
            ("file\0", "it contains a zero byte"),
            ("\0", "it contains a zero byte"),
        ] {
            let error = open(root.path(), links, name).expect_err("a name that leads out");
            let expected = format!("the path `{name}` leads out of the model directory: {why}");
            assert_eq!(error.to_string(), expected, "{links:?}");
            assert!(check_relative(name).is_err(), "{name}");
        }
    }
}

#[test]
fn names_with_dots_and_colons_that_stay_inside_are_valid() {
    let root = tree();
    for name in ["..file", "file..", "...", "a..b", "conv:0", "猫", "a\\b", ".hidden", "sub/..x"] {
        file(root.path(), &format!("inside/{name}"), b"mine");
        check_relative(name).expect("a name");
        for links in BOTH {
            let found = open(root.path(), links, name).expect("a file");
            assert_eq!(found.as_deref(), Some(&b"mine"[..]), "{name} {links:?}");
        }
    }
}

#[test]
fn a_link_to_a_file_outside_is_followed_only_if_asked() {
    let root = tree();
    let inside = root.path().join("inside");
    symlink("../outside/secret", inside.join("relative")).expect("a link");
    symlink(root.path().join("outside/secret"), inside.join("absolute")).expect("a link");
    symlink("relative", inside.join("twice")).expect("a link");
    for name in ["relative", "absolute", "twice"] {
        let error = open(root.path(), Links::Confined, name).expect_err("a link out");
        assert!(matches!(error, Error::Escapes { .. }), "{name}: {error:?}");
        assert!(error.to_string().ends_with("a symbolic link that points outside"), "{error}");
        let found = open(root.path(), Links::Follow, name).expect("a file");
        assert_eq!(found.as_deref(), Some(&b"secret"[..]), "{name}");
    }
}

#[test]
fn a_link_to_a_directory_outside_is_followed_only_if_asked() {
    let root = tree();
    let inside = root.path().join("inside");
    symlink("../outside", inside.join("relative")).expect("a link");
    symlink(root.path().join("outside"), inside.join("absolute")).expect("a link");
    symlink("..", inside.join("sub/up")).expect("a link");
    symlink("../..", inside.join("sub/out")).expect("a link");
    for name in ["relative/secret", "absolute/secret", "sub/out/outside/secret"] {
        let error = open(root.path(), Links::Confined, name).expect_err("a link out");
        assert!(matches!(error, Error::Escapes { .. }), "{name}: {error:?}");
        let found = open(root.path(), Links::Follow, name).expect("a file");
        assert_eq!(found.as_deref(), Some(&b"secret"[..]), "{name}");
    }
    let found = open(root.path(), Links::Confined, "sub/up/file").expect("a file");
    assert_eq!(found.as_deref(), Some(&b"content"[..]), "a link up that stays inside");
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let root = tree();
    let inside = root.path().join("inside");
    symlink("file", inside.join("beside")).expect("a link");
    symlink("../file", inside.join("sub/up")).expect("a link");
    symlink("sub", inside.join("down")).expect("a link");
    for links in BOTH {
        for (name, content) in
            [("beside", &b"content"[..]), ("sub/up", b"content"), ("down/file", b"below")]
        {
            let found = open(root.path(), links, name).expect("a file");
            assert_eq!(found.as_deref(), Some(content), "{name} {links:?}");
        }
    }
}

#[test]
fn a_directory_that_is_a_link_itself_is_the_directory_it_points_to() {
    let root = tree();
    symlink("inside", root.path().join("link")).expect("a link");
    let dir = Dir::open(root.path().join("link"), Links::Confined, true).expect("a directory");
    assert!(dir.open_file("file").expect("a file").is_some());
}

#[test]
fn missing_files_are_none() {
    let root = tree();
    symlink("nowhere", root.path().join("inside/dangling")).expect("a link");
    let (long, deep) = ("x".repeat(300), format!("{}file", "x/".repeat(3000)));
    for links in BOTH {
        for name in
            ["missing", "missing/file", "sub/missing", "file/below", "dangling", &long, &deep]
        {
            let found = open(root.path(), links, name).expect("no error");
            assert_eq!(found, None, "{name} {links:?}");
        }
    }
}

#[test]
fn irregular_files_are_rejected() {
    let root = tree();
    symlink("sub", root.path().join("inside/down")).expect("a link");
    for links in BOTH {
        for name in ["sub", "sub/", ".", "down"] {
            let error = open(root.path(), links, name).expect_err("no file");
            assert!(matches!(error, Error::NotAFile { .. }), "{name} {links:?}: {error:?}");
        }
    }
}

#[test]
fn links_in_a_circle_are_an_error() {
    let root = tree();
    symlink("two", root.path().join("inside/one")).expect("a link");
    symlink("one", root.path().join("inside/two")).expect("a link");
    for links in BOTH {
        let error = open(root.path(), links, "one").expect_err("a circle");
        assert!(matches!(error, Error::Io { .. }), "{links:?}: {error:?}");
    }
}

#[test]
fn a_pipe_is_refused_without_waiting_for_a_writer() {
    let root = tree();
    pipe(&root.path().join("inside/pipe"));
    for links in BOTH {
        let path = root.path().to_path_buf();
        let error = in_time(move || open(&path, links, "pipe")).expect_err("a pipe");
        assert!(matches!(error, Error::NotAFile { .. }), "{links:?}: {error:?}");
    }
}

#[test]
fn a_directory_that_is_not_there_cannot_be_opened() {
    let root = tree();
    for name in ["missing", "inside/file"] {
        let error = Dir::open(root.path().join(name), Links::Confined, true).expect_err("none");
        assert!(error.to_string().starts_with("cannot open the directory `"), "{error}");
    }
}

#[test]
fn an_empty_path_is_the_working_directory() {
    let here = Dir::open(Path::new(""), Links::Confined, true).expect("a directory");
    assert!(here.open_file("Cargo.toml").expect("a file").is_some());
}

#[test]
fn entries_are_listed_by_name_with_links_followed() {
    use std::os::unix::ffi::OsStrExt;
    let root = tree();
    let inside = root.path().join("inside");
    symlink("../outside", inside.join("a_link")).expect("a link");
    symlink("nowhere", inside.join("z_dangling")).expect("a link");
    std::fs::write(inside.join(std::ffi::OsStr::from_bytes(b"\xff")), b"").expect("a file");
    let entries = Location::from(&inside).list().expect("entries");
    let entries: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.is_dir)).collect();
    assert_eq!(entries, [("a_link", true), ("file", false), ("sub", true), ("z_dangling", false)]);
}

fn seal_directories(path: impl AsRef<Path>) -> Vec<(PathBuf, PathBuf)> {
    let found = Location::from(path).seal_directories().into_iter();
    found.map(|(root, way)| (root.to_path_buf(), way)).collect()
}

#[test]
fn parent_directories_are_lexical_and_then_canonical() {
    let here = std::env::current_dir().expect("a directory").canonicalize().expect("it is there");
    let parent = (here.parent().expect("not the root").to_path_buf(), "store/src".into());
    for (path, own) in [
        ("src", vec![("src", ""), ("", "src")]),
        ("./src", vec![("./src", ""), (".", "src")]),
        ("src/.", vec![("src/.", ""), ("", "src/.")]),
    ] {
        let above = seal_directories(path);
        let own: Vec<(PathBuf, PathBuf)> =
            own.into_iter().map(|(from, way)| (from.into(), way.into())).collect();
        assert_eq!(above[..2], own, "{path}");
        assert_eq!(above[2], parent, "{path}");
        assert_eq!(above.last().expect("some").0, Path::new("/"));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().canonicalize().expect("it is there");
    std::fs::create_dir_all(root.join("a/b")).expect("a directory");
    std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).expect("a link");
    let above = seal_directories(root.join("link"));
    let at = |from: &Path| above.iter().filter(|(known, _)| known == from).count();
    assert_eq!((above[0].0.as_path(), above[1].0.as_path()), (&*root.join("link"), &*root));
    assert_eq!((at(&root.join("a/b")), at(&root.join("a")), at(&root)), (0, 1, 1));
    // For a path with `..`, the canonical parents.
    let above = seal_directories(root.join("a/../a"));
    let ways = [(root.join("a/../a"), ""), (root.join("a/.."), "a")];
    let ways = ways.map(|(from, way)| (from, PathBuf::from(way)));
    assert_eq!(above[..2], ways);
    assert!(root.parent().expect("it is not the root").starts_with(&above[2].0));
}

/// Creates a cache of the Hugging Face hub with a file, and another directory with `secret`, and returns the snapshot.
fn snapshot(root: &Path) -> PathBuf {
    let repository = root.join("hub/models--org--name");
    let snapshot = repository.join("snapshots/0123");
    for path in [&repository.join("blobs"), &snapshot.join("folder"), &root.join("outside")] {
        std::fs::create_dir_all(path).expect("a directory");
    }
    file(&repository, "blobs/abcdef", b"content");
    file(root, "outside/abcdef", b"secret");
    snapshot
}

#[test]
fn links_of_a_snapshot_lead_to_blobs_of_its_repository_and_nowhere_else() {
    let root = dir();
    let snapshot = snapshot(root.path());
    let other = root.path().join("hub/models--org--other/blobs");
    std::fs::create_dir_all(&other).expect("a directory");
    file(&other, "abcdef", b"secret");
    let blobs = root.path().join("hub/models--org--name/blobs");
    symlink("../../../outside/abcdef", blobs.join("fedcba")).expect("a link");
    let absolute = blobs.join("abcdef");
    let outside = root.path().join("outside");
    symlink(&outside, snapshot.join("elsewhere")).expect("a link");
    symlink("../../blobs/abcdef", outside.join("back")).expect("a link");
    for (name, target) in [
        ("config.json", Path::new("../../blobs/abcdef")),
        ("folder/config.json", Path::new("../../../blobs/abcdef")),
        ("refused-1", Path::new("../../blobs/fedcba")),
        ("refused-2", Path::new("../../../models--org--other/blobs/abcdef")),
        ("refused-3", Path::new("../../../../outside/abcdef")),
        ("refused-4", Path::new("../../blobs/../../../outside/abcdef")),
        ("refused-5", &absolute),
        ("folder/refused-6", Path::new("../../blobs/abcdef")),
    ] {
        symlink(target, snapshot.join(name)).expect("a link");
        let opened = || Dir::open(&snapshot, Links::Confined, true)?.open_file(name);
        match opened() {
            Ok(Some(blob)) if !name.contains("refused") => {
                assert_eq!(&blob.bytes().expect("bytes")[..], b"content");
            }
            Err(Error::Escapes { .. }) if name.contains("refused") => {}
            Ok(None) if name == "folder/refused-6" => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    let opened = Dir::open(&snapshot, Links::Confined, true).expect("a directory");
    assert!(opened.open_file("elsewhere/back").is_err());
    // `blobs` itself is a link.
    std::fs::rename(&blobs, root.path().join("moved")).expect("renamed");
    symlink("../../moved", &blobs).expect("a link");
    let opened = Dir::open(&snapshot, Links::Confined, true).expect("a directory");
    assert!(matches!(opened.open_file("config.json"), Err(Error::Escapes { .. })));
}

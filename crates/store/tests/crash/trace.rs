//! The system calls of a write, traced with ptrace: everything is on disk before it is visible,
//! and nothing is synced twice.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::SMALL;
use crate::child::{WAIT, writer};
use crate::scene::{Kind, Scene, State};

/// A successful system call, with the paths of its operands before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    OpenToWrite(PathBuf),
    Write(PathBuf, u64),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// The properties of a call at its entry.
enum Begun {
    Open(PathBuf),
    Write(PathBuf),
    Done(Call),
}

/// Runs the writer of a scene, and returns its calls.
fn trace(scene: &Scene) -> Vec<Call> {
    let mut child = writer(scene, usize::MAX).env(WAIT, "").spawn().expect("a child");
    let mut said = child.stderr.take().expect("what it says");
    let mut begun = [0; 6];
    said.read_exact(&mut begun).expect("what it says");
    assert_eq!(begun, *b"begun\n");
    let process = i32::try_from(child.id()).expect("a number");
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).expect("its threads") {
        let number = thread.expect("a thread").file_name().into_string().expect("a number");
        let thread = Pid::from_raw(number.parse().expect("a number"));
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_EXITKILL;
        ptrace::seize(thread, options).expect("this user may trace its own children");
        ptrace::interrupt(thread).expect("it stops");
    }
    child.stdin.take().expect("its input").write_all(b"g").expect("it listens");
    // Drain the output.
    let said = std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
    let calls = calls(process);
    said.join().expect("no panic").expect("what it said");
    // Already reaped above.
    child.wait().expect_err("no child any more");
    calls
}

fn calls(process: i32) -> Vec<Call> {
    // Only children of this thread: others have children of their own.
    let mine = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
    let (mut begun, mut calls) = (HashMap::new(), Vec::new());
    loop {
        let thread = match waitpid(None, Some(mine)).expect("it goes on") {
            WaitStatus::Exited(ended, code) if ended.as_raw() == process => {
                assert_eq!(code, 0, "it failed");
                return calls;
            }
            WaitStatus::Exited(..) => continue,
            WaitStatus::PtraceSyscall(thread) => {
                let info = ptrace::syscall_info(thread).expect("a system call");
                match info.op {
                    libc::PTRACE_SYSCALL_INFO_ENTRY => {
                        // SAFETY: the kernel has reported that it filled this part of the union.
                        #[expect(unsafe_code, reason = "a union")]
                        let entry = unsafe { info.u.entry };
                        begun.insert(thread, call(process, entry.nr, entry.args));
                    }
                    libc::PTRACE_SYSCALL_INFO_EXIT => {
                        // SAFETY: as above.
                        #[expect(unsafe_code, reason = "a union")]
                        let exit = unsafe { info.u.exit };
                        let begun = begun.remove(&thread).flatten();
                        if exit.is_error == 0 {
                            let result = u64::try_from(exit.sval).unwrap_or(0);
                            calls.extend(begun.map(|begun| match begun {
                                Begun::Open(path) => Call::OpenToWrite(path),
                                Begun::Write(path) => Call::Write(path, result),
                                Begun::Done(call) => call,
                            }));
                        }
                    }
                    _ => {}
                }
                thread
            }
            other => other.pid().expect("a thread"),
        };
        // A thread killed by the end of its process does not exist any more.
        let _ = ptrace::syscall(thread, None);
    }
}

/// A call that writes, syncs or changes names; others are ignored.
fn call(process: i32, number: u64, arguments: [u64; 6]) -> Option<Begun> {
    let [a, b, c, d, e, _] = arguments;
    let at = |directory, name| at(process, directory, name);
    let writes = |flags: u64| {
        let bits = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
        flags & u64::from(bits.cast_unsigned()) != 0
    };
    Some(match i64::try_from(number).expect("a number") {
        libc::SYS_openat if writes(c) => Begun::Open(at(a, b)),
        libc::SYS_openat2 if writes(word(process, c)) => Begun::Open(at(a, b)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open if writes(b) => Begun::Open(at(HERE, a)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => Begun::Open(at(HERE, a)),
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_sendfile => Begun::Write(opened(process, a)),
        libc::SYS_copy_file_range | libc::SYS_splice => Begun::Write(opened(process, c)),
        libc::SYS_fsync | libc::SYS_fdatasync => Begun::Done(Call::Sync(opened(process, a))),
        libc::SYS_sync | libc::SYS_syncfs => Begun::Done(Call::Sync(PathBuf::from("everything"))),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => Begun::Done(Call::Rename(at(HERE, a), at(HERE, b))),
        #[cfg(not(target_arch = "riscv64"))]
        libc::SYS_renameat => Begun::Done(Call::Rename(at(a, b), at(c, d))),
        libc::SYS_renameat2 if e & u64::from(libc::RENAME_EXCHANGE) != 0 => {
            Begun::Done(Call::Exchange(at(a, b), at(c, d)))
        }
        libc::SYS_renameat2 => Begun::Done(Call::Rename(at(a, b), at(c, d))),
        libc::SYS_unlinkat => Begun::Done(Call::Remove(at(a, b))),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink | libc::SYS_rmdir => Begun::Done(Call::Remove(at(HERE, a))),
        _ => return None,
    })
}

/// The descriptor for paths relative to the working directory.
const HERE: u64 = libc::AT_FDCWD.cast_unsigned() as u64;

/// Returns the path of the name at address `name` of the process, in one of its open directories.
fn at(process: i32, directory: u64, name: u64) -> PathBuf {
    let memory = File::open(format!("/proc/{process}/mem")).expect("its memory");
    let (mut bytes, mut next) = (Vec::new(), [0]);
    while memory.read_exact_at(&mut next, name + bytes.len() as u64).is_ok() && next != [0] {
        bytes.extend(next);
    }
    let name = PathBuf::from(OsString::from_vec(bytes));
    let here = u32::try_from(directory & u64::from(u32::MAX)).expect("cut")
        == libc::AT_FDCWD.cast_unsigned();
    if here || name.is_absolute() { name } else { opened(process, directory).join(name) }
}

fn word(process: i32, address: u64) -> u64 {
    let memory = File::open(format!("/proc/{process}/mem")).expect("its memory");
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, address).expect("its memory");
    u64::from_ne_bytes(bytes)
}

/// Returns the path of an open descriptor of the process.
fn opened(process: i32, descriptor: u64) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/fd/{descriptor}")).expect("it is open")
}

/// Returns the calls that act on paths below the root of a scene, and checks that there are no relevant calls on other
/// paths.
fn traced(kind: Kind) -> (Scene, PathBuf, Vec<Call>) {
    let mut scene = Scene::new(kind, SMALL);
    scene.prepare();
    let root = scene.root().canonicalize().expect("a directory");
    let mut calls = trace(&scene);
    assert_eq!(scene.look(), State::New);
    calls.retain(|call| match call {
        // Writes to a pipe by this program and the test harness.
        Call::Write(path, _) => path.is_absolute() && path != Path::new("/dev/null"),
        _ => true,
    });
    let is_written = |call: &&Call| matches!(call, Call::Write(path, _) if path.starts_with(&root));
    let written: u64 = calls.iter().filter(is_written).map(size).sum();
    assert_eq!(
        written,
        SMALL as u64 / 8 * kind.parts().iter().map(|part| part.1 as u64).sum::<u64>()
    );
    for call in &calls {
        if let Call::OpenToWrite(path) | Call::Write(path, _) = call {
            let staged = path.strip_prefix(&root).is_ok_and(is_staged);
            assert!(staged, "{kind:?}: written outside of staging: {call:?}");
        }
    }
    check_files(kind, &calls);
    (scene, root, calls)
}

fn size(call: &Call) -> u64 {
    if let Call::Write(_, size) = call { *size } else { 0 }
}

fn is_staged(path: &Path) -> bool {
    path.iter().any(|part| part.to_str().is_some_and(|part| part.ends_with("-0.lodstone")))
}

/// Checks that every file is synced once, after its last byte and before the first rename.
fn check_files(kind: Kind, calls: &[Call]) {
    let renamed = |call: &Call| matches!(call, Call::Rename(..) | Call::Exchange(..));
    let first = calls.iter().position(renamed).expect("something is published");
    let mut files = 0;
    for (opened, call) in calls.iter().enumerate() {
        let Call::OpenToWrite(path) = call else { continue };
        files += 1;
        let places = |wanted: &dyn Fn(&Call) -> bool| -> Vec<usize> {
            let found = calls.iter().enumerate().filter(|(_, call)| wanted(call));
            found.map(|(place, _)| place).collect()
        };
        let written = places(&|call| matches!(call, Call::Write(to, _) if to == path));
        let synced = places(&|call| matches!(call, Call::Sync(what) if what == path));
        assert!(!written.is_empty() && written[0] > opened, "{kind:?}: {path:?}");
        assert_eq!(synced.len(), 1, "{kind:?}: {path:?}");
        assert!(
            written.iter().all(|write| *write < synced[0]),
            "{kind:?}: {path:?} after its sync"
        );
        assert!(synced[0] < first, "{kind:?}: {path:?} is visible before it is on disk");
    }
    assert_eq!(files, kind.parts().len(), "{kind:?}");
}

/// Returns the syncs and renames after the last file was synced, and the first and last removals,
/// with names relative to the root and with `STAGED` for the hidden directory.
fn outline(root: &Path, calls: &[Call], files: usize) -> Vec<String> {
    let name = |path: &Path| {
        let path = path.strip_prefix(root).expect("below the root").display().to_string();
        let parts = path.split('/').map(|part| {
            if part.ends_with("-0.lodstone") || part.ends_with("-1.lodstone") {
                "STAGED"
            } else {
                part
            }
        });
        let name = parts.collect::<Vec<_>>().join("/");
        if name.is_empty() { ".".to_owned() } else { name }
    };
    let syncs = |call: &Call| matches!(call, Call::Sync(_));
    let ends: Vec<_> = calls.iter().enumerate().filter(|(_, call)| syncs(call)).collect();
    let (last, _) = ends[files - 1];
    let described = calls[last + 1..].iter().map(|call| match call {
        Call::OpenToWrite(path) | Call::Write(path, _) => format!("write {}", name(path)),
        Call::Sync(path) => format!("sync {}", name(path)),
        Call::Rename(from, to) => format!("{} -> {}", name(from), name(to)),
        Call::Exchange(from, to) => format!("{} <-> {}", name(from), name(to)),
        Call::Remove(path) => format!("remove {}", name(path)),
    });
    described.collect()
}

#[test]
fn one_file_costs_a_sync_of_it_and_one_of_its_directory() {
    let (_scene, root, calls) = traced(Kind::File);
    let expected = ["model/STAGED/file -> model/file", "remove model/STAGED", "sync model"];
    assert_eq!(outline(&root, &calls, 1), expected);
}

#[test]
fn a_new_directory_is_on_disk_before_it_appears() {
    let (_scene, root, calls) = traced(Kind::New);
    let expected = ["sync STAGED/sub", "sync STAGED", "STAGED -> model", "sync ."];
    assert_eq!(outline(&root, &calls, 3), expected);
}

#[test]
fn old_contents_are_removed_after_the_new_directory_is_on_disk() {
    let (_scene, root, calls) = traced(Kind::Whole);
    let expected = [
        "sync model/STAGED/sub",
        "sync model/STAGED",
        "model/STAGED -> STAGED",
        "STAGED <-> model",
        "sync .",
        "remove STAGED/params",
        "remove STAGED/program",
        "remove STAGED/sub/more",
        "remove STAGED/sub",
        "remove STAGED/.replaced.lodstone",
        "remove STAGED",
    ];
    let mut outline = outline(&root, &calls, 3);
    // In any order of directory entries.
    outline[5..8].sort();
    assert_eq!(outline, expected);
}

#[test]
fn several_files_are_declared_published_before_the_first_is() {
    let (_scene, root, calls) = traced(Kind::Several);
    let expected = [
        "sync model/STAGED/sub",
        "sync model/STAGED",
        "model/STAGED -> model/.pending.lodstone",
        "sync model",
        "model/.pending.lodstone/params -> model/params",
        "model/.pending.lodstone/sub/more -> model/sub/more",
        "model/.pending.lodstone/program -> model/program",
        "sync model/sub",
        "sync model",
        "remove model/.pending.lodstone/sub",
        "remove model/.pending.lodstone",
    ];
    assert_eq!(outline(&root, &calls, 3), expected);
}

//! Failures at single system calls, injected with ptrace.
//!
//! [`disturb`] runs a program and disturbs one of its calls on files below a directory, before the kernel executes it:
//! the call fails with a given error, or the program is killed. So each call of a program can be tried with each error
//! that the system may return.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads the memory and the descriptors of another process"
)]

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The errors that a call is tried with: no descriptors, space, permission or memory are left, a signal or the disk
/// interferes.
pub const ERRORS: [Errno; 6] =
    [Errno::EMFILE, Errno::ENOSPC, Errno::EINTR, Errno::EIO, Errno::EACCES, Errno::ENOMEM];

/// What happens at a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The call fails with this error.
    Fail(Errno),
    /// The program is killed.
    Kill,
}

/// A program that ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Its output to stderr.
    pub said: String,
    /// The call that was disturbed, with its path; none if the program made fewer calls.
    pub disturbed: Option<(&'static str, PathBuf)>,
    /// The number of its calls on files below the directory.
    pub calls: usize,
}

/// Returns the peak memory in bytes of the largest child of this process that has ended.
///
/// # Panics
/// Panics if the system does not report it.
#[must_use]
pub fn largest_child() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage");
    usage.max_rss().unsigned_abs() * 1024
}

/// Runs a program and disturbs its call `number` on files below `root`; calls are counted from 0.
///
/// # Panics
/// Panics if the program cannot be started or traced.
#[must_use]
pub fn disturb(mut command: Command, root: &Path, number: usize, by: Disturbance) -> Ended {
    let root = root.canonicalize().expect("a directory");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: the function is a system call, and allocates nothing.
    #[expect(unsafe_code, reason = "runs in the child between fork and exec")]
    unsafe {
        command.pre_exec(|| Ok(ptrace::traceme()?));
    }
    let mut child = command.spawn().expect("a program");
    let mut stderr = child.stderr.take().expect("its errors");
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        stderr.read_to_end(&mut said).map(|_| String::from_utf8_lossy(&said).into_owned())
    });
    let process = Pid::from_raw(i32::try_from(child.id()).expect("a number"));
    let (disturbed, failing) = (None, None);
    let mut watch = Watch { process, root, number, by, calls: 0, disturbed, failing };
    let code = watch.follow();
    // Already reaped.
    child.wait().expect_err("no child any more");
    let said = said.join().expect("no panic").expect("what it said");
    Ended { code, said, disturbed: watch.disturbed, calls: watch.calls }
}

struct Watch {
    process: Pid,
    root: PathBuf,
    number: usize,
    by: Disturbance,
    calls: usize,
    disturbed: Option<(&'static str, PathBuf)>,
    /// The thread whose call fails, and the error.
    failing: Option<(Pid, Errno)>,
}

impl Watch {
    /// Lets the program run to its end, and returns its exit code.
    fn follow(&mut self) -> Option<i32> {
        // Only children of this thread: others have children of their own.
        let mine = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_EXITKILL;
        let stopped = waitpid(self.process, Some(mine)).expect("it stops at exec");
        assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
        ptrace::setoptions(self.process, options).expect("it is stopped");
        let _ = ptrace::syscall(self.process, None);
        loop {
            let (thread, signal) = match waitpid(None, Some(mine)).expect("it goes on") {
                WaitStatus::Exited(ended, code) if ended == self.process => return Some(code),
                WaitStatus::Signaled(ended, ..) if ended == self.process => return None,
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => continue,
                WaitStatus::PtraceSyscall(thread) => {
                    self.meet(thread);
                    (thread, None)
                }
                // New threads begin with a stop; other signals are passed on.
                WaitStatus::Stopped(thread, Signal::SIGSTOP) => (thread, None),
                WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
                other => (other.pid().expect("a thread"), None),
            };
            // A thread killed by the end of its process does not exist any more.
            let _ = ptrace::syscall(thread, signal);
        }
    }

    /// Handles the entry or the exit of a system call.
    fn meet(&mut self, thread: Pid) {
        let Ok(mut registers) = ptrace::getregs(thread) else { return };
        // At the entry, this register has this value.
        let is_entry = registers.rax == (-i64::from(libc::ENOSYS)).cast_unsigned();
        if let Some((_, errno)) = self.failing.take_if(|(failing, _)| *failing == thread) {
            registers.rax = (-i64::from(errno as i32)).cast_unsigned();
            ptrace::setregs(thread, registers).expect("it is stopped");
        } else if is_entry && let Some((name, path)) = self.subject(&registers) {
            let number = self.calls;
            self.calls += 1;
            if number != self.number {
                return;
            }
            self.disturbed = Some((name, path));
            match self.by {
                Disturbance::Fail(errno) => {
                    // A call that does not exist.
                    registers.orig_rax = u64::MAX;
                    ptrace::setregs(thread, registers).expect("it is stopped");
                    self.failing = Some((thread, errno));
                }
                Disturbance::Kill => kill(self.process, Signal::SIGKILL).expect("it lives"),
            }
        }
    }

    /// Returns the name of a system call and its path, if that is below the root. Calls that cannot fail in practice,
    /// or whose failures programs may ignore, such as `close`, are left out.
    fn subject(&self, registers: &libc::user_regs_struct) -> Option<(&'static str, PathBuf)> {
        /// Where a call has its path.
        enum Of {
            /// A path in the first argument.
            Path,
            /// A directory and a path.
            At,
            /// A descriptor as argument of this number.
            Descriptor(usize),
        }
        use Of::{At, Descriptor, Path};
        let r = registers;
        let arguments = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
        let (name, of) = match i64::try_from(r.orig_rax).ok()? {
            libc::SYS_open => ("open", Path),
            libc::SYS_stat => ("stat", Path),
            libc::SYS_lstat => ("lstat", Path),
            libc::SYS_access => ("access", Path),
            libc::SYS_readlink => ("readlink", Path),
            libc::SYS_mkdir => ("mkdir", Path),
            libc::SYS_rmdir => ("rmdir", Path),
            libc::SYS_unlink => ("unlink", Path),
            libc::SYS_rename => ("rename", Path),
            libc::SYS_chmod => ("chmod", Path),
            libc::SYS_openat => ("openat", At),
            libc::SYS_openat2 => ("openat2", At),
            libc::SYS_newfstatat => ("newfstatat", At),
            libc::SYS_statx => ("statx", At),
            libc::SYS_readlinkat => ("readlinkat", At),
            libc::SYS_mkdirat => ("mkdirat", At),
            libc::SYS_unlinkat => ("unlinkat", At),
            libc::SYS_renameat => ("renameat", At),
            libc::SYS_renameat2 => ("renameat2", At),
            libc::SYS_fchmodat => ("fchmodat", At),
            libc::SYS_fstat => ("fstat", Descriptor(0)),
            libc::SYS_read => ("read", Descriptor(0)),
            libc::SYS_pread64 => ("pread64", Descriptor(0)),
            libc::SYS_preadv2 => ("preadv2", Descriptor(0)),
            libc::SYS_write => ("write", Descriptor(0)),
            libc::SYS_pwrite64 => ("pwrite64", Descriptor(0)),
            libc::SYS_fsync => ("fsync", Descriptor(0)),
            libc::SYS_fdatasync => ("fdatasync", Descriptor(0)),
            libc::SYS_ftruncate => ("ftruncate", Descriptor(0)),
            libc::SYS_getdents64 => ("getdents64", Descriptor(0)),
            libc::SYS_flock => ("flock", Descriptor(0)),
            libc::SYS_fchmod => ("fchmod", Descriptor(0)),
            libc::SYS_fchown => ("fchown", Descriptor(0)),
            libc::SYS_fstatfs => ("fstatfs", Descriptor(0)),
            libc::SYS_flistxattr => ("flistxattr", Descriptor(0)),
            libc::SYS_sync_file_range => ("sync_file_range", Descriptor(0)),
            libc::SYS_fcntl => ("fcntl", Descriptor(0)),
            libc::SYS_copy_file_range => ("copy_file_range", Descriptor(2)),
            libc::SYS_mmap => ("mmap", Descriptor(4)),
            _ => return None,
        };
        let path = match of {
            Path => self.at(HERE, arguments[0]),
            At => self.at(arguments[0], arguments[1]),
            Descriptor(number) => self.opened(arguments[number])?,
        };
        path.starts_with(&self.root).then_some((name, path))
    }

    /// Returns the path of the name at address `name` of the process, in one of its open directories.
    fn at(&self, directory: u64, name: u64) -> PathBuf {
        let name = PathBuf::from(OsString::from_vec(self.text(name)));
        let is_here = directory & u64::from(u32::MAX) == HERE & u64::from(u32::MAX);
        let here = || std::fs::read_link(format!("/proc/{}/cwd", self.process)).ok();
        let base = if is_here { here() } else { self.opened(directory) };
        // Some paths contain links, such as that of the temporary directory.
        base.map_or(name.clone(), |base| base.join(name))
    }

    fn text(&self, address: u64) -> Vec<u8> {
        let memory = File::open(format!("/proc/{}/mem", self.process)).expect("its memory");
        let (mut bytes, mut next) = (Vec::new(), [0]);
        while memory.read_exact_at(&mut next, address + bytes.len() as u64).is_ok() && next != [0] {
            bytes.extend(next);
        }
        bytes
    }

    /// Returns the path of an open descriptor of the process.
    fn opened(&self, descriptor: u64) -> Option<PathBuf> {
        let descriptor = u32::try_from(descriptor & u64::from(u32::MAX)).ok()?.cast_signed();
        std::fs::read_link(format!("/proc/{}/fd/{descriptor}", self.process)).ok()
    }
}

/// The descriptor for paths relative to the working directory.
const HERE: u64 = libc::AT_FDCWD.cast_unsigned() as u64;

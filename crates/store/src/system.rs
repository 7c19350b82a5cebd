//! What a system provides beside files: memory, processors, threads and a clock. A page in a browser has no threads and no
//! clock here.

use std::time::Duration;

/// Whether threads can be started.
pub const HAS_THREADS: bool = !cfg!(target_family = "wasm");

/// Returns the bytes that this process may still allocate, or a terabyte where the system does not report them.
///
/// It is the minimum of the available memory of the machine, the limits of the control groups of the process
/// (`memory.max` of version 2, `memory.limit_in_bytes` of version 1, of the group and all its ancestors), and what is left
/// of its own limits (`RLIMIT_AS`, `RLIMIT_DATA`). A page in a browser has 4 GiB.
pub fn available_memory() -> u64 {
    const UNKNOWN: u64 = 1 << 40;
    let addressable = if usize::BITS == 32 { 1 << 32 } else { UNKNOWN };
    limits::all().into_iter().flatten().min().unwrap_or(addressable)
}

/// Returns the number of processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns a number of this process: that of its child is another one.
pub fn process() -> u32 {
    #[cfg(not(target_family = "wasm"))]
    let number = std::process::id();
    #[cfg(target_family = "wasm")]
    let number = 0;
    number
}

/// Lets the heap keep pages that are freed, for the next allocations. glibc gives back what is free at its end beyond a
/// threshold, 128 KiB at first: every step of a training then faults in the same pages again, in half of its time. The
/// threshold becomes twice the size of the largest block that was freed, of up to 32 MiB. A block that is not written to takes no
/// memory.
pub fn keep_freed_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const BLOCK: usize = 31 << 20;
        let mut block = Vec::<u8>::new();
        // It is only slower without it.
        let _ = block.try_reserve_exact(BLOCK);
        drop(std::hint::black_box(block));
    }
}

/// The time since a moment; always 0 where there is no clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    #[cfg(not(target_family = "wasm"))]
    begun: std::time::Instant,
}

impl Stopwatch {
    /// Begins now.
    pub fn begin() -> Self {
        Self {
            #[cfg(not(target_family = "wasm"))]
            begun: std::time::Instant::now(),
        }
    }

    /// Returns the time since the beginning.
    pub fn elapsed(&self) -> Duration {
        #[cfg(not(target_family = "wasm"))]
        let elapsed = self.begun.elapsed();
        #[cfg(target_family = "wasm")]
        let elapsed = Duration::ZERO;
        elapsed
    }
}

#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "reads kernel files, not model files")]
mod limits {
    use std::fs::read_to_string;
    use std::path::{Path, PathBuf};

    use rustix::process::{Resource, getrlimit};

    pub(super) fn all() -> [Option<u64>; 4] {
        let statm = read_to_string("/proc/self/statm").unwrap_or_default();
        let used = |field| pages(&statm, field).unwrap_or(0);
        let left = |resource, field| {
            getrlimit(resource).current.map(|limit| limit.saturating_sub(used(field)))
        };
        [available(), group(), left(Resource::As, 0), left(Resource::Data, 5)]
    }

    /// Returns field `field` of `/proc/self/statm` in bytes: 0 is the whole address space, 5 is data and stack.
    fn pages(statm: &str, field: usize) -> Option<u64> {
        let count: u64 = statm.split_whitespace().nth(field)?.parse().ok()?;
        count.checked_mul(rustix::param::page_size() as u64)
    }

    /// Returns the memory that can be allocated on the machine without swapping.
    fn available() -> Option<u64> {
        let meminfo = read_to_string("/proc/meminfo").ok()?;
        let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    }

    /// Returns the minimum of the limits of the control groups of this process.
    fn group() -> Option<u64> {
        let groups = read_to_string("/proc/self/cgroup").ok()?;
        groups.lines().flat_map(files).filter_map(|file| limit(&file)).min()
    }

    /// Returns the files that may hold a limit, from a line `number:controllers:path`.
    fn files(line: &str) -> Vec<PathBuf> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            return Vec::new();
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        // In a container, the path is the one outside it, and the container's own group is the root.
        let path = Path::new(path.trim_start_matches('/'));
        path.ancestors().map(|group| Path::new(root).join(group).join(file)).collect()
    }

    fn limit(file: &Path) -> Option<u64> {
        read_to_string(file).ok()?.trim().parse().ok()
    }

    #[cfg(test)]
    #[expect(clippy::expect_used, reason = "a test")]
    mod tests {
        use super::*;

        #[test]
        fn a_group_is_limited_by_all_above_it() {
            let v2 = files("0::/user.slice/app");
            let names = ["user.slice/app/memory.max", "user.slice/memory.max", "memory.max"];
            assert_eq!(v2, names.map(|name| Path::new("/sys/fs/cgroup").join(name)));
            let v1 = files("9:memory:/docker/0123");
            assert_eq!(v1.len(), 3);
            assert_eq!(
                v1.last().map(PathBuf::as_path),
                Some(Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
            );
            assert!(files("3:cpu,cpuacct:/docker/0123").is_empty());
            assert!(files("nonsense").is_empty());
        }

        #[test]
        fn a_limit_is_a_number() {
            let dir = tempfile::tempdir().expect("a directory");
            let file = dir.path().join("memory.max");
            for (text, expected) in [("8589934592\n", Some(8 << 30)), ("max\n", None), ("", None)] {
                std::fs::write(&file, text).expect("written");
                assert_eq!(limit(&file), expected, "{text:?}");
            }
            assert_eq!(limit(&dir.path().join("absent")), None);
        }

        #[test]
        fn pages_are_counted_in_bytes() {
            let page = rustix::param::page_size() as u64;
            assert_eq!(pages("7 6 5 4 0 3 0", 0), Some(7 * page));
            assert_eq!(pages("7 6 5 4 0 3 0", 5), Some(3 * page));
            assert_eq!(pages("7", 5), None);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod limits {
    pub(super) fn all() -> [Option<u64>; 4] {
        [None; 4]
    }
}

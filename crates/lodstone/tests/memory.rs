//! How much memory work needs: a constant, whatever the size of the model.

#![expect(unsafe_code, reason = "an allocator is unsafe by nature")]
#![expect(clippy::disallowed_methods, reason = "reads what the system says of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lodstone::{
    Blob, ConvertOptions, DType, DiffOptions, Loss, Model, OpenOptions, Parameter, Progress,
    Target, Tensor, WriteOptions, convert, diff, open, seal, verify,
};

/// Counts the bytes that the process holds, on all threads.
struct Counting;

static HELD: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to `System` unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size() as u64, Relaxed) + layout.size() as u64;
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Anonymous memory that the process has pages of, in bytes: what maps of its own need is not the
/// allocator's.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

/// The most bytes that `work` holds at once beyond what was held before: by the allocator, and in
/// anonymous pages.
fn peak_of(work: impl FnOnce()) -> u64 {
    let (held, pages) = (HELD.load(Relaxed), anonymous());
    PEAK.store(held, Relaxed);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Relaxed) {
                most = most.max(anonymous());
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        work();
        done.store(true, Relaxed);
        let most = watcher.join().expect("watched");
        (PEAK.load(Relaxed) - held).max(most.saturating_sub(pages))
    })
}

const MIB: u64 = 1 << 20;

/// Elements of the largest tensor: 96 MiB of float32.
const LARGEST: [u64; 2] = [3072, 8192];

/// Paddle's parameters: a large tensor and many that are not, all of the same bytes in memory.
fn write_model(path: &Path) {
    let row: Vec<u8> = (0..LARGEST[1]).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let row = Blob::memory(row);
    let tensor = |(number, shape): (usize, [u64; 2])| {
        let rows = shape[0] * shape[1] / LARGEST[1];
        let data = Blob::concat((0..rows).map(|_| row.clone()).collect());
        let tensor = Tensor::dense(DType::Float32, shape.to_vec(), data);
        Parameter { name: number.to_string(), tensor }
    };
    let shapes = std::iter::once(LARGEST).chain((0..120).map(|_| [96, 1024]));
    let parameters = shapes.enumerate().map(tensor).collect();
    let options = ConvertOptions { allow: Loss::ALL.to_vec(), ..ConvertOptions::default() };
    convert(Model { parameters, ..Model::default() }, path, &options).expect("written");
}

#[test]
fn what_moves_a_model_holds_a_constant_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    write_model(&at("model.pdiparams"));
    let to = |input: &str, out: &str, options: &ConvertOptions| {
        let allow = Loss::ALL.to_vec();
        let options = ConvertOptions { allow, ..options.clone() };
        convert(open(at(input)).expect("a model"), &at(out), &options).expect("converted");
    };
    let usual = ConvertOptions::default();
    let same = ConvertOptions { to: Some(Target::Same), ..usual.clone() };
    let shards = WriteOptions { max_shard_size: Some(100 * MIB), ..WriteOptions::default() };
    let (options, progress) = (OpenOptions::default(), Progress::default());
    let works: [(&str, &dyn Fn()); 14] = [
        ("to safetensors", &|| to("model.pdiparams", "a.safetensors", &usual)),
        ("to shards", &|| {
            let shards = ConvertOptions { write: shards.clone(), ..usual.clone() };
            to("model.pdiparams", "shards.safetensors", &shards);
        }),
        ("as it is", &|| to("model.pdiparams", "b.pdiparams", &same)),
        ("from safetensors, as it is", &|| to("a.safetensors", "c.safetensors", &same)),
        ("to npz", &|| to("a.safetensors", "d.npz", &usual)),
        ("to MXNet", &|| to("a.safetensors", "e.params", &usual)),
        ("to a pickle", &|| to("a.safetensors", "f.pdparams", &usual)),
        ("from a pickle", &|| to("f.pdparams", "c.safetensors", &usual)),
        ("cast", &|| {
            to(
                "a.safetensors",
                "c.safetensors",
                &ConvertOptions { cast: Some(DType::Float16), ..usual.clone() },
            );
        }),
        ("sealed", &|| {
            let write = WriteOptions { seal: true, ..WriteOptions::default() };
            let sealed = ConvertOptions { write, ..usual.clone() };
            to("model.pdiparams", "g.safetensors", &sealed);
        }),
        ("from what is sealed", &|| to("g.safetensors", "c.safetensors", &usual)),
        ("seal", &|| drop(seal(at("b.pdiparams"), &options, false, &progress).expect("sealed"))),
        ("verify", &|| {
            for name in ["b.pdiparams", "a.safetensors"] {
                let found = verify(at(name), &options, &progress).expect("verified");
                assert!(found.whole && found.sealed == (name == "b.pdiparams"));
            }
        }),
        ("diff", &|| {
            let open = |name| open(at(name)).expect("a model");
            let found = diff(open("a.safetensors"), &open("d.npz"), &DiffOptions::default());
            assert!(found.expect("compared").same);
        }),
    ];
    for (name, work) in works {
        let peak = peak_of(work);
        assert!(peak <= 64 * MIB, "{name}: {peak}");
    }
    // A tensor whose elements change their places may be held.
    let transpose = ConvertOptions { transpose: vec!["*".to_owned()], ..usual };
    let peak = peak_of(|| to("a.safetensors", "c.safetensors", &transpose));
    assert!(peak <= 64 * MIB + 4 * LARGEST[0] * LARGEST[1], "transposed: {peak}");
}

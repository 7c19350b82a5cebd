//! The memory that a run takes is at most what the budget charges, and a constant: for the recorded cases of each operator
//! with repeated inputs, and for models of a few hundred bytes whose results would take gigabytes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "tests fail so, and list what they measured on request"
)]

mod bombs;
mod cases;
mod counting;
mod generated;
#[cfg(feature = "images")]
mod pictures;

use std::collections::{BTreeMap, BTreeSet};

use lodstone_engine::{Budget, Context, Executable, ExecutableOptions, Mode, Threads, Value};
use lodstone_model::Model;

use self::cases::{Case, cases, scaled, scales};
use self::counting::{Counting, alone, peak_of};
use self::generated::started;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a run may take beside what is charged: plans, tables of kernels, and handles of its values.
const CONSTANT: u64 = 256 << 10;

/// The memory budget: runs that need more are rejected.
const MEMORY: u64 = 128 << 20;

/// The number of elements of the largest input.
const ELEMENTS: usize = 1 << 17;

/// Cases whose inputs cannot be repeated: dims, maps and sequences. `generated.rs` has most of these operators.
const UNREPEATED: [&str; 20] = [
    "AffineGrid",
    "BlackmanWindow",
    "CastMap",
    "Constant",
    "ConstantOfShape",
    "DictVectorizer",
    "Expand",
    "HammingWindow",
    "HannWindow",
    "If+Constant+Constant",
    "Loop+Identity+Constant+Constant+Constant+Add+Constant+Unsqueeze+Slice+SequenceInsert",
    "MelWeightMatrix",
    "OneHot",
    "OptionalHasElement",
    "Range",
    "SequenceInsert",
    "SequenceMap+Add",
    "SequenceMap+Identity",
    "StringConcat",
    "ZipMap",
];

/// The number of threads of a run.
const THREADS: usize = 4;

/// Returns the number of elements that inputs are repeated to.
fn elements() -> usize {
    let set = std::env::var("LODSTONE_MEMORY_ELEMENTS").ok();
    set.map_or(ELEMENTS, |text| text.parse().unwrap())
}

/// The memory of a run.
struct Taken {
    peak: u64,
    charged: u64,
    /// The elements and the bytes of the results.
    results: [u64; 2],
}

/// Runs a model; `None` if it does not run on these inputs.
fn run(
    model: &Model,
    inputs: &BTreeMap<String, Value>,
    mode: Mode,
    threads: &Threads,
) -> Option<Taken> {
    let budget = Budget::new(MEMORY);
    let context = Context::new(&budget, threads);
    let mut model = model.clone();
    let main = model.programs.main_mut()?;
    main.blocks.first_mut()?.vars.clear();
    let options = ExecutableOptions::default().with_mode(mode);
    let executable = Executable::new(&model, &options, context).ok()?;
    let inputs: Vec<_> =
        inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let before = budget.taken();
    let (made, peak) = peak_of(|| executable.run(inputs, context));
    let results = sizes(made.ok()?.iter());
    Some(Taken { peak, charged: budget.peak() - before, results })
}

/// Returns the number of elements and of bytes.
fn sizes<'v>(values: impl Iterator<Item = &'v Value>) -> [u64; 2] {
    let mut all = [0; 2];
    for value in values {
        let count = match value {
            Value::Dense(dense) => dense.count(),
            Value::Strings(strings) => strings.elements().len(),
            _ => 0,
        };
        all[0] += count as u64;
        all[1] += value.nbytes();
    }
    all
}

fn kind(case: &Case) -> String {
    let kinds: Vec<&str> = case.model.main().unwrap().ops().map(|op| op.kind.as_str()).collect();
    kinds.join("+")
}

#[test]
fn operators_take_at_most_what_is_charged() {
    let _alone = alone();
    let threads = started(THREADS);
    let only = std::env::var("LODSTONE_MEMORY_CASE").unwrap_or_default();
    let is_listed = std::env::var("LODSTONE_MEMORY_LIST").is_ok();
    let (mut wrong, mut measured, mut all) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for case in ["onnx_nodes", "onnx_runtime"].iter().flat_map(|it| cases(it)) {
        if !case.name.contains(&only) {
            continue;
        }
        all.insert(kind(&case));
        for mode in [Mode::Reference, Mode::Fast] {
            let mut left = 2;
            for scale in scales(&case.inputs) {
                let Some(inputs) = scaled(&case.inputs, &scale, elements()) else { continue };
                let ran =
                    std::panic::AssertUnwindSafe(|| run(&case.model, &inputs, mode, &threads));
                let Ok(Some(taken)) = std::panic::catch_unwind(ran) else { continue };
                measured.insert(kind(&case));
                // Each thread keeps memory for the tiles of products from its first one on.
                let fits_again = |_| {
                    let again = run(&case.model, &inputs, mode, &threads);
                    again.is_some_and(|taken| taken.peak <= taken.charged + CONSTANT)
                };
                let Taken { peak, charged, results } = taken;
                let sizes = sizes(inputs.values());
                let line = format!(
                    "{} {} {mode:?} {scale:?}: peak {peak}, charged {charged}, elements and bytes \
                     of inputs {sizes:?}, results {results:?}",
                    kind(&case),
                    case.name,
                );
                if is_listed {
                    eprintln!("{line}");
                }
                if peak > charged + CONSTANT && !(0..=THREADS).any(fits_again) {
                    wrong.push(line);
                }
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
    }
    let missed: Vec<&str> = all.difference(&measured).map(String::as_str).collect();
    if only.is_empty() {
        assert_eq!(missed, UNREPEATED, "operators that were not measured");
    }
    assert!(wrong.is_empty(), "{} runs take more:\n{}", wrong.len(), wrong.join("\n"));
}

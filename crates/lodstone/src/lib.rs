//! Opens deep-learning models without the framework that wrote them.
//!
//! # Open, edit, save
//!
//! [`open`] returns a [`Model`]: its program, if it has one, and its parameters, which are read from the files when
//! they are used. [`Save::save`] writes it in the format that the name of the path selects; whatever was not edited has
//! the same bytes as before.
//!
//! ```
//! use lodstone::{Blob, MemoryStore, Save};
//!
//! # let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
//! let mut model = lodstone::open(digits)?;
//! let weight = model.parameter("conv2d_0.w_0").expect("the first convolution");
//! assert_eq!(weight.shape[1..], [1, 3, 3]); // [filters, channels, height, width]
//!
//! let bias = model.parameters.iter_mut().find(|it| it.name == "fc_0.b_0").expect("a bias");
//! bias.tensor.data = Blob::memory(vec![0; bias.tensor.data.bytes()?.len()]);
//! let store = MemoryStore::default(); // Or a path: model.save("edited/")
//! model.save(store.location("edited.pdmodel"))?;
//! # assert_eq!(lodstone::open(store.location("edited"))?.parameters.len(), model.parameters.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Convert
//!
//! [`convert`] writes another format. What that format cannot hold is an error that names it, unless the loss is
//! allowed.
//!
//! ```
//! use lodstone::{ConvertOptions, Error, Loss, MemoryStore};
//!
//! # let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
//! let model = lodstone::open(digits)?;
//! let path = MemoryStore::default().location("digits.safetensors");
//! let refused = lodstone::convert(model.clone(), path.clone(), &ConvertOptions::default());
//! assert!(matches!(refused, Err(Error::Lossy(losses)) if losses.contains_key(&Loss::Program)));
//! let options = ConvertOptions::default().with_weights_only(true);
//! lodstone::convert(model, path, &options)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verify
//!
//! [`verify`] checks structure, bounds and, if the model is sealed, the checksum of every byte. [`seal`](seal()) writes
//! the checksums. [`diff`](diff()) compares two models, [`scan`](scan()) lists what a file could execute.
//!
//! ```
//! # let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
//! use lodstone::{OpenOptions, Progress};
//!
//! let found = lodstone::verify(digits, &OpenOptions::default(), &Progress::default())?;
//! assert!(found.whole && !found.sealed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Run
//!
//! A [`Session`] runs a model of any framework whose programs run; [`run`](run()) does it once, and
//! [`compare`](compare()) runs two models and compares their values.
//!
//! ```
//! # #[cfg(feature = "runtime")] {
//! use lodstone::{Inputs, RunOptions, Session};
//!
//! # let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
//! let model = lodstone::open(digits)?;
//! let mut session = Session::new(&model, &RunOptions::default())?;
//! let mut inputs = Inputs::default();
//! inputs.add_random(&model, 1, &[("image".to_owned(), vec![2, 1, 8, 8])])?;
//! let outputs = lodstone::tensors(session.run(inputs)?);
//! assert_eq!(outputs[0].tensor.shape, [2, 10]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Build, train, checkpoint
//!
//! [`paddle::program`] builds PaddlePaddle programs, [`paddle::executor`] runs them, and [`paddle::checkpoint`] saves
//! and restores their variables; [`Training`] continues a training program. [`checkpoint`] saves named tensors of any
//! origin in numbered directories.
//!
//! ```
//! use lodstone::checkpoint::{Manager, ManagerOptions, Snapshot};
//! use lodstone::MemoryStore;
//!
//! # let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
//! let directory = MemoryStore::default().location("run");
//! let snapshot = Snapshot::of_tensors(lodstone::open(digits)?.parameters)?;
//! Manager::open(directory.clone(), ManagerOptions::default())?.save(100, &snapshot)?;
//! let restored = lodstone::checkpoint::Serial::find(directory, None)?;
//! assert_eq!(restored.tensors()?.len(), 12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

mod adapt;
mod byte_map;
mod capabilities;
mod cast;
mod cat;
mod convert;
mod diff;
mod error;
mod fit;
mod graph;
mod infer;
mod inspect;
mod layers;
mod names;
mod numbers;
mod open;
mod ops;
#[cfg(feature = "runtime")]
pub mod paddle;
mod reshard;
#[cfg(feature = "runtime")]
mod run;
mod save;
mod scan;
mod seal;
mod serial;
mod shapes;
mod simplify;
mod sparse;
mod statistics;
mod text;
mod verify;
mod wiring;
mod words;

#[cfg(feature = "remote")]
pub use lodstone_remote as remote;

pub use adapt::Renames;
pub use byte_map::{ByteMaps, FileMap, byte_map};
pub use capabilities::{Capabilities, capabilities};
pub use cast::CAST_TYPES;
pub use cat::{One, open_named, open_only, open_record};
pub use convert::{Conversion, ConvertOptions, ParameterNames, Target, convert, target_format};
pub use diff::{
    Change, Detail, Diff, DiffOptions, Difference, OperatorChange, OperatorDifference,
    OperatorPlace, ProgramDifference, Values, Which, diff,
};
pub use error::{Error, Result};
pub use fit::{arrays, composed};
pub use graph::{GraphFormat, write_graph};
pub use infer::{InferredShapes, infer_shapes};
pub use inspect::{
    BlockValue, InferredInfo, InspectOptions, Inspection, InterfaceValue, OperatorInfo, PartInfo,
    ProgramInfo, PropertyKeys, Summary, TensorDetails, TensorInfo, inspect, properties,
};
pub use layers::{Layer, Layers, layers};
pub use lodstone_checkpoint as checkpoint;
#[cfg(feature = "runtime")]
pub use lodstone_engine::{NUMERICS, OperatorTime, Profile, Threads, cpu_level};
pub use lodstone_formats::safetensors::code as safetensors_dtype;
pub use lodstone_formats::torch::has_meta;
pub use lodstone_formats::{
    ByteMap, Error as FormatError, ExternalData, FORMATS, Format, OpenOptions, Planned, SealedFile,
    ShardFormat, WriteOptions, safetensors::Shard, shard_formats, title as format_title,
};
pub use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dialect, Dim, Element, ElementError,
    Holder, Indices, Kind, Layout, Limits, Lod, Loss, Model, Nested, Op, Operand, Packing,
    Parameter, Program, Programs, Quantization, Report, Revision, Scalar, Tensor, TensorType,
    TooDeep, Topology, ValueType, Var, some,
};
pub use lodstone_schema::onnx::{UpgradeError, newest_opset};
pub use lodstone_schema::{Properties, finding, weights};
pub use lodstone_store::{
    Atomicity, Blob, Error as StoreError, Escape, Field, Links, Location, Memory, MemoryStore,
    Progress, PrunedChunks, Recovery, Step, StepKind, Store, prune_chunks,
};
pub use names::Names;
pub use open::{open, open_bytes, open_bytes_with, open_with, recover};
pub use ops::{OperatorReport, OperatorSupport, OperatorTarget, operators};
#[cfg(feature = "runtime")]
pub use paddle::{
    CheckpointPrograms, DeriveOptions, checkpoint_programs, inference_program, loader_program,
    print_program, program_of, pruned_program,
};
#[cfg(feature = "runtime")]
pub use paddle::{
    checkpoint::{Error as RestoreError, numerics},
    executor::Dirs,
    program::{Error as ProgramError, Form, Paths, Placement, save_program},
    train::{SampleOptions, TrainOptions, Training, open_program, open_training, save_training},
};
pub use reshard::{ReshardOptions, Resharding, reshard};
#[cfg(feature = "runtime")]
pub use run::{
    CompareOptions, ComparedValue, Comparison, Engine, ErrorDistribution, Inputs, Output, PairedBy,
    RunOptions, Session, Value, compare, dirs_beside, run, tensors,
};
pub use save::Save;
pub use scan::{Accepted, Danger, DangerKind, Scan, ScanOptions, Unknown, Verdict, scan};
pub use seal::{Sealing, seal};
pub use serial::{open_serial, verify_serial};
pub use shapes::{fix_inputs, fix_shapes, fix_types};
pub use statistics::{Statistics, statistics};
pub use text::{write_json, write_text};
pub use verify::{Defect, DefectKind, Verification, verify};

#[cfg(feature = "runtime")]
use lodstone_lowering::OperatorCoverage;

/// The checkpoints that programs save.
use lodstone_formats::paddle::saved as saved_checkpoints;

/// The crate that runs programs in this build.
#[cfg(feature = "runtime")]
use paddle as runtime;

/// The function that prepares programs of each dialect, for the dialects that run in this build.
#[cfg(feature = "runtime")]
const RUNS: &[Runs] = &[
    Runs {
        dialect: Dialect::Paddle,
        prepare: paddle::run::prepare,
        support: Support::Operators(paddle::run::unsupported),
    },
    Runs { dialect: Dialect::Onnx, prepare: run::engine::prepare, support: Support::Engine },
    Runs { dialect: Dialect::Glow, prepare: run::engine::prepare, support: Support::Engine },
    Runs { dialect: Dialect::Caffe2, prepare: run::typed::prepare, support: Support::Engine },
    Runs {
        dialect: Dialect::Pir,
        prepare: paddle::run::prepare_translated,
        support: Support::Program(paddle::run::translated_coverage),
    },
    Runs { dialect: Dialect::Mxnet, prepare: run::typed::prepare, support: Support::Engine },
    Runs { dialect: Dialect::Torch, prepare: run::typed::prepare, support: Support::Engine },
];

/// How programs of a dialect run.
#[cfg(feature = "runtime")]
struct Runs {
    dialect: Dialect,
    prepare: run::Prepare,
    support: Support,
}

/// Returns which operators of a program run, if there is one.
#[cfg(feature = "runtime")]
type Covered = fn(&Model) -> Option<std::result::Result<Vec<OperatorCoverage>, finding::Finding>>;

/// Which operators of programs of a dialect run.
#[cfg(feature = "runtime")]
enum Support {
    /// The function returns the reason why an operator does not run.
    Operators(fn(&Program, &Op) -> Option<String>),
    /// Programs run translated to another dialect, whose operators all run.
    Program(Covered),
    /// The engine runs programs of ONNX, and those that are lowered to it.
    Engine,
}

/// The dialects whose programs train in this build.
const TRAINS: &[Dialect] =
    if cfg!(feature = "runtime") { &[Dialect::Paddle, Dialect::Pir] } else { &[] };

/// Returns whether programs of a dialect run in this build.
#[cfg(feature = "runtime")]
fn runs(dialect: Dialect) -> bool {
    RUNS.iter().any(|row| row.dialect == dialect)
}

/// Returns false: programs do not run in this build.
#[cfg(not(feature = "runtime"))]
fn runs(_: Dialect) -> bool {
    false
}

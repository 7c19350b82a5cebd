//! Opens deep-learning models without the framework that wrote them.
//!
//! [`open`] gives a [`Model`]: its program, if it has one, and its tensors, none of which is read
//! before it is asked for. [`inspect`] says what is in it, [`convert`] writes it in another format
//! or, unharmed, in its own.
//!
//! ```
//! # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
//! let model = lodstone::open(dir)?;
//! let weights = model.parameter("conv2d_0.w_0").expect("the first convolution");
//! assert_eq!(weights.shape[1..], [1, 3, 3]); // [filters, channels, height, width]
//! assert_eq!(weights.data.bytes()?.len(), weights.shape.iter().product::<u64>() as usize * 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod adapt;
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
#[cfg(feature = "runtime")]
pub mod paddle;
mod save;
mod scan;
mod seal;
mod serial;
mod shapes;
mod sparse;
mod text;
mod verify;
mod wiring;
mod words;

pub use adapt::Renames;
pub use capabilities::{Capabilities, capabilities};
pub use cat::{One, open_named, open_only, open_record};
pub use convert::{Conversion, ConvertOptions, ParameterNames, Target, convert, target_format};
pub use diff::{
    Change, Detail, Diff, DiffOptions, Difference, OperatorChange, OperatorDifference,
    OperatorPlace, ProgramDifference, Values, Which, diff,
};
pub use error::{Error, Result};
pub use fit::arrays;
pub use graph::{GraphFormat, write_graph};
pub use infer::{InferredShapes, infer_shapes};
pub use inspect::{
    BlockValue, InferredInfo, InspectOptions, Inspection, OperatorInfo, PartInfo, ProgramInfo,
    TensorInfo, ValueInfo, inspect,
};
pub use layers::{Layer, Layers, layers};
pub use lodstone_checkpoint as checkpoint;
pub use lodstone_formats::safetensors::code as safetensors_dtype;
pub use lodstone_formats::{
    Error as FormatError, ExternalData, FORMATS, Format, OpenOptions, WriteOptions,
    title as format_title,
};
pub use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Dim, Element, ElementError, Holder, Indices,
    Kind, Layout, Limits, Lod, Loss, Model, Nested, Op, Operand, Packing, Parameter, Program,
    Programs, Quantization, Report, Tensor, TensorType, TooDeep, Topology, ValueType, Var, some,
};
pub use lodstone_schema::finding;
pub use lodstone_schema::onnx::{UpgradeError, newest_opset};
pub use lodstone_store::{
    Blob, Error as StoreError, Escape, Links, Location, Memory, MemoryStore, Progress, Recovery,
    Step, StepKind, Store,
};
pub use names::Names;
pub use open::{open, open_bytes, open_bytes_with, open_with, recover};
#[cfg(feature = "runtime")]
pub use paddle::{
    checkpoint::numerics,
    executor::Dirs,
    program::Paths,
    run::{Inputs, RunOptions, dirs_beside, run},
    train::{SampleOptions, TrainOptions, Training, open_program, open_training},
};
pub use save::Save;
pub use scan::{Danger, DangerKind, Scan, ScanOptions, Unknown, Verdict, scan};
pub use seal::{Sealing, seal};
pub use serial::{open_serial, verify_serial};
pub use text::{write_json, write_text};
pub use verify::{Defect, DefectKind, Verification, verify};

/// What runs programs in this build.
#[cfg(feature = "runtime")]
use paddle as runtime;

/// The dialects whose programs run in this build, and train if they have gradients.
const RUNS: &[Dialect] = if cfg!(feature = "runtime") { &[Dialect::Paddle] } else { &[] };

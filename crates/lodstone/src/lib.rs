//! Opens deep-learning models without the framework that wrote them.
//!
//! # Open, edit, save
//!
//! [`open`](open()) returns a [`Model`]: its program, if it has one, and its parameters, which are read from the files when
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
//! [`convert`](convert()) writes another format. What that format cannot hold is an error that names it, unless the loss is
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
//! [`verify`](verify()) checks structure, bounds and, if the model is sealed, the checksum of every byte. [`seal`](seal()) writes
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
//! let outputs = lodstone::run::tensors(session.run(inputs)?);
//! assert_eq!(outputs[0].tensor.shape, [2, 10]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Build, train, checkpoint
//!
//! [`paddle::program`] builds PaddlePaddle programs, [`paddle::executor`] runs them, and [`paddle::checkpoint`] saves
//! and restores their variables; [`train::Training`] continues a training program. [`checkpoint`] saves named tensors of any
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
//!
//! # Where things are
//!
//! What most programs need is here. The rest is in a module for each subject: [`convert`](mod@convert),
//! [`diff`](mod@diff), [`inspect`](mod@inspect), [`open`](mod@open), [`run`](mod@run), [`scan`](mod@scan),
//! [`seal`](mod@seal) and [`verify`](mod@verify) have what their function takes and returns. [`formats`] lists formats and
//! what they hold, [`ops`] operators; [`model`] has programs and tensors, [`store`] bytes and where they are stored.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

mod adapt;
pub mod byte_map;
mod capabilities;
mod cast;
pub mod convert;
mod dialects;
pub mod diff;
mod error;
mod fit;
pub mod formats;
mod graph;
mod infer;
pub mod inspect;
mod layers;
mod names;
mod numbers;
pub mod open;
pub mod ops;
pub mod origins;
mod outputs;
#[cfg(feature = "runtime")]
pub mod paddle;
#[cfg(feature = "runtime")]
pub mod program;
pub mod reshard;
#[cfg(feature = "runtime")]
pub mod run;
mod save;
pub mod scan;
pub mod seal;
mod serial;
mod shapes;
mod simplify;
mod sparse;
mod statistics;
mod text;
#[cfg(feature = "runtime")]
pub mod train;
pub mod verify;
mod wiring;
mod words;

pub use lodstone_checkpoint as checkpoint;
pub use lodstone_model as model;
#[cfg(feature = "remote")]
pub use lodstone_remote as remote;
pub use lodstone_schema::finding;
pub use lodstone_store as store;

pub use lodstone_formats::{OpenOptions, WriteOptions};
pub use lodstone_model::{DType, Dim, Lod, Loss, Model, Parameter, Tensor};
pub use lodstone_store::{Blob, Location, MemoryStore, Progress};

pub use adapt::Renames;
pub use byte_map::byte_map;
pub use convert::{ConvertOptions, Target, convert};
pub use diff::{DiffOptions, diff};
pub use error::{Error, ErrorKind, Result};
pub use infer::infer_shapes;
pub use inspect::{InspectOptions, inspect};
pub use open::{open, open_bytes, open_with, recover};
pub use ops::operators;
pub use origins::Origins;
pub use reshard::reshard;
#[cfg(feature = "runtime")]
pub use run::{CompareOptions, Inputs, RunOptions, Session, compare, run};
pub use save::Save;
pub use scan::{ScanOptions, scan};
pub use seal::seal;
pub use statistics::statistics;
pub use verify::verify;

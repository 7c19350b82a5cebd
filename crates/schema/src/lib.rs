//! Operators as data: the names and slots of each framework's operators, and the conventions by which a program
//! declares its inputs, its outputs and the variables that are saved.
//!
//! The scripts beside the tables under `data/` generate them with the real frameworks.
//!
//! A program declares its dialect, and [`conventions()`] returns what general code needs to know about programs of that
//! dialect: which variables are saved, how inputs and outputs are identified, where a training script leaks, which
//! operators are a risk. So general code needs no framework by name.
//!
//! ```
//! use lodstone_schema::onnx::{newest_opset, operator};
//!
//! let newest = newest_opset("").expect("ONNX has operators");
//! let softmax = operator("", "Softmax", newest).expect("an operator of ONNX");
//! let axis = softmax.attribute("axis").expect("an attribute of Softmax");
//! assert!(!axis.required);
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod caffe2;
mod closed;
mod conventions;
pub mod finding;
pub mod glow;
pub mod mxnet;
pub mod numbers;
pub mod onnx;
mod origins;
pub mod paddle;
pub mod pir;
pub mod places;
mod properties;
mod prune;
mod risk;
mod rows;
pub mod torch;
mod training;
mod weights;

pub use conventions::{Conventions, Interface, conventions};
pub use finding::{Code, Finding, Findings, Located, Operand};
pub use origins::{Origin, Origins};
pub use properties::Properties;
pub use prune::{Sharing, Unprunable, needed, select};
pub use risk::Risk;
pub use training::Training;
pub use weights::weights;

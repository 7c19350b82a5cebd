//! Makes programs of PaddlePaddle: networks of layers, operators that load and save, what is left of a program
//! for some of its results.
//!
//! A program is data ([`lodstone_model::Program`]): blocks of operators over variables. Nothing here runs one.

mod backward;
mod blocks;
mod error;
mod files;
mod inference;
pub mod initializers;
mod known;
pub mod layers;
mod network;
mod operator;
pub mod optimizer;
mod prune;
mod records;
mod role;
mod stale;

pub use backward::append_backward;
pub use error::{Error, Result};
pub use files::{
    Form, LoadOptions, MERGED, POSITION, Paths, Placement, SaveOptions, load, load_program,
    persistables, save, save_program,
};
pub use inference::{for_test, inference};
pub use initializers::Initializer;
pub use network::{Network, Parameter, Variable};
pub use operator::Operator;
pub use prune::prune;
pub use records::{record_position, saved_records};
pub use role::{OPTIMIZES, SCHEDULES, loss, role, set_role};
pub use stale::{StaleSave, stale_saves};

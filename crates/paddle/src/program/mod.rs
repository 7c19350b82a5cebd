//! Builds PaddlePaddle programs: networks of layers, operators that load and save, pruning for some
//! results.
//!
//! A program is data ([`lodstone_model::Program`]): blocks of operators over variables. This module runs none.
//!
//! A [`Network`] is a main and a startup program, new or continued from those of any origin. A layer appends operators:
//! their attributes are completed from the registry, and the lowering of an operator infers the types of its outputs. A
//! loop or branch is made of closures (`blocks`); a variable of a block cannot be used outside of it. Operators that
//! PaddlePaddle lacks have types with the prefix `lodstone.`, so that it rejects a program instead of misreading it.

mod backward;
mod blocks;
mod encoding;
mod error;
mod files;
mod inference;
pub mod initializers;
mod known;
pub mod layers;
mod names;
mod network;
mod operator;
pub mod optimizer;
mod records;
mod role;

pub use backward::{append_backward, gradients};
pub use encoding::{decode, encode};
pub use error::{Error, Result};
pub use files::{
    Form, LoadOptions, Paths, Placement, SaveOptions, load, load_program, persistables, save,
    save_program,
};
pub use inference::{for_test, inference, prune, with_interface};
pub use initializers::Initializer;
pub use lodstone_schema::paddle::{
    LOAD_MERGED, POSITION, SAVE_MERGED, StaleSave, record_position, stale_saves,
};
pub use names::Names;
pub use network::{Draft, Network, ParamAttr, Update, Variable};
pub use operator::Operator;
pub use records::saved_records;
pub use role::{OPTIMIZES, SCHEDULES, loss, role, set_role};

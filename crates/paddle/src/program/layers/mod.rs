//! Layers, as PaddlePaddle 2.6.2 builds them: operators, slots, attributes and initializers.
//!
//! A layer appends operators to the current block of the main program; its parameters belong to the whole program, and
//! the startup program initializes them. The types of outputs are those that the lowering of the operators infers.
//!
//! Source of truth: programs that PaddlePaddle's layers built, and 1.8.5 for layers that 2.6.2 no longer has.

mod control;
mod conv;
mod dense;
mod loss;
mod math;
mod norm;
mod schedules;

pub use control::*;
pub use conv::*;
pub use dense::*;
pub use loss::*;
pub use math::*;
pub use norm::*;
pub use schedules::*;

use lodstone_model::{DType, Dim, TensorType, ValueType, Var};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{set_need_check_feed, with_stop_gradient};

use crate::program::error::{Result, variable};
use crate::program::initializers::Initializer;
use crate::program::network::{Network, ParamAttr, Variable, name_dims};
use crate::program::operator::Operator;

/// An input of the program: `None` is an arbitrary dim.
pub fn data(net: &mut Network, name: &str, shape: &[Option<u64>], dtype: DType) -> Variable {
    sequence_data(net, name, shape, dtype, 0)
}

/// An input of sequences, with a number of LoD levels.
pub fn sequence_data(
    net: &mut Network,
    name: &str,
    shape: &[Option<u64>],
    dtype: DType,
    lod_level: u32,
) -> Variable {
    let dims = shape.iter().map(|dim| dim.map_or(Dim::Unknown, Dim::Known)).collect();
    let value: ValueType = TensorType { lod_level, ..TensorType::new(dtype, Some(dims)) }.into();
    let mut info = ValueInfo::from(value.clone());
    name_dims(name, &mut info);
    let var = Var { name: name.to_owned(), value, ..Var::default() };
    let mut var = with_stop_gradient(var, true);
    set_need_check_feed(&mut var, true);
    net.declare(0, var, info)
}

/// Returns dims, of which all from index `from` must be known.
fn sizes(net: &Network, var: &Variable, from: usize) -> Result<Vec<u64>> {
    let shape = net.shape(var)?;
    let known: Option<Vec<u64>> = shape.iter().skip(from).copied().collect();
    match known {
        Some(known) => Ok(known),
        None => variable(var.name(), format!("expected known dims, found {shape:?}")),
    }
}

fn biased(
    net: &mut Network,
    name: &str,
    y: &Variable,
    bias: &ParamAttr,
    size: u64,
    axis: i32,
) -> Result<Variable> {
    let dtype = net.dtype(y)?;
    let otherwise = Initializer::Constant(0.0);
    let bias = net.parameter(bias, &format!("{name}.b"), dtype, &[size], otherwise)?;
    let add = Operator::new("elementwise_add").input("X", [y]).input("Y", [&bias]);
    net.call(name, "Out", add.attribute("axis", axis))
}

fn activated(
    net: &mut Network,
    name: &str,
    y: Variable,
    act: Option<&'static str>,
) -> Result<Variable> {
    match act {
        Some(kind) => net.call(name, "Out", Operator::new(kind).input("X", [&y])),
        None => Ok(y),
    }
}

//! Counters, assignments, arrays of tensors, and loops and branches as functions.
//!
//! [`Network::while_loop`] and [`Network::conditional_block`] are the operators themselves.

use lodstone_model::{DType, Holder, Tensor, TensorType, ValueType, Var};
use lodstone_schema::paddle::with_stop_gradient;

use crate::program::error::{Result, variable};
use crate::program::initializers::given;
use crate::program::network::{Network, Variable};
use crate::program::operator::Operator;

/// A tensor filled with one value.
///
/// # Errors
/// If programs do not have the element type, or the tensor is unreasonably large.
pub fn fill_constant(
    net: &mut Network,
    shape: &[u64],
    dtype: DType,
    value: f64,
) -> Result<Variable> {
    let name = net.name("fill_constant");
    let fill = Operator::filled(shape, dtype, value);
    net.call(&name, "Out", fill)
}

/// The elements of a tensor as a constant of the program.
///
/// # Errors
/// If it has more elements than PaddlePaddle accepts, or an element type that it does not.
pub fn assign_value(net: &mut Network, tensor: &Tensor) -> Result<Variable> {
    let out = Variable::named(&net.name("assign_value.tmp"));
    net.append(given(&out, tensor)?.output("Out", [&out]))?;
    Ok(out)
}

/// Adds a step to a variable of one element, in place.
///
/// # Errors
/// If the variable does not exist.
pub fn increment(net: &mut Network, x: &Variable, step: f32) -> Result<()> {
    net.append(
        Operator::new("increment").input("X", [x]).output("Out", [x]).attribute("step", step),
    )
}

/// A copy of a tensor or an array.
///
/// # Errors
/// If the variable does not exist.
pub fn assign(net: &mut Network, x: &Variable) -> Result<Variable> {
    let name = net.name("assign");
    net.call(&name, "Out", Operator::new("assign").input("X", [x]))
}

/// Overwrites a variable with a copy of another.
///
/// # Errors
/// If one of them does not exist, or their types differ.
pub fn assign_to(net: &mut Network, x: &Variable, out: &Variable) -> Result<()> {
    net.info(out)?;
    net.append(Operator::new("assign").input("X", [x]).output("Out", [out]))
}

/// An empty array of tensors. All members have the dims of the first one that is written.
///
/// # Errors
/// If programs do not have the element type.
pub fn create_array(net: &mut Network, dtype: DType) -> Result<Variable> {
    let name = net.name("array");
    let value = ValueType::from(Holder::TensorArray(TensorType::new(dtype, None)));
    let name = format!("{name}.out");
    let var = Var { name, value: value.clone(), ..Var::default() };
    let var = with_stop_gradient(var, true);
    Ok(net.declare(net.current, var, value.into()))
}

/// Writes a tensor to an array, at an index in a variable; members before it may be absent.
///
/// # Errors
/// If the tensor does not match the array, or the index is not an integer.
pub fn array_write(
    net: &mut Network,
    x: &Variable,
    place: &Variable,
    array: &Variable,
) -> Result<()> {
    check_place(net, place)?;
    net.info(array)?;
    net.append(
        Operator::new("write_to_array").input("X", [x]).input("I", [place]).output("Out", [array]),
    )
}

/// The member of an array at an index.
///
/// # Errors
/// If it is not an array, or the index is not an integer.
pub fn array_read(net: &mut Network, array: &Variable, place: &Variable) -> Result<Variable> {
    check_place(net, place)?;
    let name = net.name("array_read");
    net.call(&name, "Out", Operator::new("read_from_array").input("X", [array]).input("I", [place]))
}

/// The length of an array.
///
/// # Errors
/// If it is not an array.
pub fn array_length(net: &mut Network, array: &Variable) -> Result<Variable> {
    let name = net.name("array_length");
    net.call(&name, "Out", Operator::new("lod_array_length").input("X", [array]))
}

fn check_place(net: &Network, place: &Variable) -> Result<()> {
    match net.dtype(place)? {
        DType::Int64 => Ok(()),
        other => variable(place.name(), format!("expected an index of int64, found {other}")),
    }
}

/// Repeats `body` while `test` of the variables is true; `vars` are updated with the results of the body.
///
/// With `is_test`, nothing is kept for gradients.
///
/// ```
/// use lodstone_model::DType;
/// use lodstone_paddle::program::{Network, layers};
///
/// let mut net = Network::new();
/// let count = layers::fill_constant(&mut net, &[1], DType::Int64, 0.0)?;
/// let limit = layers::fill_constant(&mut net, &[1], DType::Int64, 10.0)?;
/// layers::while_loop(
///     &mut net,
///     &[count],
///     false,
///     |net, vars| layers::less_than(net, &vars[0], &limit),
///     |net, vars| Ok(vec![layers::scale(net, &vars[0], 1.0, 1.0)?]),
/// )?;
/// # Ok::<(), lodstone_paddle::program::Error>(())
/// ```
///
/// # Errors
/// If the test is not a single Boolean, or the body returns another number of variables, or other types.
pub fn while_loop(
    net: &mut Network,
    vars: &[Variable],
    is_test: bool,
    test: impl Fn(&mut Network, &[Variable]) -> Result<Variable>,
    body: impl FnOnce(&mut Network, &[Variable]) -> Result<Vec<Variable>>,
) -> Result<()> {
    let condition = test(net, vars)?;
    net.while_loop_with(&condition, is_test, |net| {
        let mut next = body(net, vars)?;
        if next.len() != vars.len() {
            let what = format!(
                "the loop has {} variables, but its body returns {}",
                vars.len(),
                next.len()
            );
            return variable(condition.name(), what);
        }
        let goes_on = test(net, &next)?;
        // Variables that swap places would be overwritten before they are read.
        for (place, (from, to)) in next.iter_mut().zip(vars).enumerate() {
            let is_overwritten = vars.iter().take(place).any(|earlier| earlier == from);
            if from != to && is_overwritten {
                *from = assign(net, from)?;
            }
        }
        let goes_on = if vars.contains(&goes_on) { assign(net, &goes_on)? } else { goes_on };
        for (from, to) in next.iter().zip(vars).filter(|(from, to)| from != to) {
            assign_to(net, from, to)?;
        }
        assign_to(net, &goes_on, &condition)
    })
}

/// The results of one of two branches: the first if a Boolean is true, else the second.
///
/// # Errors
/// If the condition is not a single Boolean, a branch writes it, or the branches return different numbers or types of
/// variables.
pub fn cond(
    net: &mut Network,
    condition: &Variable,
    yes: impl FnOnce(&mut Network) -> Result<Vec<Variable>>,
    no: impl FnOnce(&mut Network) -> Result<Vec<Variable>>,
) -> Result<Vec<Variable>> {
    let yes = branch(net, condition, condition, yes)?;
    let name = net.name("logical_not");
    let otherwise = net.call(&name, "Out", Operator::new("logical_not").input("X", [condition]))?;
    let no = branch(net, &otherwise, condition, no)?;
    if yes.len() != no.len() {
        let what = format!("one branch returns {} variables, the other {}", yes.len(), no.len());
        return variable(condition.name(), what);
    }
    if yes.is_empty() {
        return Ok(yes);
    }
    let mask = super::cast(net, condition, DType::Int32)?;
    let select = |(yes, no): (Variable, Variable)| {
        let out = Variable::named(&net.name("_generated_var"));
        let select = Operator::new("select_input").input("X", [&no, &yes]).input("Mask", [&mask]);
        net.append(select.output("Out", [&out]))?;
        Ok(out)
    };
    yes.into_iter().zip(no).map(select).collect()
}

/// A block that runs if `runs` is true; its results are assigned to outer variables. `condition` is read again after it.
fn branch(
    net: &mut Network,
    runs: &Variable,
    condition: &Variable,
    body: impl FnOnce(&mut Network) -> Result<Vec<Variable>>,
) -> Result<Vec<Variable>> {
    net.conditional_block(runs, |net| {
        let given = body(net)?;
        if net.writes_outside(condition) {
            return variable(condition.name(), "a branch writes the condition that it depends on");
        }
        given.iter().map(|var| net.carry_out(var)).collect()
    })
}

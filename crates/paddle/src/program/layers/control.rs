//! Counters, assignments, arrays of tensors, and loops and branches as functions.
//!
//! [`Network::while_loop`] and [`Network::conditional_block`] are the operators themselves.

use lodstone_model::{DType, Holder, Tensor, TensorType, ValueType, Var};
use lodstone_schema::paddle::with_stop_gradient;

use crate::program::error::{Result, variable};
use crate::program::initializers::given;
use crate::program::network::{Network, Variable};
use crate::program::operator::Operator;

/// A tensor of one number.
///
/// # Errors
/// If no program has such an element type, or the tensor is too large to be meant.
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
/// If it has more elements than PaddlePaddle takes, or of a type that it does not.
pub fn assign_value(net: &mut Network, tensor: &Tensor) -> Result<Variable> {
    let out = Variable::named(&net.name("assign_value.tmp"));
    net.append(given(&out, tensor)?.output("Out", [&out]))?;
    Ok(out)
}

/// Adds a step to a variable of one number, in place.
///
/// # Errors
/// If there is no such variable.
pub fn increment(net: &mut Network, x: &Variable, step: f32) -> Result<()> {
    net.append(
        Operator::new("increment").input("X", [x]).output("Out", [x]).attribute("step", step),
    )
}

/// A copy of a tensor or an array.
///
/// # Errors
/// If there is no such variable.
pub fn assign(net: &mut Network, x: &Variable) -> Result<Variable> {
    let name = net.name("assign");
    net.call(&name, "Out", Operator::new("assign").input("X", [x]))
}

/// Writes a variable again: it becomes a copy of another.
///
/// # Errors
/// If one of them is not there, or they are of different types.
pub fn assign_to(net: &mut Network, x: &Variable, out: &Variable) -> Result<()> {
    net.info(out)?;
    net.append(Operator::new("assign").input("X", [x]).output("Out", [out]))
}

/// An array of tensors without any yet. All of them have the extents of the first that is written.
///
/// # Errors
/// If no program has such an element type.
pub fn create_array(net: &mut Network, dtype: DType) -> Result<Variable> {
    let name = net.name("array");
    let value = ValueType::from(Holder::TensorArray(TensorType::new(dtype, None)));
    let name = format!("{name}.out");
    let var = Var { name, value: value.clone(), ..Var::default() };
    let var = with_stop_gradient(var, true);
    Ok(net.declare(net.current, var, value.into()))
}

/// Writes a tensor to a place of an array, whose number is in a variable; places before it may be empty.
///
/// # Errors
/// If the tensor does not fit the array, or the place is no integer.
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

/// The tensor at a place of an array.
///
/// # Errors
/// If it is no array, or the place is no integer.
pub fn array_read(net: &mut Network, array: &Variable, place: &Variable) -> Result<Variable> {
    check_place(net, place)?;
    let name = net.name("array_read");
    net.call(&name, "Out", Operator::new("read_from_array").input("X", [array]).input("I", [place]))
}

/// How many places an array has.
///
/// # Errors
/// If it is no array.
pub fn array_length(net: &mut Network, array: &Variable) -> Result<Variable> {
    let name = net.name("array_length");
    net.call(&name, "Out", Operator::new("lod_array_length").input("X", [array]))
}

fn check_place(net: &Network, place: &Variable) -> Result<()> {
    match net.dtype(place)? {
        DType::Int64 => Ok(()),
        other => variable(place.name(), format!("expected int64 as a place, found {other}")),
    }
}

/// Repeats `body` as long as `test` of the variables is true: `vars` become what the body gives.
///
/// `is_test` says that nothing is kept for gradients.
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
/// If the test gives no truth value, or the body gives other variables: not as many, or of other types.
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
            let what = format!("the loop has {} variables, and gives {}", vars.len(), next.len());
            return variable(condition.name(), what);
        }
        let goes_on = test(net, &next)?;
        // Variables that change places would be written before they are read.
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

/// What one of two branches gives: the first if a truth value is true, or the second.
///
/// # Errors
/// If the condition is not one truth value, a branch writes it, or the branches give other variables than each
/// other: not as many, or of other types.
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
        let what = format!("one branch gives {} variables, the other {}", yes.len(), no.len());
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

/// A block that runs if `runs` is true; what it gives is assigned to variables outside. `condition` is still asked
/// when it has run.
fn branch(
    net: &mut Network,
    runs: &Variable,
    condition: &Variable,
    body: impl FnOnce(&mut Network) -> Result<Vec<Variable>>,
) -> Result<Vec<Variable>> {
    net.conditional_block(runs, |net| {
        let given = body(net)?;
        if net.writes_outside(condition) {
            return variable(condition.name(), "a branch writes it, and depends on it");
        }
        given.iter().map(|var| net.carry_out(var)).collect()
    })
}

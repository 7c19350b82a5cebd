//! Gradients of programs with loops, branches and arrays match finite differences.

use lodstone_model::{DType, Tensor};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_paddle::program::layers::{self, Fc};
use lodstone_paddle::program::{Network, Result, Variable};

use super::{singles, values};

/// The step of the finite difference of a parameter.
const STEP: f32 = 1e-2;

/// The maximum difference between a gradient and a slope: absolute, and relative.
const TOLERANCE: (f32, f32) = (1e-3, 1e-2);

fn number(net: &mut Network, value: f64) -> Result<Variable> {
    layers::fill_constant(net, &[1], DType::Int64, value)
}

fn feed() -> Vec<(&'static str, Tensor)> {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let x = singles(&[2, 3], |number| ((number * 37 % 11) as f32 - 5.0) / 8.0);
    vec![("x", x)]
}

/// The loss of a function of a table of numbers.
fn loss(
    of: impl FnOnce(&mut Network, &Variable) -> Result<Variable>,
) -> Result<(Network, Variable)> {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[Some(2), Some(3)], DType::Float32);
    let x = layers::fc(&mut net, &x, &Fc::new(3))?;
    let y = of(&mut net, &x)?;
    let squares = layers::elementwise(&mut net, "mul", &y, &y, -1)?;
    let loss = layers::mean(&mut net, &squares)?;
    Ok((net, loss))
}

/// A loop with a number of iterations; `body` computes the next table from a number and a table.
fn rounds(
    net: &mut Network,
    count: f64,
    x: &Variable,
    body: impl FnOnce(&mut Network, &Variable, &Variable) -> Result<Variable>,
) -> Result<Variable> {
    let (first, limit) = (number(net, 0.0)?, number(net, count)?);
    let state = layers::scale(net, x, 1.0, 0.0)?;
    layers::while_loop(
        net,
        &[first, state.clone()],
        false,
        |net, vars| layers::less_than(net, &vars[0], &limit),
        |net, vars| {
            let next = body(net, &vars[0], &vars[1])?;
            Ok(vec![layers::scale(net, &vars[0], 1.0, 1.0)?, next])
        },
    )?;
    Ok(state)
}

fn check(of: impl FnOnce(&mut Network, &Variable) -> Result<Variable>, parameters: usize) {
    let (mut net, loss) = loss(of).unwrap();
    let forward = net.main.clone();
    let pairs = net.append_backward(&loss, &[]).unwrap();
    assert_eq!(pairs.len(), parameters);
    let mut scope = Scope::default();
    let run = |program, scope: &mut Scope, fetch: &[&str]| {
        Executor::default().run(program, scope, &feed(), fetch, &Dirs::default()).unwrap()
    };
    Executor::default().run(&net.startup, &mut scope, &[], &[], &Dirs::default()).unwrap();
    let names: Vec<&str> = pairs.iter().map(|(_, gradient)| gradient.name()).collect();
    let gradients = run(&net.main, &mut scope, &names);
    let mut seen = 0;
    for ((parameter, _), gradient) in pairs.iter().zip(&gradients) {
        let tensor = scope.tensor(parameter.name()).unwrap().clone();
        let before = values(&tensor);
        assert_eq!(tensor.shape, gradient.shape);
        for (place, found) in values(gradient).into_iter().enumerate() {
            let at = |by: f32| {
                let moved = |number: usize| if number == place { by } else { 0.0 };
                let made = singles(&tensor.shape, |number| {
                    let number = usize::try_from(number).unwrap();
                    before[number] + moved(number)
                });
                let mut scope = scope.clone();
                scope.set(parameter.name(), made);
                values(&run(&forward, &mut scope, &[loss.name()])[0])[0]
            };
            let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let apart = (slope - found).abs();
            let name = parameter.name();
            assert!(apart < TOLERANCE.0 + TOLERANCE.1 * slope.abs(), "{name}: {found}, {slope}");
            seen += usize::from(slope.abs() > TOLERANCE.0);
        }
    }
    assert!(seen > 6, "{seen} slopes");
}

#[test]
fn those_of_a_loop_go_through_all_its_rounds() {
    let tanh = |net: &mut Network, x: &Variable| layers::fc(net, x, &Fc::new(3).act("tanh"));
    check(|net, x| rounds(net, 3.0, x, |net, _, x| tanh(net, x)), 4);
    // Without an iteration, the output equals the input.
    check(|net, x| rounds(net, 0.0, x, |net, _, x| tanh(net, x)), 4);
}

#[test]
fn those_of_loops_in_loops_go_through_all() {
    let inner = |net: &mut Network, _: &Variable, x: &Variable| {
        let next = |net: &mut Network, _: &Variable, x: &Variable| {
            layers::fc(net, x, &Fc::new(3).act("tanh"))
        };
        let inside = rounds(net, 2.0, x, next)?;
        layers::elementwise(net, "add", &inside, x, -1)
    };
    check(|net, x| rounds(net, 2.0, x, inner), 4);
}

#[test]
fn those_of_branches_go_through_the_one_that_ran() {
    let branches = |net: &mut Network, count: &Variable, x: &Variable| {
        let one = number(net, 1.0)?;
        let is_one = layers::equal(net, count, &one)?;
        let of = |act: &'static str| {
            let x = x.clone();
            move |net: &mut Network| Ok(vec![layers::fc(net, &x, &Fc::new(3).act(act))?])
        };
        Ok(layers::cond(net, &is_one, of("tanh"), of("sigmoid"))?.remove(0))
    };
    check(|net, x| rounds(net, 3.0, x, branches), 6);
    check(
        |net, x| {
            let count = number(net, 1.0)?;
            branches(net, &count, x)
        },
        6,
    );
}

#[test]
fn those_of_arrays_go_to_their_members() {
    let arrays = |net: &mut Network, x: &Variable| {
        let array = layers::create_array(net, DType::Float32)?;
        rounds(net, 3.0, x, |net, count, x| {
            layers::array_write(net, x, count, &array)?;
            layers::fc(net, x, &Fc::new(3).act("tanh"))
        })?;
        let (first, last) = (number(net, 0.0)?, number(net, 2.0)?);
        let (first, last) =
            (layers::array_read(net, &array, &first)?, layers::array_read(net, &array, &last)?);
        layers::elementwise(net, "add", &first, &last, -1)
    };
    check(arrays, 4);
}

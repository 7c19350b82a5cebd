//! Blocks run as they were built; invalid ones are rejected and removed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use lodstone_model::{DType, Dim, Tensor};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_paddle::program::layers::{self, Fc};
use lodstone_paddle::program::{Initializer, Network, ParamAttr, Result, Variable};
use lodstone_store::Blob;

fn number(net: &mut Network, value: f64) -> Variable {
    layers::fill_constant(net, &[1], DType::Int64, value).unwrap()
}

/// A counter and its limit.
fn counter(net: &mut Network) -> (Variable, Variable, Variable) {
    let (count, limit) = (number(net, 0.0), number(net, 3.0));
    let below = layers::less_than(net, &count, &limit).unwrap();
    (count, limit, below)
}

fn count_up(
    net: &mut Network,
    (count, limit, below): &(Variable, Variable, Variable),
) -> Result<()> {
    layers::increment(net, count, 1.0)?;
    let again = layers::less_than(net, count, limit)?;
    layers::assign_to(net, &again, below)
}

fn refused<T: std::fmt::Debug>(result: Result<T>, part: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn a_loop_that_never_ends_is_refused() {
    let mut net = Network::new();
    let vars = counter(&mut net);
    let before = net.main.clone();
    let result = net.while_loop(&vars.2, |net| layers::increment(net, &vars.0, 1.0));
    refused(result, "does not write it");
    assert_eq!(net.main, before);
    net.while_loop(&vars.2, |net| count_up(net, &vars)).unwrap();
    assert_eq!(net.main.blocks.len(), 2);
}

#[test]
fn conditions_are_one_truth_value() {
    let mut net = Network::new();
    let count = number(&mut net, 0.0);
    refused(net.conditional_block(&count, |_| Ok(())), "a single Boolean");
    let many = layers::data(&mut net, "many", &[Some(2)], DType::Bool);
    refused(net.while_loop(&many, |_| Ok(())), "a single Boolean");
    let unknown = layers::data(&mut net, "unknown", &[None], DType::Bool);
    refused(net.conditional_block(&unknown, |_| Ok(())), "a single Boolean");
}

#[test]
fn variables_of_a_block_are_gone_outside() {
    let mut net = Network::new();
    let vars = counter(&mut net);
    let mut inner = None;
    net.while_loop(&vars.2, |net| {
        inner = Some(layers::assign(net, &vars.0)?);
        count_up(net, &vars)
    })
    .unwrap();
    let before = net.main.clone();
    refused(layers::assign(&mut net, &inner.clone().unwrap()), "its block");
    refused(layers::assign_to(&mut net, &vars.0, &inner.unwrap()), "its block");
    assert_eq!(net.main, before);
}

#[test]
fn what_a_loop_writes_stays_of_its_type() {
    let mut net = Network::new();
    let vars = counter(&mut net);
    let x = layers::data(&mut net, "x", &[None, Some(4)], DType::Float32);
    let fewer = |net: &mut Network| {
        let y = layers::fc(net, &x, &Fc::new(3))?;
        layers::assign_to(net, &y, &x)?;
        count_up(net, &vars)
    };
    refused(net.while_loop(&vars.2, fewer), "dims [?, 4] cannot be overwritten with [?, 3]");
    let other = |net: &mut Network| layers::assign_to(net, &vars.0, &x);
    refused(net.while_loop(&vars.2, other), "float32");
    let array = layers::create_array(&mut net, DType::Float32).unwrap();
    refused(layers::assign_to(&mut net, &x, &array), "Tensor");
    refused(layers::array_write(&mut net, &vars.0, &vars.1, &array), "float32");
    refused(layers::array_read(&mut net, &x, &vars.0), "array");
    refused(layers::array_read(&mut net, &array, &x), "int64");
}

#[test]
fn dims_that_vary_are_not_built_upon() {
    let mut net = Network::new();
    let vars = counter(&mut net);
    let row = layers::fill_constant(&mut net, &[1, 4], DType::Float32, 1.0).unwrap();
    let rows = layers::assign(&mut net, &row).unwrap();
    net.vary(&rows, &[0]).unwrap();
    let grow = |net: &mut Network| {
        let more = layers::concat(net, &[&rows, &row], 0)?;
        layers::assign_to(net, &more, &rows)?;
        count_up(net, &vars)
    };
    net.while_loop(&vars.2, grow).unwrap();
    let var = net.main.blocks[0].vars.iter().find(|var| var.name == rows.name()).unwrap();
    let shape = var.value.tensor_type().unwrap().shape.as_deref();
    assert_eq!(shape, Some(&[Dim::Unknown, Dim::Known(4)][..]));
    refused(net.vary(&rows, &[2]), "out of range of rank 2");
}

#[test]
fn branches_give_the_same() {
    let mut net = Network::new();
    let (count, _, below) = counter(&mut net);
    let x = layers::data(&mut net, "x", &[None, Some(4)], DType::Float32);
    let [one, none] = [vec![x.clone()], vec![]];
    let result = layers::cond(&mut net, &below, |_| Ok(one), |_| Ok(none));
    refused(result, "one branch returns 1 variables, the other 0");
    let [floats, longs] = [vec![x.clone()], vec![count]];
    refused(layers::cond(&mut net, &below, |_| Ok(floats), |_| Ok(longs)), "int64 and float32");
    let narrow = |net: &mut Network| Ok(vec![layers::fc(net, &x, &Fc::new(3))?]);
    let made = layers::cond(&mut net, &below, |_| Ok(vec![x.clone()]), narrow).unwrap();
    assert_eq!(net.shape(&made[0]).unwrap(), [None, None]);
}

#[test]
fn a_branch_does_not_write_what_it_depends_on() {
    let mut net = Network::new();
    let (count, limit, below) = counter(&mut net);
    let write = |net: &mut Network| {
        let equal = layers::equal(net, &count, &limit)?;
        layers::assign_to(net, &equal, &below)?;
        Ok(vec![])
    };
    refused(layers::cond(&mut net, &below, write, |_| Ok(vec![])), "depends on");
    refused(layers::cond(&mut net, &below, |_| Ok(vec![]), write), "depends on");
}

#[test]
fn a_loop_may_go_by_one_of_its_variables() {
    let mut net = Network::new();
    let (count, limit, below) = counter(&mut net);
    let vars = [below, count];
    let test = |_: &mut Network, vars: &[Variable]| Ok(vars[0].clone());
    layers::while_loop(&mut net, &vars, false, test, |net, vars| {
        layers::increment(net, &vars[1], 1.0)?;
        Ok(vec![layers::less_than(net, &vars[1], &limit)?, vars[1].clone()])
    })
    .unwrap();
    assert_eq!(run(&net, &vars[1], i64::from_le_bytes), [3]);
}

#[test]
fn parameters_of_a_block_belong_to_the_program() {
    let mut net = Network::new();
    let (.., below) = counter(&mut net);
    let x = layers::data(&mut net, "x", &[None, Some(4)], DType::Float32);
    let body = |net: &mut Network| layers::fc(net, &x, &Fc::new(3));
    let y = net.conditional_block(&below, body).unwrap();
    let declares =
        |block: usize, name: &str| net.main.blocks[block].vars.iter().any(|var| var.name == name);
    assert!(declares(0, "fc_0.w_0") && declares(1, y.name()) && !declares(1, "fc_0.w_0"));
}

#[test]
fn what_a_loop_changes_is_not_taken_for_a_constant() {
    let mut net = Network::new();
    let vars = counter(&mut net);
    let x = layers::data(&mut net, "x", &[None, Some(3)], DType::Float32);
    let shape = layers::fill_constant(&mut net, &[1], DType::Int32, 6.0).unwrap();
    let reshaped = |net: &mut Network, name: &str| {
        let out = Variable::named(name);
        let reshape = lodstone_paddle::program::Operator::new("reshape2").input("X", [&x]);
        let reshape = reshape.input("ShapeTensor", [&shape]).output("Out", [&out]);
        net.append(reshape)?;
        net.shape(&out)
    };
    assert_eq!(reshaped(&mut net, "before").unwrap(), [Some(6)]);
    net.while_loop(&vars.2, |net| {
        assert_eq!(reshaped(net, "inside")?, [None]);
        layers::increment(net, &shape, 1.0)?;
        count_up(net, &vars)
    })
    .unwrap();
    assert_eq!(reshaped(&mut net, "behind").unwrap(), [None]);
}

/// Runs a program without feeds, and returns the elements of a variable.
fn run<const SIZE: usize, T>(net: &Network, var: &Variable, of: fn([u8; SIZE]) -> T) -> Vec<T> {
    let mut scope = Scope::default();
    let (mut executor, dirs) = (Executor::default(), Dirs::default());
    executor.run(&net.startup, &mut scope, &[], &[], &dirs).unwrap();
    let found = executor.run(&net.main, &mut scope, &[], &[var.name()], &dirs).unwrap();
    let bytes = found[0].data.bytes().unwrap();
    bytes.chunks_exact(SIZE).map(|bytes| of(bytes.try_into().unwrap())).collect()
}

#[test]
fn variables_of_a_loop_change_places() {
    let mut net = Network::new();
    let vars = [number(&mut net, 0.0), number(&mut net, 1.0), number(&mut net, 0.0)];
    let limit = number(&mut net, 10.0);
    let test = |net: &mut Network, vars: &[Variable]| layers::less_than(net, &vars[2], &limit);
    layers::while_loop(&mut net, &vars, true, test, |net, vars| {
        let sum = layers::elementwise(net, "add", &vars[0], &vars[1], -1)?;
        layers::increment(net, &vars[2], 1.0)?;
        Ok(vec![vars[1].clone(), sum, vars[2].clone()])
    })
    .unwrap();
    assert_eq!(run(&net, &vars[0], i64::from_le_bytes), [55]);
    let mut net = Network::new();
    let vars = [number(&mut net, 7.0), number(&mut net, 8.0), number(&mut net, 0.0)];
    let limit = number(&mut net, 3.0);
    let test = |net: &mut Network, vars: &[Variable]| layers::less_than(net, &vars[2], &limit);
    layers::while_loop(&mut net, &vars, false, test, |net, vars| {
        layers::increment(net, &vars[2], 1.0)?;
        Ok(vec![vars[1].clone(), vars[0].clone(), vars[2].clone()])
    })
    .unwrap();
    assert_eq!(run(&net, &vars[0], i64::from_le_bytes), [8]);
    assert_eq!(run(&net, &vars[1], i64::from_le_bytes), [7]);
}

#[test]
fn a_loop_makes_a_tensor_longer() {
    let mut net = Network::new();
    let vars = counter(&mut net);
    let row = layers::fill_constant(&mut net, &[1, 2], DType::Float32, 0.5).unwrap();
    let rows = layers::assign(&mut net, &row).unwrap();
    net.vary(&rows, &[0]).unwrap();
    net.while_loop(&vars.2, |net| {
        let more = layers::concat(net, &[&rows, &row], 0)?;
        layers::assign_to(net, &more, &rows)?;
        count_up(net, &vars)
    })
    .unwrap();
    assert_eq!(run(&net, &rows, f32::from_le_bytes), [0.5; 8]);
}

#[test]
fn one_of_two_branches_is_taken() {
    for (value, expected) in [(2.0, 6.0), (-2.0, 2.0)] {
        let mut net = Network::new();
        let x = layers::fill_constant(&mut net, &[1], DType::Float32, value).unwrap();
        let zero = layers::fill_constant(&mut net, &[1], DType::Float32, 0.0).unwrap();
        let positive = layers::greater_than(&mut net, &x, &zero).unwrap();
        let taken = layers::cond(
            &mut net,
            &positive,
            |net| Ok(vec![layers::scale(net, &x, 3.0, 0.0)?]),
            |net| Ok(vec![layers::scale(net, &x, -1.0, 0.0)?]),
        );
        assert_eq!(run(&net, &taken.unwrap()[0], f32::from_le_bytes), [expected]);
    }
}

#[test]
fn parameters_begin_with_what_is_given() {
    let mut net = Network::new();
    let bytes: Vec<u8> = [1_i64, -2, 3].into_iter().flat_map(i64::to_le_bytes).collect();
    let tensor = Tensor::dense(DType::Int64, vec![3], Blob::memory(bytes));
    let constant = layers::assign_value(&mut net, &tensor).unwrap();
    let given = Initializer::Given(tensor);
    let parameter = ParamAttr { initializer: Some(given.clone()), ..ParamAttr::default() };
    let zero = Initializer::Constant(0.0);
    let made = net.parameter(&parameter, "w", DType::Int64, &[3], zero.clone()).unwrap();
    assert_eq!(run(&net, &made, i64::from_le_bytes), [1, -2, 3]);
    assert_eq!(run(&net, &constant, i64::from_le_bytes), [1, -2, 3]);
    let other = ParamAttr { initializer: Some(given), ..ParamAttr::default() };
    refused(
        net.parameter(&other, "w", DType::Int64, &[4], zero),
        "cannot be initialized as int64[3]",
    );
}

//! Blocks that cannot be meant are refused, and leave nothing behind.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use lodstone_model::{DType, Dim};
use lodstone_program::layers::{self, Fc};
use lodstone_program::{Network, Result, Variable};

fn number(net: &mut Network, value: f64) -> Variable {
    layers::fill_constant(net, &[1], DType::Int64, value).unwrap()
}

/// A counter that is below a limit.
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
    refused(net.conditional_block(&count, |_| Ok(())), "one truth value");
    let many = layers::data(&mut net, "many", &[Some(2)], DType::Bool);
    refused(net.while_loop(&many, |_| Ok(())), "one truth value");
    let unknown = layers::data(&mut net, "unknown", &[None], DType::Bool);
    refused(net.conditional_block(&unknown, |_| Ok(())), "one truth value");
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
    refused(net.while_loop(&vars.2, fewer), "extents [?, 4], and cannot be written with [?, 3]");
    let other = |net: &mut Network| layers::assign_to(net, &vars.0, &x);
    refused(net.while_loop(&vars.2, other), "float32");
    let array = layers::create_array(&mut net, DType::Float32).unwrap();
    refused(layers::assign_to(&mut net, &x, &array), "Tensor");
    refused(layers::array_write(&mut net, &vars.0, &vars.1, &array), "float32");
    refused(layers::array_read(&mut net, &x, &vars.0), "array");
    refused(layers::array_read(&mut net, &array, &x), "int64");
}

#[test]
fn extents_that_vary_are_not_built_upon() {
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
    let shape = var.value.tensors[0].shape.as_deref();
    assert_eq!(shape, Some(&[Dim::Unknown, Dim::Known(4)][..]));
    refused(net.vary(&rows, &[2]), "2 extents");
}

#[test]
fn branches_give_the_same() {
    let mut net = Network::new();
    let (count, _, below) = counter(&mut net);
    let x = layers::data(&mut net, "x", &[None, Some(4)], DType::Float32);
    let [one, none] = [vec![x.clone()], vec![]];
    let result = layers::cond(&mut net, &below, |_| Ok(one), |_| Ok(none));
    refused(result, "one branch gives 1 variables, the other 0");
    let [floats, longs] = [vec![x.clone()], vec![count]];
    refused(layers::cond(&mut net, &below, |_| Ok(floats), |_| Ok(longs)), "int64 and float32");
    let narrow = |net: &mut Network| Ok(vec![layers::fc(net, &x, &Fc::new(3))?]);
    let made = layers::cond(&mut net, &below, |_| Ok(vec![x.clone()]), narrow).unwrap();
    assert_eq!(net.shape(&made[0]).unwrap(), [None, None]);
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
        let reshape = lodstone_program::Operator::new("reshape2").input("X", [&x]);
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

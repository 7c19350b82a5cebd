//! Ensembles of decision trees, `TreeEnsemble` of `ai.onnx.ml`.
//!
//! Nodes are lists of attributes with the same indices: a feature, a comparison with a split, and the next node or leaf.
//! Trees are walked in a loop, and a walk that visits more nodes than there are ends in an error.

use lodstone_model::AttributeValue;
use lodstone_schema::Finding;

use super::scores::probit;
use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count};
use crate::error::Outcome;
use crate::operator::{ML, Operator};
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator::dense("TreeEnsemble", ensemble).domain(ML).working(16, 6)];

/// How a node compares a feature with its split.
#[derive(Clone, Copy)]
enum Test {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
    Unequal,
    /// Whether the feature is in the set of this number.
    Member(usize),
}

/// What follows a node.
#[derive(Clone, Copy)]
enum Next {
    Node(usize),
    Leaf(usize),
}

struct Node {
    feature: usize,
    test: Test,
    split: f64,
    /// Whether a missing value, NaN, passes the test.
    missing: bool,
    /// What follows if the test fails, and if it passes.
    next: [Next; 2],
}

struct Ensemble {
    nodes: Vec<Node>,
    sets: Vec<Vec<f64>>,
    roots: Vec<usize>,
    /// The target and the weight of each leaf.
    leaves: Vec<(usize, f64)>,
}

/// Returns the elements of an attribute that is a tensor.
fn numbers(call: &Call<'_>, name: &str) -> Outcome<Option<Vec<f64>>> {
    match call.op.attribute(name) {
        Some(AttributeValue::Tensor(tensor)) => Dense::of(tensor)?.to_f64().map(Some),
        _ => Ok(None),
    }
}

fn indices(call: &Call<'_>, name: &str) -> Outcome<Vec<usize>> {
    call.ints(name).unwrap_or_default().iter().map(|index| count(*index)).collect()
}

impl Ensemble {
    fn of(call: &Call<'_>) -> Outcome<Self> {
        let wanted = |name: &str| {
            numbers(call, name)?.ok_or_else(|| Finding::from(format!("`{name}` is missing")))
        };
        let (splits, modes) = (wanted("nodes_splits")?, wanted("nodes_modes")?);
        let (weights, targets) = (wanted("leaf_weights")?, indices(call, "leaf_targetids")?);
        let lists = |name: &str| indices(call, name);
        let features = lists("nodes_featureids")?;
        let yes = lists("nodes_truenodeids")?.into_iter().zip(lists("nodes_trueleafs")?);
        let no = lists("nodes_falsenodeids")?.into_iter().zip(lists("nodes_falseleafs")?);
        let missing = lists("nodes_missing_value_tracks_true")?;
        let missing = missing.into_iter().map(|tracks| tracks != 0).chain(std::iter::repeat(false));
        let next =
            |(index, is_leaf)| if is_leaf == 0 { Next::Node(index) } else { Next::Leaf(index) };
        let mut sets = 0;
        let mut nodes = Vec::new();
        let parts = splits.into_iter().zip(modes).zip(features).zip(no.zip(yes)).zip(missing);
        for ((((split, mode), feature), (no, yes)), missing) in parts {
            let known =
                [Test::AtMost, Test::Below, Test::AtLeast, Test::Above, Test::Equal, Test::Unequal];
            let tests = known.into_iter().zip(0_u8..);
            let test = tests.into_iter().find(|(_, code)| f64::from(*code) == mode);
            let test = match test {
                Some((test, _)) => test,
                None if mode == 6.0 => {
                    sets += 1;
                    Test::Member(sets - 1)
                }
                None => return Err(format!("node mode {mode} is not supported").into()),
            };
            nodes.push(Node { feature, test, split, missing, next: [next(no), next(yes)] });
        }
        let members = numbers(call, "membership_values")?.unwrap_or_default();
        let sets = members.split(|value| value.is_nan()).map(<[f64]>::to_vec).collect();
        let leaves = targets.into_iter().zip(weights).collect();
        Ok(Self { nodes, sets, roots: indices(call, "tree_roots")?, leaves })
    }

    /// Returns the target and the weight that a tree gives a row.
    fn walk(&self, root: usize, row: &[f64]) -> Outcome<(usize, f64)> {
        let mut at = Next::Node(root);
        for _ in 0..=self.nodes.len() {
            let node = match at {
                Next::Node(number) => self.nodes.get(number).ok_or("a tree has no such node")?,
                Next::Leaf(number) => {
                    let leaf = self.leaves.get(number).copied();
                    return leaf.ok_or_else(|| "a tree has no such leaf".into());
                }
            };
            let value = *row.get(node.feature).ok_or("a node tests a feature that is missing")?;
            let passes = self.passes(node, value) || (node.missing && value.is_nan());
            let [no, yes] = node.next;
            at = if passes { yes } else { no };
        }
        Err("a tree has a cycle".into())
    }

    fn passes(&self, node: &Node, value: f64) -> bool {
        match node.test {
            Test::AtMost => value <= node.split,
            Test::Below => value < node.split,
            Test::AtLeast => value >= node.split,
            Test::Above => value > node.split,
            Test::Equal => value == node.split,
            Test::Unequal => value != node.split,
            Test::Member(set) => self.sets.get(set).is_some_and(|set| set.contains(&value)),
        }
    }
}

/// Returns the weights of the leaves that each row reaches: [rows, features] to [rows, targets].
fn ensemble(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let &[rows, features] = x.shape().as_slice() else {
        return Err(format!("expected rows of features, found {:?}", x.shape()).into());
    };
    let targets = count(call.int("n_targets", 1))?;
    let trees = Ensemble::of(call)?;
    let how = call.int("aggregate_function", 1);
    let mut made = vec![0.0; bounded(&[rows, targets])?];
    let values = x.to_doubles()?;
    if features == 0 || targets == 0 {
        return Err("expected features and targets".into());
    }
    for (row, sums) in values.chunks_exact(features).zip(made.chunks_exact_mut(targets)) {
        // A target that no leaf has stays 0.
        let mut is_reached = vec![false; targets];
        for root in &trees.roots {
            let (target, weight) = trees.walk(*root, row)?;
            let sum = sums.get_mut(target).ok_or("a leaf has a target out of range")?;
            let is_reached =
                is_reached.get_mut(target).ok_or("a leaf has a target out of range")?;
            *sum = match how {
                0 => *sum + weight / trees.roots.len() as f64,
                1 => *sum + weight,
                2 | 3 if !*is_reached => weight,
                2 => sum.min(weight),
                3 => sum.max(weight),
                other => {
                    return Err(Finding::internal(format!("no kernel for aggregation {other}")));
                }
            };
            *is_reached = true;
        }
        transform(sums, call.int("post_transform", 0))?;
    }
    one(Dense::numbers(made, x.dtype(), &[rows, targets])?)
}

/// Applies the transformation of results: none, softmax, logistic, a softmax that keeps zeros, or probit.
fn transform(sums: &mut [f64], how: i64) -> Outcome<()> {
    let top = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match how {
        0 => {}
        2 => sums.iter_mut().for_each(|sum| *sum = 1.0 / (1.0 + (-*sum).exp())),
        1 | 3 => {
            let share = |sum: f64| if how == 3 && sum == 0.0 { 0.0 } else { (sum - top).exp() };
            sums.iter_mut().for_each(|sum| *sum = share(*sum));
            let whole: f64 = sums.iter().sum();
            sums.iter_mut().for_each(|sum| *sum /= whole);
        }
        #[expect(clippy::cast_possible_truncation, reason = "an approximation in single precision")]
        4 => sums.iter_mut().for_each(|sum| *sum = probit(*sum as f32).into()),
        other => return Err(Finding::internal(format!("no kernel for transformation {other}"))),
    }
    Ok(())
}

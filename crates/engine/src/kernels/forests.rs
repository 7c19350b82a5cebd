//! Ensembles of decision trees as `TreeEnsembleRegressor` and `TreeEnsembleClassifier` of `ai.onnx.ml` hold them: nodes
//! and weights refer to a tree and to a node of that tree by number. `trees` has the newer `TreeEnsemble`.
//!
//! Sums are rounded to single precision at each step, unless the features are in double precision.

use std::collections::{BTreeSet, HashMap};

use lodstone_model::{AttributeValue, DType};
use lodstone_schema::Finding;

use super::scores::{Classes, Second, Transform, best, classified, scored};
use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count};
use crate::error::Outcome;
use crate::operator::{ML, Operator};
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("TreeEnsembleClassifier", classify).domain(ML).working(20, 16),
    Operator::dense("TreeEnsembleRegressor", regress).domain(ML).working(16, 6),
];

/// How a node compares a feature with its value.
#[derive(Clone, Copy)]
enum Test {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
    Unequal,
}

/// A node with the indices of the next ones, if the test fails and if it passes.
struct Branch {
    test: Test,
    feature: usize,
    value: f64,
    /// Whether NaN passes the test.
    missing: bool,
    next: [usize; 2],
}

#[derive(Default)]
struct Node {
    /// `None` for a leaf.
    branch: Option<Branch>,
    /// The index of a target or class, and the weight.
    weights: Vec<(usize, f64)>,
}

struct Forest {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    targets: usize,
    base: Vec<f64>,
    /// Whether sums are in single precision.
    is_single: bool,
}

/// Returns the numbers of a list, or of the tensor of the same name.
fn floats(call: &Call<'_>, name: &str) -> Outcome<Vec<f64>> {
    match call.op.attribute(&format!("{name}_as_tensor")) {
        Some(AttributeValue::Tensor(tensor)) => Dense::of(tensor)?.to_f64(),
        _ => Ok(call.floats(name).iter().map(|value| f64::from(*value)).collect()),
    }
}

/// Returns a list of integers, of the expected length.
fn list<'a>(call: &'a Call<'_>, name: &str, length: usize) -> Outcome<&'a [i64]> {
    let found = call.ints(name).unwrap_or_default();
    match found.len() == length {
        true => Ok(found),
        false => Err(format!("expected {length} `{name}`, found {}", found.len()).into()),
    }
}

/// The nodes by tree and number.
type Numbers = HashMap<(i64, i64), usize>;

impl Forest {
    /// Reads nodes, and the weights whose attributes have the given prefix.
    fn of(call: &Call<'_>, prefix: &str, targets: usize) -> Outcome<Self> {
        let modes = call.texts("nodes_modes").unwrap_or_default();
        let (trees, numbers) =
            (list(call, "nodes_treeids", modes.len())?, list(call, "nodes_nodeids", modes.len())?);
        let mut known = Numbers::new();
        let mut roots = Vec::new();
        for (at, key) in trees.iter().copied().zip(numbers.iter().copied()).enumerate() {
            if known.insert(key, at).is_some() {
                return Err(format!("tree {} has two nodes {}", key.0, key.1).into());
            }
            if at.checked_sub(1).and_then(|at| trees.get(at)) != Some(&key.0) {
                roots.push(at);
            }
        }
        let mut nodes = Self::branches(call, &modes, trees, &known)?;
        Self::weigh(call, prefix, targets, &known, &mut nodes)?;
        let is_single = call.input(0)?.dtype() != DType::Float64;
        Ok(Self { nodes, roots, targets, base: floats(call, "base_values")?, is_single })
    }

    fn branches(
        call: &Call<'_>,
        modes: &[String],
        trees: &[i64],
        known: &Numbers,
    ) -> Outcome<Vec<Node>> {
        let features = list(call, "nodes_featureids", modes.len())?;
        let values = floats(call, "nodes_values")?;
        if values.len() != modes.len() {
            return Err(format!("expected {} `nodes_values`", modes.len()).into());
        }
        let next = ["nodes_falsenodeids", "nodes_truenodeids"];
        let [no, yes] = next.map(|name| list(call, name, modes.len()));
        let (no, yes) = (no?, yes?);
        let missing = call.ints("nodes_missing_value_tracks_true").unwrap_or_default();
        let missing = missing.iter().map(|tracks| *tracks == 1).chain(std::iter::repeat(false));
        let parts = modes.iter().zip(trees).zip(features).zip(values).zip(no.iter().zip(yes));
        let mut nodes = Vec::with_capacity(modes.len());
        for (((((mode, tree), feature), value), (no, yes)), missing) in parts.zip(missing) {
            let test = match mode.as_str() {
                "LEAF" => {
                    nodes.push(Node::default());
                    continue;
                }
                "BRANCH_LEQ" => Test::AtMost,
                "BRANCH_LT" => Test::Below,
                "BRANCH_GTE" => Test::AtLeast,
                "BRANCH_GT" => Test::Above,
                "BRANCH_EQ" => Test::Equal,
                "BRANCH_NEQ" => Test::Unequal,
                other => return Err(format!("node mode `{other}` is not supported").into()),
            };
            let at = |number: &i64| known.get(&(*tree, *number)).copied();
            let next = at(no).zip(at(yes)).ok_or("a branch leads to no node of its tree")?;
            let branch =
                Branch { test, feature: count(*feature)?, value, missing, next: next.into() };
            nodes.push(Node { branch: Some(branch), weights: Vec::new() });
        }
        Ok(nodes)
    }

    fn weigh(
        call: &Call<'_>,
        prefix: &str,
        targets: usize,
        known: &Numbers,
        nodes: &mut [Node],
    ) -> Outcome<()> {
        let weights = floats(call, &format!("{prefix}_weights"))?;
        let lists = ["ids", "treeids", "nodeids"].map(|name| format!("{prefix}_{name}"));
        let [ids, trees, numbers] = lists.each_ref().map(|name| list(call, name, weights.len()));
        for (((id, tree), number), weight) in ids?.iter().zip(trees?).zip(numbers?).zip(weights) {
            let node = known.get(&(*tree, *number)).and_then(|at| nodes.get_mut(*at));
            let target = count(*id).ok().filter(|target| *target < targets);
            match (node, target) {
                (Some(node), Some(target)) => node.weights.push((target, weight)),
                _ => return Err("a weight has no node or no target".into()),
            }
        }
        Ok(())
    }

    /// Returns the weights of the leaf that a row reaches.
    fn leaf(&self, root: usize, row: &[f64]) -> Outcome<&[(usize, f64)]> {
        let mut at = root;
        // A longer walk is a cycle.
        for _ in 0..=self.nodes.len() {
            let node = self.nodes.get(at).ok_or("a tree has no such node")?;
            let Some(branch) = &node.branch else { return Ok(&node.weights) };
            let value = *row.get(branch.feature).ok_or("a node tests a feature that is missing")?;
            let [no, yes] = branch.next;
            at = if branch.passes(value) { yes } else { no };
        }
        Err("a tree has a cycle".into())
    }

    fn sum(&self, a: f64, b: f64) -> f64 {
        self.rounded(a + b)
    }

    fn rounded(&self, value: f64) -> f64 {
        if self.is_single { f64::from(single(value)) } else { value }
    }

    /// Returns the sums of the weights of each target that has some.
    fn sums(&self, row: &[f64], merge: impl Fn(f64, f64) -> f64) -> Outcome<Vec<Option<f64>>> {
        let mut sums = vec![None; self.targets];
        for root in &self.roots {
            for (target, weight) in self.leaf(*root, row)? {
                if let Some(sum) = sums.get_mut(*target) {
                    *sum = Some(sum.map_or(*weight, |sum| merge(sum, *weight)));
                }
            }
        }
        Ok(sums)
    }
}

impl Branch {
    fn passes(&self, value: f64) -> bool {
        let passes = match self.test {
            Test::AtMost => value <= self.value,
            Test::Below => value < self.value,
            Test::AtLeast => value >= self.value,
            Test::Above => value > self.value,
            Test::Equal => value == self.value,
            Test::Unequal => value != self.value,
        };
        passes || (self.missing && value.is_nan())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "scores are in single precision")]
fn single(value: f64) -> f32 {
    value as f32
}

/// Returns the number of rows, and that of features of each.
fn table(call: &Call<'_>) -> Outcome<(usize, usize)> {
    match *call.input(0)?.dims() {
        [features] => Ok((1, features)),
        [rows, features] => Ok((rows, features)),
        ref other => Err(format!("expected rows of features, found {other:?}").into()),
    }
}

/// Applies a function to each row of features.
fn each_row<T>(call: &Call<'_>, of: impl Fn(&[f64]) -> Outcome<T>) -> Outcome<Vec<T>> {
    let (x, (rows, features)) = (call.input(0)?, table(call)?);
    // Rows without features take no memory: their number has no limit.
    if features == 0 {
        return Err("expected features, found none".into());
    }
    let values = match x.dtype() {
        DType::Float64 => x.to_doubles()?,
        _ => x.cast_to(DType::Float32)?.to_doubles()?,
    };
    let row = |at: usize| values.get(at * features..(at + 1) * features);
    let lost = || Finding::internal("a row is missing");
    (0..rows).map(|at| of(row(at).ok_or_else(lost)?)).collect()
}

fn regress(call: &Call<'_>) -> Outputs {
    let targets = count(call.int("n_targets", 1))?;
    let (transform, (rows, _)) = (Transform::of(call)?, table(call)?);
    bounded(&[rows, targets])?;
    let forest = Forest::of(call, "target", targets)?;
    let aggregate = call.text("aggregate_function").unwrap_or_else(|| "SUM".to_owned());
    let trees = forest.roots.len() as f64;
    let rows = each_row(call, |row| {
        let sums = match aggregate.as_str() {
            "SUM" | "AVERAGE" => forest.sums(row, |a, b| forest.sum(a, b))?,
            "MIN" => forest.sums(row, f64::min)?,
            "MAX" => forest.sums(row, f64::max)?,
            other => return Err(format!("aggregation `{other}` is not known").into()),
        };
        let base = forest.base.iter().copied().chain(std::iter::repeat(0.0));
        let has_base = forest.base.len() == targets;
        // A target without weights has no base value either.
        let score = |(sum, base): (Option<f64>, f64)| {
            let Some(sum) = sum else { return 0.0 };
            let mean = if aggregate == "AVERAGE" { forest.rounded(sum / trees) } else { sum };
            single(forest.sum(mean, if has_base { base } else { 0.0 }))
        };
        let mut scores = sums.into_iter().zip(base).map(score).collect();
        transform.apply(&mut scores, Second::Absent);
        Ok(scores)
    })?;
    one(scored(rows, targets)?)
}

/// The scores of two classes, and which one is chosen.
struct Binary {
    /// Whether only one class has weights.
    is_one: bool,
    /// Whether no weight is negative: scores are then shares.
    are_shares: bool,
}

impl Binary {
    /// Returns the class of a score.
    fn class(&self, score: f64) -> usize {
        let edge = if self.is_one && self.are_shares { 0.5 } else { 0.0 };
        usize::from(score > edge)
    }

    /// Returns the scores, the class, and how a second score is added. A class without weights has no base value either.
    fn judge(
        &self,
        forest: &Forest,
        [mut one, mut two]: [Option<f64>; 2],
    ) -> (Vec<f32>, usize, Second) {
        let second = match (self.is_one, self.are_shares) {
            (true, true) => Second::Complement,
            (true, false) => Second::Negative,
            (false, _) if forest.base.is_empty() => Second::Negative,
            (false, _) => Second::Absent,
        };
        match *forest.base.as_slice() {
            [_, base] if two.is_some() => {
                two = Some(forest.sum(base, score(one)));
                one = one.and(two.map(|two| -two));
            }
            [base, _] | [base] => one = one.map(|one| forest.sum(one, base)),
            _ => {}
        }
        let class = self.class(score(two.or(one)));
        let mut scores = vec![single(score(one))];
        if two.is_some() || forest.base.len() == 2 {
            scores.push(single(score(two)));
        }
        (scores, class, second)
    }
}

fn classify(call: &Call<'_>) -> Outputs {
    let (transform, classes) = (Transform::of(call)?, Classes::of(call, "classlabels_int64s")?);
    let (width, (rows, _)) = (classes.count(), table(call)?);
    bounded(&[rows, width])?;
    let forest = Forest::of(call, "class", width)?;
    let weighed: BTreeSet<i64> =
        call.ints("class_ids").unwrap_or_default().iter().copied().collect();
    let are_shares = floats(call, "class_weights")?.iter().all(|weight| *weight >= 0.0);
    let binary = Binary { is_one: width == 2 && weighed.len() == 1, are_shares };
    let judged = each_row(call, |row| {
        let sums = forest.sums(row, |a, b| forest.sum(a, b))?;
        let (mut scores, class, second) = match sums.as_slice() {
            [one, two] => binary.judge(&forest, [*one, *two]),
            _ => {
                let (scores, class) = many(&forest, &sums);
                (scores, class, Second::Absent)
            }
        };
        transform.apply(&mut scores, second);
        scores.resize(width, 0.0);
        Ok((scores, class))
    })?;
    let (scores, chosen): (Vec<Vec<f32>>, Vec<usize>) = judged.into_iter().unzip();
    let labels = match (width, classes) {
        // A single class is the positive one.
        (1, classes) => classes.binary().labels(&chosen)?,
        (2, Classes::Numbers(_)) if !binary.is_one => {
            Classes::Numbers(vec![0, 1]).labels(&chosen)?
        }
        (_, classes) => classes.labels(&chosen)?,
    };
    classified(labels, &scored(scores, width)?)
}

/// Returns the score of a class: 0 without weights.
fn score(sum: Option<f64>) -> f64 {
    sum.unwrap_or(0.0)
}

/// Returns the scores of any number of classes but two, and the class with the highest one.
fn many(forest: &Forest, sums: &[Option<f64>]) -> (Vec<f32>, usize) {
    let base = forest.base.iter().copied().map(Some).chain(std::iter::repeat(None));
    let all = sums.iter().zip(base).map(|(sum, base)| match (sum, base) {
        (Some(sum), Some(base)) => Some(forest.sum(*sum, base)),
        (sum, base) => sum.or(base),
    });
    let all: Vec<Option<f64>> = all.collect();
    let scores = all.iter().map(|sum| single(score(*sum))).collect();
    match all.as_slice() {
        [sum] => (scores, usize::from(sum.is_some_and(|sum| sum > 0.0))),
        // Classes without a score come last.
        _ => (scores, best(&all)),
    }
}

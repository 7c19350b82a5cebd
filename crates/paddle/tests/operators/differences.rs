//! Gradients match finite differences of the same operators in double precision, independently of PaddlePaddle.
//!
//! Each recorded case of an operator becomes a program: its results are weighted and summed to one number. The gradient
//! of that number with respect to each input is compared, along a direction, with its central difference.

use std::collections::{BTreeMap, BTreeSet};

use lodstone_model::{
    Attribute, AttributeValue, DType, Op, Operand, Tensor, TensorType, ValueType, Var,
};
use lodstone_paddle::executor::{Dirs, Prepared, Scope};
use lodstone_schema::paddle::{Computation, GRAD, gradient_ops, operator};
use lodstone_store::Blob;

use super::recorded::{OPERATORS, elements, program, recorded};

/// The length of a step along a direction, relative to the point.
const STEP: f64 = 1e-5;

/// The maximum difference between a gradient and the finite difference: relative, and absolute.
const NEAR: (f64, f64) = (1e-6, 1e-7);

/// The effect of rounding on the second difference.
const ROUNDING: f64 = 1e-7;

/// The largest number with meaningful differences. (Windows without elements have the lowest `float32` as maximum.)
const LARGEST: f64 = 1e6;

/// The result of a case.
enum Found {
    /// There is nothing to differentiate.
    Nothing,
    /// The function is not differentiable at this point: other steps have other differences.
    Kink,
    Same,
    Wrong(String),
}

/// Operators whose gradients deliberately do not match finite differences, and the reasons.
const OTHERS: &[(&str, &str)] = &[
    (
        "batch_norm",
        "PaddlePaddle normalizes by running statistics, but its gradient is that of batch statistics",
    ),
    ("grid_sampler", "the gradient is only computed in single precision"),
    ("group_norm", "without `Scale`, PaddlePaddle omits the gradient through the mean"),
    (
        "log_softmax",
        "PaddlePaddle clamps logits to 64 below the maximum, but its gradient ignores this",
    ),
    ("mish", "PaddlePaddle's gradient differs from its function beyond the threshold"),
    ("reduce_prod", "PaddlePaddle divides by elements that are zero"),
    ("sigmoid_cross_entropy_with_logits", "PaddlePaddle applies `pos_weight` only to the sigmoid"),
    ("softmax_with_cross_entropy", "PaddlePaddle assumes that soft labels add up to one"),
];

#[test]
fn gradients_match_finite_differences() {
    let recorded = recorded(OPERATORS);
    let (mut same, mut kinks) = (BTreeMap::<&str, usize>::new(), 0);
    let (mut wrong, mut others) = (Vec::new(), BTreeSet::new());
    for case in &recorded.cases {
        let (op, feed, _) = recorded.case(case);
        let kind = case["kind"].as_str().unwrap();
        match found(op, &feed) {
            Found::Nothing => {}
            Found::Kink => kinks += 1,
            Found::Same => *same.entry(kind).or_default() += 1,
            Found::Wrong(_) if OTHERS.iter().any(|(other, _)| *other == kind) => {
                others.insert(kind);
            }
            Found::Wrong(what) => {
                wrong.push(format!("{}: {what} {}", case["name"], case["attributes"]));
            }
        }
    }
    let cases: usize = same.values().sum();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let listed: BTreeSet<&str> = OTHERS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(others, listed, "the operators that differ are not those that are listed");
    assert!(cases > 500, "{cases} cases of {} operators, and {kinks} kinks", same.len());
}

fn found(op: Op, feed: &[(&str, Tensor)]) -> Found {
    let gradients = gradient_ops(&op, |_| true);
    let is_computed =
        |op: &Op| operator(&op.kind).is_some_and(|row| row.computation != Computation::None);
    let Some(gradient) = gradients.first().filter(|op| is_computed(op)) else {
        return Found::Nothing;
    };
    let mut feed: Vec<(&str, Tensor)> =
        feed.iter().map(|(name, tensor)| (*name, doubled(tensor))).collect();
    // Infinities and NaN have no neighbourhood.
    let is_finite = |tensor: &Tensor| elements(tensor).iter().all(|value| value.is_finite());
    if !feed.iter().all(|(_, tensor)| is_finite(tensor)) {
        return Found::Nothing;
    }
    let is_float = |name: &str| {
        feed.iter().any(|(fed, tensor)| *fed == name && tensor.dtype == DType::Float64)
    };
    let by: Vec<String> = gradient
        .writes()
        .filter_map(|name| name.strip_suffix(GRAD))
        .filter(|name| is_float(name))
        .map(str::to_owned)
        .collect();
    let weighed: Vec<String> = gradient
        .reads()
        .filter_map(|name| name.strip_suffix(GRAD))
        .filter(|name| op.writes().any(|written| written == *name))
        .map(str::to_owned)
        .collect();
    if by.is_empty() || weighed.is_empty() {
        return Found::Nothing;
    }
    // The outputs, to determine the weights.
    let mut whole = program(op, &feed);
    let names: Vec<&str> = weighed.iter().map(String::as_str).collect();
    let forward = Prepared::new(&whole, &names).unwrap();
    let Ok(outs) = forward.run(&mut Scope::default(), &feed, &Dirs::default()) else {
        return Found::Nothing;
    };
    if outs.iter().any(|out| out.dtype != DType::Float64) {
        return Found::Nothing;
    }
    let weights: Vec<(String, Tensor)> = (1_u64..)
        .zip(weighed.iter().zip(&outs))
        .map(|(seed, (name, out))| (format!("{name}.weight"), random(&out.shape, seed)))
        .collect();
    weigh(&mut whole, &weighed, &outs);
    feed.extend(weights.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())));

    let by: Vec<&str> = by.iter().map(String::as_str).collect();
    let run = match Prepared::value_and_grad(&whole, "value", &by) {
        Ok(run) => run,
        Err(error) => return Found::Wrong(error.to_string()),
    };
    let grads = match run.run(&mut Scope::default(), &feed, &Dirs::default()) {
        Ok(found) => found,
        Err(error) => return Found::Wrong(error.to_string()),
    };
    let value = Prepared::new(&whole, &["value"]).unwrap();
    for (name, grad) in by.iter().zip(grads.iter().skip(1)) {
        let at = feed.iter().position(|(fed, _)| fed == name).unwrap();
        let start = feed[at].1.clone();
        let direction = random(&start.shape, 17);
        let mut at_step = |step: f64| {
            feed[at].1 = moved(&start, &direction, step);
            let found = value.run(&mut Scope::default(), &feed, &Dirs::default());
            feed[at].1 = start.clone();
            found.map_or(f64::NAN, |found| elements(&found[0])[0])
        };
        let here = at_step(0.0);
        if here.abs() > LARGEST {
            return Found::Nothing;
        }
        // The slope, and the second difference: for smooth functions, it is proportional to the step.
        let mut around = |step: f64| {
            let (behind, before) = (at_step(-step), at_step(step));
            ((before - behind) / (2.0 * step), (before - 2.0 * here + behind) / step)
        };
        let ((slope, turn), (nearer, half)) = (around(STEP), around(STEP / 2.0));
        let near = |a: f64, b: f64, (relative, absolute): (f64, f64)| {
            (a - b).abs() <= absolute + relative * a.abs()
        };
        if !near(slope, nearer, NEAR) || !near(half, turn / 2.0, (0.1, ROUNDING)) {
            return Found::Kink;
        }
        let told: f64 = elements(grad).iter().zip(elements(&direction)).map(|(a, b)| a * b).sum();
        if !near(slope, told, NEAR) {
            return Found::Wrong(format!("by `{name}`: {told}, by differences {slope}"));
        }
    }
    Found::Same
}

/// Converts a `float32` tensor to `float64`.
fn doubled(tensor: &Tensor) -> Tensor {
    match tensor.dtype {
        DType::Float32 => doubles(&elements(tensor), tensor),
        _ => tensor.clone(),
    }
}

fn doubles(values: &[f64], like: &Tensor) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut made = Tensor::dense(DType::Float64, like.shape.clone(), Blob::memory(bytes));
    made.lod = like.lod.clone();
    made
}

fn moved(tensor: &Tensor, direction: &Tensor, step: f64) -> Tensor {
    let values = elements(tensor).into_iter().zip(elements(direction));
    doubles(&values.map(|(value, along)| value + step * along).collect::<Vec<_>>(), tensor)
}

/// Returns pseudo-random numbers from -1 to 1.
fn random(shape: &[u64], seed: u64) -> Tensor {
    let mut state = seed;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    };
    let values: Vec<f64> = (0..shape.iter().product::<u64>()).map(|_| draw()).collect();
    doubles(&values, &Tensor::dense(DType::Float64, shape.to_vec(), Blob::default()))
}

/// Appends operators that multiply results by their weights, and sum everything up to `value`.
fn weigh(program: &mut lodstone_model::Program, names: &[String], outs: &[Tensor]) {
    let block = &mut program.blocks[0];
    let mut declare = |name: String, tensor: TensorType| {
        let value = ValueType::tensor(tensor);
        match block.vars.iter_mut().find(|var| var.name == name) {
            Some(var) => var.value = value,
            None => block.vars.push(Var { name, value, ..Var::default() }),
        }
    };
    let number = TensorType { shape: Some(Vec::new()), ..TensorType::of(&outs[0]) };
    let mut ops = Vec::new();
    for (name, out) in names.iter().zip(outs) {
        let [weight, product, sum] =
            ["weight", "product", "sum"].map(|part| format!("{name}.{part}"));
        for one in [name, &weight, &product] {
            declare(one.clone(), TensorType::of(out));
        }
        declare(sum.clone(), number.clone());
        ops.push(op(
            "elementwise_mul",
            &[("X", &[name]), ("Y", &[&weight])],
            &product,
            &[("axis", AttributeValue::Int(-1))],
        ));
        ops.push(op(
            "reduce_sum",
            &[("X", &[&product])],
            &sum,
            &[
                ("reduce_all", AttributeValue::Bool(true)),
                ("keep_dim", AttributeValue::Bool(false)),
            ],
        ));
    }
    declare("value".to_owned(), number);
    let sums: Vec<String> = names.iter().map(|name| format!("{name}.sum")).collect();
    let sums: Vec<&String> = sums.iter().collect();
    ops.push(op("sum", &[("X", &sums)], "value", &[]));
    block.ops.extend(ops);
}

fn op(
    kind: &str,
    inputs: &[(&str, &[&String])],
    out: &str,
    attributes: &[(&str, AttributeValue)],
) -> Op {
    let operand = |(slot, args): &(&str, &[&String])| Operand {
        slot: (*slot).to_owned(),
        args: args.iter().map(|name| (*name).clone()).collect(),
    };
    let attribute = |(name, value): &(&str, AttributeValue)| Attribute {
        name: (*name).to_owned(),
        value: value.clone(),
    };
    Op {
        kind: kind.to_owned(),
        inputs: inputs.iter().map(operand).collect(),
        outputs: vec![Operand { slot: "Out".to_owned(), args: vec![out.to_owned()] }],
        attributes: attributes.iter().map(attribute).collect(),
        ..Op::default()
    }
}

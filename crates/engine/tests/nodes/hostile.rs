//! Kernels return a result or an error for everything that their rules accept, without a panic: extreme integers in
//! inputs and attributes, dims of 0, every element type.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lodstone_engine::{Dense, Mode, Threads};
use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Code;
use lodstone_schema::onnx::infer::{NoBodies, ValueInfo, infer_op};
use lodstone_schema::onnx::{newest_opset, upgrade};

use super::{cases, golden, open, run_op};

/// The budget of these runs is small: the numbers request more than any tensor may have.
const EXTREMES: [i64; 7] = [i64::MIN, i64::MAX, -(1 << 40), 1 << 40, -1, 0, 3];

const TYPES: [DType; 13] = [
    DType::Float64,
    DType::Float32,
    DType::Float16,
    DType::BFloat16,
    DType::Int64,
    DType::Int32,
    DType::Int16,
    DType::Int8,
    DType::Uint64,
    DType::Uint32,
    DType::Uint16,
    DType::Uint8,
    DType::Bool,
];

/// An operator and its inputs.
#[derive(Clone)]
struct Subject {
    op: Op,
    opset: i64,
    inputs: Vec<Option<Tensor>>,
}

fn subjects() -> Vec<(String, Subject)> {
    let subject = |name: String| {
        let mut model = open(&golden().join(format!("{name}.onnx")));
        // Operators of other domains are not run on their own.
        let own = model.main().expect("a program").ops().all(|op| op.domain.is_empty());
        if !own {
            return None;
        }
        upgrade(&mut model, newest_opset("").expect("known")).expect("upgraded");
        let program = model.main().expect("a program");
        let op = program.blocks[0].ops.last().expect("an operator").clone();
        let tensor = |name: &String| model.parameter(name).cloned();
        let inputs = op.input("").iter().map(tensor).collect();
        let opset = newest_opset("").expect("known");
        Some((name, Subject { op, opset, inputs }))
    };
    cases(&golden()).into_iter().filter_map(subject).collect()
}

/// Returns the results, or `None` if the kernel rejects the inputs.
fn run(subject: &Subject) -> Option<Vec<Tensor>> {
    let infos: Vec<_> = subject.inputs.iter().map(|it| it.as_ref().map(ValueInfo::of)).collect();
    let infos: Vec<_> = infos.iter().map(Option::as_ref).collect();
    let told = infer_op(&subject.op, subject.opset, &infos, &mut NoBodies).ok()?;
    let made = match run_op(&subject.op, subject.opset, &subject.inputs, Mode::Fast) {
        Err(finding) if finding.code == Code::Internal => panic!("{finding}"),
        made => made.ok()?,
    };
    let infos = told.iter().zip(subject.op.output(""));
    let told: Vec<_> = infos.filter(|(_, name)| !name.is_empty()).map(|(info, _)| info).collect();
    for (info, tensor) in told.into_iter().zip(&made) {
        let wanted = info.value.tensor_type().expect("a tensor");
        assert_eq!(tensor.dtype, wanted.dtype, "the type that its rule tells");
        if let Some(shape) = &wanted.shape {
            let known = shape.iter().zip(&tensor.shape).all(|(dim, found)| match dim {
                lodstone_model::Dim::Known(dim) => dim == found,
                _ => true,
            });
            assert!(known && shape.len() == tensor.shape.len(), "{shape:?}: {:?}", tensor.shape);
        }
    }
    Some(made)
}

/// Runs variants of all cases; returns the number of those that were computed.
fn all(variants: impl Fn(&Subject) -> Vec<(String, Subject)>) -> usize {
    let (mut wrong, mut computed) = (BTreeMap::new(), 0);
    for (name, subject) in subjects() {
        for (what, variant) in variants(&subject) {
            match catch_unwind(AssertUnwindSafe(|| run(&variant))) {
                Ok(made) => computed += usize::from(made.is_some()),
                Err(_) => {
                    wrong.entry(subject.op.kind.clone()).or_insert(format!("{name}: {what}"));
                }
            }
        }
    }
    let told: Vec<_> = wrong.iter().map(|(kind, what)| format!("{kind}: {what}")).collect();
    assert!(told.is_empty(), "{} kinds panic:\n{}", told.len(), told.join("\n"));
    computed
}

/// Converts the elements to another type.
fn converted(tensor: &Tensor, to: DType) -> Tensor {
    let made = Dense::of(tensor).and_then(|it| it.cast(to, &Threads::default()));
    made.and_then(|it| it.tensor()).expect("converted")
}

/// Returns the elements as numbers.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    Dense::of(tensor).and_then(|it| it.to_f64()).expect("read")
}

/// Returns the tensor with other bytes.
fn with_bytes(tensor: &Tensor, dtype: DType, bytes: Vec<u8>) -> Tensor {
    Tensor::dense(dtype, tensor.shape.clone(), lodstone_store::Blob::memory(bytes))
}

/// Returns the tensor with one element replaced.
fn with_element(tensor: &Tensor, place: usize, value: i64) -> Tensor {
    let wide = converted(tensor, DType::Int64);
    let mut bytes = wide.data.bytes().expect("read").to_vec();
    bytes[place * 8..][..8].copy_from_slice(&value.to_le_bytes());
    converted(&with_bytes(tensor, DType::Int64, bytes), tensor.dtype)
}

#[test]
fn extreme_integers_of_inputs_are_answered() {
    let computed = all(|subject| {
        let mut variants = Vec::new();
        for (number, input) in subject.inputs.iter().enumerate() {
            let wide = |it: &&Tensor| matches!(it.dtype, DType::Int64 | DType::Int32);
            let Some(tensor) = input.as_ref().filter(wide) else { continue };
            let count = usize::try_from(tensor.shape.iter().product::<u64>()).expect("small");
            for (place, value) in (0..count.min(4)).flat_map(|at| EXTREMES.map(|it| (at, it))) {
                let mut variant = subject.clone();
                variant.inputs[number] = Some(with_element(tensor, place, value));
                variants.push((format!("{value} at {place} of input {number}"), variant));
            }
        }
        variants
    });
    assert!(computed > 300, "{computed}");
}

#[test]
fn extreme_attributes_are_answered() {
    let computed = all(|subject| {
        let mut variants = Vec::new();
        for (number, attribute) in subject.op.attributes.iter().enumerate() {
            for value in EXTREMES {
                let mut variant = subject.clone();
                let changed = &mut variant.op.attributes[number].value;
                match changed {
                    AttributeValue::Long(old) => *old = value,
                    AttributeValue::Longs(list) if !list.is_empty() => list[0] = value,
                    _ => continue,
                }
                variants.push((format!("{value} as `{}`", attribute.name), variant));
            }
        }
        variants
    });
    assert!(computed > 200, "{computed}");
}

#[test]
fn extreme_numbers_are_answered() {
    const EXTREMES: [f32; 7] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, 1e-30, -1.0, 0.0];
    let computed = all(|subject| {
        let mut variants = Vec::new();
        for value in EXTREMES {
            for (number, attribute) in subject.op.attributes.iter().enumerate() {
                let mut variant = subject.clone();
                match &mut variant.op.attributes[number].value {
                    AttributeValue::Float(old) => *old = value,
                    AttributeValue::Floats(list) if !list.is_empty() => list[0] = value,
                    _ => continue,
                }
                variants.push((format!("{value} as `{}`", attribute.name), variant));
            }
            for (number, input) in subject.inputs.iter().enumerate() {
                let single = |it: &&Tensor| it.dtype == DType::Float32 && it.nbytes() > 0;
                let Some(tensor) = input.as_ref().filter(single) else { continue };
                let mut bytes = tensor.data.bytes().expect("read").to_vec();
                for place in [0, bytes.len() - 4] {
                    bytes[place..][..4].copy_from_slice(&value.to_le_bytes());
                    let mut variant = subject.clone();
                    let made = with_bytes(tensor, DType::Float32, bytes.clone());
                    variant.inputs[number] = Some(made);
                    variants.push((format!("{value} at {place} of input {number}"), variant));
                }
            }
        }
        variants
    });
    assert!(computed > 1000, "{computed}");
}

#[test]
fn dims_of_0_are_answered() {
    let computed = all(|subject| {
        let mut variants = Vec::new();
        for (number, input) in subject.inputs.iter().enumerate() {
            let Some(tensor) = input else { continue };
            for at in 0..tensor.shape.len() {
                // In all inputs with the same dims, as element-wise operators require, and in a single input.
                for together in [true, false] {
                    let mut variant = subject.clone();
                    for (other, slot) in variant.inputs.iter_mut().enumerate() {
                        let Some(slot) = slot else { continue };
                        if other == number || (together && slot.shape == tensor.shape) {
                            slot.shape[at] = 0;
                            slot.data = lodstone_store::Blob::memory(Vec::new());
                        }
                    }
                    variants.push((format!("no dim {at} of input {number}"), variant));
                }
            }
        }
        variants
    });
    assert!(computed > 300, "{computed}");
}

#[test]
fn every_type_that_a_rule_lets_through_is_answered() {
    let computed = all(|subject| {
        let mut variants = Vec::new();
        for number in 0..subject.inputs.len() {
            for dtype in TYPES {
                for together in [true, false] {
                    let mut variant = subject.clone();
                    let Some(old) = subject.inputs[number].as_ref().map(|it| it.dtype) else {
                        continue;
                    };
                    for (other, slot) in variant.inputs.iter_mut().enumerate() {
                        let Some(slot) = slot else { continue };
                        let is_computed = Dense::of(slot).is_ok_and(|it| it.to_f64().is_ok());
                        let changes = other == number || (together && slot.dtype == old);
                        if changes && is_computed {
                            *slot = converted(slot, dtype);
                        }
                    }
                    variants.push((format!("{dtype} as input {number}"), variant));
                }
            }
        }
        variants
    });
    assert!(computed > 1000, "{computed}");
}

/// Returns the subject with all its floats converted to another type.
fn in_type(subject: &Subject, from: DType, to: DType) -> Subject {
    let mut variant = subject.clone();
    for tensor in variant.inputs.iter_mut().flatten().filter(|tensor| tensor.dtype == from) {
        *tensor = converted(tensor, to);
    }
    variant
}

/// Returns the distance of two results, relative to their largest number.
fn distance(one: &Tensor, other: &Tensor) -> f64 {
    let (one, other) = (numbers(one), numbers(other));
    let finite = |list: &[f64]| {
        list.iter()
            .copied()
            .filter(|it| it.is_finite())
            .fold(1.0, |most: f64, it| most.max(it.abs()))
    };
    let most = finite(&other);
    let apart = |(a, b): (&f64, &f64)| match a == b || (a.is_nan() && b.is_nan()) {
        true => 0.0,
        false => (a - b).abs() / most,
    };
    one.iter().zip(&other).map(apart).fold(0.0, |most, it| if it > most { it } else { most })
}

#[test]
fn numbers_of_other_precisions_are_computed_alike() {
    let (mut wrong, mut compared) = (BTreeMap::new(), 0);
    for (name, subject) in subjects() {
        for (to, near) in [(DType::Float64, 1e-4), (DType::Float16, 1e-2), (DType::BFloat16, 6e-2)]
        {
            let variant = in_type(&subject, DType::Float32, to);
            if variant.inputs == subject.inputs {
                continue;
            }
            // The result of single precision for the same numbers.
            let same = in_type(&variant, to, DType::Float32);
            let (Some(made), Some(expected)) = (run(&variant), run(&same)) else { continue };
            compared += 1;
            for (made, expected) in made.iter().zip(&expected) {
                // Large numbers are infinite in half precision.
                let far = distance(made, &converted(expected, made.dtype));
                if far > near || made.shape != expected.shape {
                    wrong.insert(format!("{} {to}", subject.op.kind), format!("{name}: {far}"));
                }
            }
        }
    }
    let told: Vec<_> = wrong.iter().map(|(kind, what)| format!("{kind}: {what}")).collect();
    assert!(told.is_empty(), "{} kinds differ:\n{}", told.len(), told.join("\n"));
    assert!(compared > 300, "{compared}");
}

/// A generator of small random numbers (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count.max(1) as u64).expect("small")
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

const SMALL: [i64; 10] = [-3, -2, -1, 0, 1, 2, 3, 4, 5, i64::MAX];

/// Changes an attribute: an integer, a float, a list or its length.
fn change_attribute(value: &mut AttributeValue, chance: &mut Chance) {
    match value {
        AttributeValue::Long(old) => *old = chance.of(&SMALL),
        AttributeValue::Float(old) => *old = chance.of(&[-1.0, 0.0, 0.5, 1e30, f32::NAN]),
        AttributeValue::Longs(list) => match chance.below(4) {
            0 => drop(list.pop()),
            1 => list.push(chance.of(&SMALL)),
            2 => *list = vec![chance.of(&SMALL); chance.below(6)],
            _ => list.iter_mut().for_each(|it| *it = chance.of(&SMALL)),
        },
        AttributeValue::Floats(list) => match chance.below(3) {
            0 => drop(list.pop()),
            1 => list.push(chance.of(&[-1.0, 0.0, 1e30])),
            _ => list.clear(),
        },
        _ => {}
    }
}

/// Replaces an input by a tensor of random dims and elements, or omits it.
fn change_input(input: &mut Option<Tensor>, chance: &mut Chance) {
    let Some(tensor) = input else { return };
    if chance.below(8) == 0 {
        *input = None;
        return;
    }
    let mut shape = tensor.shape.clone();
    match chance.below(4) {
        0 => shape = (0..chance.below(6)).map(|_| chance.of(&[0, 1, 2, 3, 5])).collect(),
        1 => drop(shape.pop()),
        2 => shape.insert(0, chance.of(&[1, 2])),
        _ if shape.is_empty() => {}
        _ => {
            let at = chance.below(shape.len());
            shape[at] = chance.of(&[0, 1, 2, 3, 7]);
        }
    }
    let size = tensor.dtype.size_of(&shape).expect("a size");
    let bytes = (0..size).map(|_| match tensor.dtype {
        DType::Bool => u8::try_from(chance.below(2)).expect("a byte"),
        _ => chance.of(&[0, 1, 2, 63, 64, 127, 128, 191, 255]),
    });
    let bytes: Vec<u8> = bytes.collect();
    *tensor = Tensor::dense(tensor.dtype, shape, lodstone_store::Blob::memory(bytes));
}

/// Random attributes and inputs, several at once; `LODSTONE_KERNEL_ROUNDS` variants of each case.
#[test]
fn random_attributes_and_shapes_are_answered() {
    let rounds = std::env::var("LODSTONE_KERNEL_ROUNDS").ok().and_then(|it| it.parse().ok());
    let rounds: u64 = rounds.unwrap_or(30);
    let computed = all(|subject| {
        let variant = |round: u64| {
            let seed = subject
                .op
                .kind
                .bytes()
                .fold(round, |seed, it| seed.wrapping_mul(31).wrapping_add(u64::from(it)));
            let mut chance = Chance(seed);
            let mut variant = subject.clone();
            for _ in 0..=chance.below(3) {
                let (attributes, inputs) = (variant.op.attributes.len(), variant.inputs.len());
                match chance.below(attributes + inputs) {
                    at if at < attributes => {
                        change_attribute(&mut variant.op.attributes[at].value, &mut chance);
                    }
                    at if at - attributes < inputs => {
                        let dense = |it: &Tensor| matches!(it.kind, lodstone_model::Kind::Dense);
                        let input = &mut variant.inputs[at - attributes];
                        if input.as_ref().is_some_and(dense) {
                            change_input(input, &mut chance);
                        }
                    }
                    _ => {}
                }
            }
            (format!("round {round}"), variant)
        };
        (0..rounds).map(variant).collect()
    });
    assert!(computed > 1000, "{computed}");
}

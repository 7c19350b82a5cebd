//! Chains return the results of the kernels for any number of elements.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

use lodstone_model::{Attribute, AttributeValue, DType, Op, Operand};

use super::chain::{BLOCK, Chain, MAX_SERIAL, Producer};
use super::rules::Rule;
use crate::evaluate::evaluate;
use crate::gemm::Buffers;
use crate::kernels::operator;
use crate::layout;
use crate::layout::ordered;
use crate::simd::curves::erf;
use crate::tensor::{Dense, Order};
use crate::threads::Threads;
use crate::value::Value;

type Registers = Vec<Option<Value>>;

/// Operators over registers: kind, inputs, output.
type Steps = &'static [(&'static str, &'static [usize], usize)];

/// More than one processor handles alone, and not a whole number of blocks.
const MANY: usize = 3 * MAX_SERIAL + 17;

fn op(kind: &str) -> Op {
    let attribute = |name: &str, value| Attribute { name: name.to_owned(), value };
    let attributes = match kind {
        "Cast" => vec![attribute("to", AttributeValue::Long(1))],
        _ => Vec::new(),
    };
    let outputs = vec![Operand { slot: String::new(), args: vec!["y".to_owned()] }];
    Op { kind: kind.to_owned(), attributes, outputs, ..Op::default() }
}

fn rule(op: &Op) -> Rule {
    operator(&op.domain, &op.kind).and_then(|operator| operator.rule(op)).expect("a rule")
}

/// Returns `count` floats of both signs, with ties, zeros and NaN.
fn numbers(count: usize, seed: u32) -> Dense {
    let value = |place: u32| match place.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 7 {
        mixed if mixed % 97 == 0 => 0.0,
        mixed if mixed % 1009 == 0 => f32::NAN,
        mixed if mixed % 1013 == 0 => f32::INFINITY,
        mixed => (mixed % 4001) as f32 / 400.0 - 5.0,
    };
    let values: Vec<f32> = (0..u32::try_from(count).unwrap()).map(value).collect();
    Dense::from_vec(values, [count]).unwrap()
}

fn values(items: impl IntoIterator<Item = Dense>) -> Registers {
    items.into_iter().map(|item| Some(item.into())).collect()
}

fn elements(dense: &Dense) -> Vec<f64> {
    dense.cast(DType::Float64, &Threads::default()).unwrap().to_f64().unwrap()
}

/// Compares a chain with its operators run one by one; `read` lists registers that are read afterwards.
fn check(first: Vec<Dense>, steps: Steps, read: &[usize], tolerance: f64) {
    let ops: Vec<(Op, Vec<Option<usize>>, [usize; 1])> = steps
        .iter()
        .map(|(kind, inputs, output)| {
            (op(kind), inputs.iter().map(|input| Some(*input)).collect(), [*output])
        })
        .collect();
    let mut registers = values(first);
    registers.resize(20, None);
    let links = ops.iter().map(|(op, inputs, outputs)| (rule(op), &inputs[..], outputs.to_vec()));
    let chain = Chain::of(links.collect(), |register| read.contains(&register)).expect("a chain");
    let made =
        chain.run(&registers, &Buffers::default(), &Threads::default()).unwrap().expect("made");
    for (op, inputs, [output]) in &ops {
        let inputs: Vec<Option<Value>> =
            inputs.iter().map(|input| registers[input.unwrap()].clone()).collect();
        registers[*output] = evaluate(op, &inputs, &Threads::default()).unwrap().pop();
    }
    let numbers: Vec<usize> = made.iter().map(|(register, _)| *register).collect();
    assert_eq!(numbers, read);
    for (register, found) in made {
        let wanted = registers[register].as_ref().unwrap();
        let (found, wanted) = (found.dense().unwrap(), wanted.dense().unwrap());
        assert_eq!((found.dims(), found.dtype()), (wanted.dims(), wanted.dtype()));
        for (found, wanted) in elements(found).into_iter().zip(elements(wanted)) {
            let near = found == wanted
                || found.is_nan() && wanted.is_nan()
                || (found - wanted).abs() <= tolerance * wanted.abs();
            assert!(near, "{found}, and {wanted} one by one");
        }
    }
}

#[test]
fn chains_give_what_operators_give_one_by_one() {
    const ARITHMETIC: Steps = &[
        ("Add", &[0, 1], 4),
        ("Mul", &[4, 2], 5),
        ("Abs", &[5], 6),
        ("Sub", &[6, 4], 7),
        ("Div", &[7, 1], 8),
        ("Max", &[8, 0], 9),
        ("Sqrt", &[6], 10),
        ("Log", &[10], 11),
        ("Neg", &[11], 12),
        ("Abs", &[12], 13),
    ];
    const TRUTHS: Steps = &[
        ("Greater", &[0, 1], 4),
        ("LessOrEqual", &[0, 2], 5),
        ("And", &[4, 5], 6),
        ("Not", &[6], 7),
        ("Or", &[7, 4], 8),
        ("Where", &[8, 0, 1], 9),
        ("Cast", &[6], 10),
        ("Equal", &[9, 10], 11),
        ("Less", &[9, 0], 12),
        ("GreaterOrEqual", &[9, 0], 13),
    ];
    const CURVES: Steps =
        &[("Exp", &[0], 4), ("Sigmoid", &[0], 5), ("Tanh", &[0], 6), ("Mul", &[6, 1], 7)];
    for count in [2, BLOCK, MANY] {
        let inputs = || vec![numbers(count, 1), numbers(count, 2), numbers(1, 3)];
        check(inputs(), ARITHMETIC, &[9, 13], 0.0);
        check(inputs(), TRUTHS, &[6, 9, 10, 11, 12, 13], 0.0);
        check(inputs(), &[("Erf", &[0], 4), ("Mul", &[4, 1], 5)], &[4, 5], 5e-7);
        check(inputs(), CURVES, &[4, 5, 6, 7], 5e-7);
    }
}

#[test]
fn activations_give_what_kernels_give() {
    const ACTIVATIONS: Steps = &[
        ("Relu", &[0], 4),
        ("LeakyRelu", &[0], 5),
        ("HardSigmoid", &[0], 6),
        ("HardSwish", &[0], 7),
        ("Max", &[0, 1], 8),
        ("Min", &[0, 1], 9),
        ("Clip", &[0, 2, 3], 10),
    ];
    for count in [2, BLOCK, MANY] {
        let limit = |value: f32| Dense::from_vec(vec![value], [1]).unwrap();
        let inputs = vec![numbers(count, 1), numbers(count, 2), limit(-1.5), limit(2.25)];
        check(inputs, ACTIVATIONS, &[4, 5, 6, 7, 8, 9, 10], 0.0);
    }
}

#[test]
fn results_in_place_are_those_of_a_pass() {
    const CHAINS: [Steps; 4] = [
        &[("HardSwish", &[0], 4)],
        // The last operator reads what is in its place.
        &[("Sigmoid", &[0], 4), ("Mul", &[0, 4], 5)],
        &[("Add", &[0, 1], 4), ("Relu", &[4], 5)],
        &[("Mul", &[1, 1], 4), ("Mul", &[4, 4], 5), ("Add", &[5, 0], 6)],
    ];
    for steps in CHAINS {
        let ops: Vec<Op> = steps.iter().map(|(kind, _, _)| op(kind)).collect();
        let inputs =
            |(_, inputs, _): &(_, &[usize], _)| inputs.iter().map(|it| Some(*it)).collect();
        let inputs: Vec<Vec<Option<usize>>> = steps.iter().map(inputs).collect();
        let links = ops.iter().zip(&inputs).zip(steps);
        let links =
            links.map(|((op, inputs), (_, _, output))| (rule(op), &inputs[..], vec![*output]));
        let last = steps[steps.len() - 1].2;
        let chain = Chain::of(links.collect(), |register| register == last).unwrap();
        for count in [2, BLOCK + 5, 3 * BLOCK] {
            let mut registers = values([numbers(count, 1), numbers(count, 2)]);
            registers.resize(20, None);
            let made = chain.run(&registers, &Buffers::default(), &Threads::default());
            let made = made.unwrap().unwrap().pop().unwrap().1;
            let numbers = |value: &Value| -> Vec<u32> {
                let values = ordered(value.dense().unwrap(), Order::RowMajor).unwrap();
                values.iter().map(|it| it.to_bits()).collect()
            };
            let before = registers[0].as_ref().unwrap();
            let mut found: Vec<f32> = numbers(before).into_iter().map(f32::from_bits).collect();
            let before = Producer { register: 0, dims: &[count], order: Order::RowMajor };
            let bound = chain.bind(&registers, Some(before)).unwrap().unwrap();
            let (first, rest) = found.split_at_mut(count / 3);
            bound.apply_in_place(0, first).unwrap();
            bound.apply_in_place(count / 3, rest).unwrap();
            let found: Vec<u32> = found.into_iter().map(f32::to_bits).collect();
            assert_eq!(found, numbers(&made), "{steps:?}");
        }
    }
}

/// Returns a tensor with the same elements, whose channels are innermost in memory.
fn channels_last(item: &Dense) -> Dense {
    let values = ordered(item, Order::ChannelsLast).unwrap().to_vec();
    layout::numbers(values, item.dims(), Order::ChannelsLast).unwrap()
}

#[test]
fn inputs_are_broadcast_in_every_order() {
    const SUM: Steps = &[("Add", &[0, 1], 4), ("Mul", &[4, 0], 5)];
    const OTHERS: &[&[usize]] =
        &[&[1, 5, 1, 1], &[5, 1, 1], &[2, 5, 1, 1], &[7], &[2, 1, 3, 7], &[1, 1, 3, 1], &[1]];
    let shaped =
        |shape: &[usize], seed| numbers(shape.iter().product(), seed).reshaped(shape).unwrap();
    for other in OTHERS {
        check(vec![shaped(&[2, 5, 3, 7], 1), shaped(other, 2)], SUM, &[4, 5], 0.0);
    }
    let links = SUM.iter().map(|(kind, inputs, output)| {
        let inputs: Vec<Option<usize>> = inputs.iter().map(|input| Some(*input)).collect();
        (op(kind), inputs, vec![*output])
    });
    let links: Vec<_> = links.collect();
    let links = links.iter().map(|(op, inputs, outputs)| (rule(op), &inputs[..], outputs.clone()));
    let chain = Chain::of(links.collect(), |register| register == 5).unwrap();
    for other in OTHERS.iter().copied().chain([&[2, 5, 3, 7][..]]) {
        let (x, other) = (shaped(&[2, 5, 3, 7], 1), shaped(other, 2));
        let run = |x: Dense| {
            let mut registers: Registers = vec![Some(x.into()), Some(other.clone().into())];
            registers.resize(20, None);
            let made = chain.run(&registers, &Buffers::default(), &Threads::default());
            made.unwrap().unwrap().pop().unwrap().1
        };
        let (last, first) = (run(channels_last(&x)), run(x));
        let (last, first) = (last.dense().unwrap(), first.dense().unwrap());
        assert!(Order::ChannelsLast.is_of(last) && Order::RowMajor.is_of(first));
        assert_eq!(last.bytes().unwrap(), first.bytes().unwrap());
    }
}

#[test]
fn some_inputs_are_left_to_the_kernels() {
    let add = op("Add");
    let of = |registers: [Dense; 2]| {
        let inputs = [Some(0), Some(1)];
        let chain = Chain::of(vec![(rule(&add), &inputs[..], vec![2])], |register| register == 2);
        let made = chain.expect("a chain");
        let made = made.run(&values(registers), &Buffers::default(), &Threads::default());
        made.unwrap().is_some()
    };
    let shaped = |count, shape: &[usize]| numbers(count, 1).reshaped(shape).unwrap();
    assert!(of([shaped(6, &[2, 3]), shaped(6, &[2, 3])]));
    // The result has dims that no input has.
    assert!(!of([shaped(6, &[2, 3]), shaped(1, &[1, 1, 1])]));
    assert!(!of([shaped(2, &[2, 1]), shaped(3, &[1, 3])]));
    assert!(!of([shaped(6, &[2, 3]), shaped(2, &[2])]));
    assert!(!of([shaped(1, &[1]), shaped(1, &[1])]));
    assert!(!of([shaped(6, &[6]), Dense::longs(&[1, 2, 3, 4, 5, 6])]));
}

#[test]
fn the_error_function_is_as_near_as_single_precision_is() {
    // By Python's `math.erf`.
    for (x, wanted) in [
        (1e-20, 1.128_379_167_095_512_6e-20),
        (0.1, 0.112_462_916_018_284_9),
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (2.0, 0.995_322_265_018_952_7),
        (3.5, 0.999_999_256_901_628),
        (9.0, 1.0),
    ] {
        for sign in [1.0, -1.0] {
            let found = f64::from(erf((sign * x) as f32));
            assert!((found - sign * wanted).abs() <= 5e-7 * wanted, "{found} of {x}");
        }
    }
    assert!(erf(f32::NAN).is_nan());
    assert_eq!([4.0, f32::NEG_INFINITY].map(erf), [1.0, -1.0]);
}

//! Products, rows and recurrent cells.

use lodstone_engine::{Budget, Context, Executable, ExecutableOptions, Mode, Threads, Value};
use lodstone_model::{
    AttributeValue, Block, Dialect, Model, Operand, Parameter, Program, Topology,
};

use super::case::{case, count, op, tensor};

/// The operators after a product that gives `y`.
const AFTER_PRODUCT: &[&[(&str, &[&str])]] = &[
    &[("Identity", &["y"])],
    &[("Relu", &["y"])],
    &[("Add", &["y", "each"]), ("Gelu", &["1"])],
    &[("Add", &["y", "y"]), ("Tanh", &["1"])],
    &[("Softmax", &["y"])],
];

#[test]
fn products_of_all_sizes_are_near_the_reference() {
    let mut cases = Vec::new();
    let sizes: [(&[u64], u64, u64); 16] = [
        (&[1, 1], 1, 4),
        (&[1, 3], 3, 17),
        (&[1, 300], 300, 1000),
        (&[2, 97], 97, 97),
        (&[3, 17], 17, 3),
        (&[5, 1000], 1000, 5),
        (&[128, 257], 257, 130),
        (&[133, 64], 64, 96),
        (&[2, 3, 17], 17, 24),
        (&[2, 1, 5, 300], 300, 8),
        (&[40], 40, 9),
        (&[0, 5], 5, 6),
        (&[2, 0, 5], 5, 6),
        (&[4, 0], 0, 6),
        (&[4, 3], 3, 0),
        // The inner dims differ.
        (&[4, 3], 4, 6),
    ];
    for (x, inner, columns) in sizes {
        for after in AFTER_PRODUCT {
            let mut ops = vec![op("MatMul", &["x", "matrix"], "y", &[])];
            let names = ["1", "2"];
            for (at, (kind, inputs)) in after.iter().enumerate() {
                let output = if at + 1 == after.len() { "out" } else { names[at] };
                ops.push(op(kind, inputs, output, &[]));
            }
            let constants =
                [("matrix", tensor(&[inner, columns], 1)), ("each", tensor(&[columns], 2))];
            let kinds: Vec<&str> = after.iter().map(|(kind, _)| *kind).collect();
            let name = format!("{x:?} x [{inner}, {columns}], then {kinds:?}");
            cases.push(case(name, x, ops, &constants, inner.max(1)));
        }
    }
    assert_eq!(count(&cases), 15 * AFTER_PRODUCT.len());
}

/// The bits of a row do not depend on how many others there are.
#[test]
fn rows_are_multiplied_alike_in_any_number() {
    for (inner, columns) in [(1, 4), (30, 16), (300, 33), (577, 150)] {
        let ops = vec![op("MatMul", &["x", "matrix"], "out", &[])];
        let constants = [("matrix", tensor(&[inner, columns], 1))];
        let run = |rows: u64| {
            let name = format!("{rows} rows of {inner} by {columns}");
            let case = case(name, &[rows, inner], ops.clone(), &constants, inner);
            assert!(case.check(), "{}", case.name);
            let made = case.run(Mode::Fast, 1).unwrap();
            made[0].dense().unwrap().bytes().unwrap().to_vec()
        };
        let all = run(70);
        for rows in 1..70 {
            let some = run(rows);
            assert!(all.starts_with(&some), "{rows} rows of {inner} by {columns}");
        }
    }
}

#[test]
fn matrices_and_biases_of_all_forms_are_near_the_reference() {
    let mut cases = Vec::new();
    let biases: [Option<&[u64]>; 7] =
        [None, Some(&[]), Some(&[1]), Some(&[19]), Some(&[1, 19]), Some(&[7, 1]), Some(&[7, 19])];
    for (turned, alpha, beta) in
        [([0, 0], 1.0, 1.0), ([0, 1], 0.5, -2.0), ([1, 0], 2.0, 0.0), ([1, 1], 1.0, 1.0)]
    {
        for bias in biases {
            let sides =
                |is_turned: i64, a: u64, b: u64| if is_turned == 1 { [b, a] } else { [a, b] };
            let attributes = [
                ("transA", AttributeValue::Long(turned[0])),
                ("transB", AttributeValue::Long(turned[1])),
                ("alpha", AttributeValue::Float(alpha)),
                ("beta", AttributeValue::Float(beta)),
            ];
            let inputs: &[&str] =
                if bias.is_some() { &["x", "matrix", "bias"] } else { &["x", "matrix"] };
            let ops = vec![op("Gemm", inputs, "out", &attributes)];
            let constants = [
                ("matrix", tensor(&sides(turned[1], 23, 19), 1)),
                ("bias", tensor(bias.unwrap_or(&[]), 2)),
            ];
            let name = format!("Gemm {turned:?} {alpha} {beta} {bias:?}");
            cases.push(case(name, &sides(turned[0], 7, 23), ops, &constants, 23));
        }
    }
    assert_eq!(count(&cases), cases.len());
}

#[test]
fn operators_with_the_same_constants_do_not_share_what_differs() {
    let gemm = |turned: i64, output: &str| {
        op("Gemm", &["x", "matrix"], output, &[("transA", AttributeValue::Long(turned))])
    };
    let constants = [("matrix", tensor(&[6, 6], 1)), ("scale", tensor(&[3], 2))];
    let mut cases = Vec::new();
    for order in [[0, 1], [1, 0]] {
        let [first, second] = order;
        let ops = vec![gemm(first, "a"), gemm(second, "b"), op("Sub", &["a", "b"], "out", &[])];
        cases.push(case(format!("Gemm {order:?}"), &[6, 6], ops, &constants, 6));
    }
    for outputs in [&["out", "", ""][..], &["", "out"]] {
        let mut norm = op("LayerNormalization", &["x", "scale"], "out", &[]);
        norm.outputs[0].args = outputs.iter().map(|name| (*name).to_owned()).collect();
        cases.push(case(format!("{outputs:?}"), &[5, 3], vec![norm], &constants, 64));
    }
    assert_eq!(count(&cases), cases.len());
}

#[test]
fn products_of_stacks_are_near_the_reference() {
    let mut cases = Vec::new();
    let shapes: [(&[u64], &[i64]); 7] = [
        (&[40, 30], &[1, 0]),
        (&[3, 17, 20], &[0, 2, 1]),
        (&[2, 3, 33, 5], &[0, 1, 3, 2]),
        (&[2, 16, 3, 24], &[0, 2, 3, 1]),
        (&[1, 1, 2, 2], &[0, 1, 3, 2]),
        (&[5, 1, 16], &[0, 2, 1]),
        (&[2, 0, 16], &[0, 2, 1]),
    ];
    for (x, order) in shapes {
        // The left side may be transposed as well: heads of attention.
        let heads: Vec<i64> =
            if x == [2, 16, 3, 24] { vec![0, 2, 1, 3] } else { (0..).take(x.len()).collect() };
        let ops = vec![
            op("Transpose", &["x"], "left", &[("perm", AttributeValue::Longs(heads))]),
            op("Transpose", &["x"], "right", &[("perm", AttributeValue::Longs(order.to_vec()))]),
            op("MatMul", &["left", "right"], "out", &[]),
        ];
        cases.push(case(format!("{x:?} {order:?}"), x, ops, &[], 33));
    }
    assert_eq!(count(&cases), cases.len());
}

#[test]
fn rows_are_near_the_reference() {
    let mut cases = Vec::new();
    let shapes: [&[u64]; 9] = [
        &[1],
        &[17],
        &[3, 1],
        &[4, 97],
        &[2, 3, 16],
        &[2, 5, 7, 33],
        &[2, 1000],
        &[1, 5000],
        &[0, 4],
    ];
    for x in shapes {
        for axis in [-1, 0] {
            let attributes = [("axis", AttributeValue::Long(axis))];
            let ops = vec![op("Softmax", &["x"], "out", &attributes)];
            cases.push(case(format!("Softmax {x:?} {axis}"), x, ops, &[], 16));
            let dims = if axis == 0 { x } else { &x[x.len() - 1..] };
            for inputs in [&["x", "scale", "bias"][..], &["x", "scale"]] {
                let ops = vec![op("LayerNormalization", inputs, "out", &attributes)];
                let constants = [("scale", tensor(dims, 1)), ("bias", tensor(dims, 2))];
                // A single element has no deviation: what remains is the error of the mean.
                cases.push(case(format!("{inputs:?} {x:?} {axis}"), x, ops, &constants, 64));
            }
        }
    }
    assert_eq!(count(&cases), cases.len());
}

#[test]
fn recurrent_cells_are_near_the_reference() {
    let mut cases = Vec::new();
    let sizes: [[u64; 4]; 7] = [
        [1, 1, 1, 1],
        [5, 1, 3, 8],
        [7, 3, 17, 5],
        [4, 9, 10, 33],
        [3, 2, 97, 200],
        [0, 1, 3, 4],
        [2, 2, 3, 0],
    ];
    for [steps, batch, inputs, hidden] in sizes {
        for (kind, gates, reset) in [("LSTM", 4, 0), ("GRU", 3, 0), ("GRU", 3, 1)] {
            for (direction, count) in [("forward", 1), ("reverse", 1), ("bidirectional", 2)] {
                for given in [
                    &["x", "w", "r"][..],
                    &["x", "w", "r", "b"],
                    &["x", "w", "r", "b", "", "h", "c"],
                ] {
                    let given =
                        &given[..given.len() - usize::from(kind == "GRU" && given.len() == 7)];
                    let text = AttributeValue::String(direction.into());
                    let mut attributes = vec![("direction", text)];
                    if kind == "GRU" {
                        attributes.push(("linear_before_reset", AttributeValue::Long(reset)));
                    }
                    let mut cell = op(kind, given, "out", &attributes);
                    let names =
                        ["out", "last", "long"].iter().take(if kind == "LSTM" { 3 } else { 2 });
                    let args = names.map(|name| (*name).to_owned()).collect();
                    cell.outputs = vec![Operand { slot: String::new(), args }];
                    let outputs = cell.outputs[0].args.clone();
                    let constants = [
                        ("w", tensor(&[count, gates * hidden, inputs], 1)),
                        ("r", tensor(&[count, gates * hidden, hidden], 2)),
                        ("b", tensor(&[count, 2 * gates * hidden], 3)),
                        ("h", tensor(&[count, batch, hidden], 4)),
                        ("c", tensor(&[count, batch, hidden], 5)),
                    ];
                    let name = format!(
                        "{kind} {reset} {direction} {given:?} {steps} {batch} {inputs} {hidden}"
                    );
                    let x = [steps, batch, inputs];
                    let mut made = case(name, &x, vec![cell], &constants, 100);
                    made.outputs = outputs;
                    cases.push(made);
                }
            }
        }
    }
    // Empty sequences and states do not run.
    assert_eq!(count(&cases), 5 * 3 * 3 * 3);
}

/// Plans for other dims use what was packed for the first: the budget has no room for another copy of each.
#[test]
fn constants_are_packed_once_for_all_dims() {
    let mut model = Model {
        parameters: vec![Parameter { name: "w".to_owned(), tensor: tensor(&[512, 512], 1) }],
        ..Model::default()
    };
    model.set_main(Program::from(Topology {
        operator_versions: vec![(String::new(), 21)],
        blocks: vec![Block {
            ops: vec![op("MatMul", &["x", "w"], "y", &[])],
            inputs: vec!["x".to_owned()],
            outputs: vec!["y".to_owned()],
            ..Block::default()
        }],
        ..Topology::new(Dialect::Onnx)
    }));
    let (budget, threads) = (Budget::new(3 << 20), Threads::new(1));
    let context = Context::new(&budget, &threads);
    let executable = Executable::new(&model, &ExecutableOptions::default(), context).unwrap();
    for rows in 1..8 {
        let x = Value::of(&tensor(&[rows, 512], 7)).unwrap();
        executable.run(vec![("x", x)], context).unwrap();
    }
}

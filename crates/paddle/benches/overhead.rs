//! The overhead of running an operator: programs of many operators on a single number. Arguments select kinds of operators.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::time::Instant;

use lodstone_model::{DType, Dim, Program, TensorType, ValueType, Var};
use lodstone_paddle::executor::{Dirs, Prepared, Scope};
use lodstone_paddle::program::{Network, Operator, Variable};

/// The number of operators of a program.
const OPERATORS: usize = 1000;

/// The number of runs of a program; the best one counts.
const RUNS: usize = 200;

/// The kinds of operators.
const KINDS: [&str; 6] =
    ["assign", "increment", "fill_constant", "scale", "elementwise_add", "relu"];

fn main() {
    let selected: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_selected = |kind: &&str| selected.is_empty() || selected.iter().any(|name| name == kind);
    for kind in KINDS.into_iter().filter(is_selected) {
        let prepared = Prepared::new(&program(kind), &["y"]).unwrap();
        let best = (0..RUNS).map(|_| {
            let mut scope = Scope::default();
            let begun = Instant::now();
            prepared.run(&mut scope, &[], &Dirs::default()).unwrap();
            begun.elapsed()
        });
        let nanoseconds = best.min().unwrap_or_default().as_nanos();
        println!("{kind:<16} {:>8.2} us", nanoseconds as f64 / 1e3 / OPERATORS as f64);
    }
}

/// Computes `y` from an `x` of one number by a chain of operators.
fn program(kind: &str) -> Program {
    let mut program = Network::new().main;
    let [x, y] = ["x", "y"].map(Variable::named);
    let tensor = TensorType::new(DType::Float32, Some(vec![Dim::Known(1)]));
    let var = |var: &Variable| Var {
        name: var.name().to_owned(),
        value: ValueType::tensor(tensor.clone()),
        ..Var::default()
    };
    let block = program.blocks.first_mut().unwrap();
    block.vars = vec![var(&x), var(&y)];
    let fill = |to: &Variable| {
        let fill =
            Operator::new("fill_constant").output("Out", [to]).attribute("shape", vec![1i64]);
        fill.attribute("value", 1.5f32).dtype("dtype", DType::Float32)
    };
    let op = match kind {
        "fill_constant" => fill(&y),
        "elementwise_add" => {
            Operator::new(kind).input("X", [&x]).input("Y", [&x]).output("Out", [&y])
        }
        kind => Operator::new(kind).input("X", [&x]).output("Out", [&y]),
    };
    block.ops.push(fill(&x).finish().unwrap());
    let op = op.finish().unwrap();
    block.ops.extend(std::iter::repeat_n(op, OPERATORS));
    program
}

//! Kernels run on the threads that they are given: rayon's global pool is never started, and a forked process can start
//! its own threads.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail so")]

use lodstone_engine::{Budget, Context, Dense, Mode, Plan, Threads, Value};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Op, Operand, Program, Topology,
};
use lodstone_schema::onnx::newest_opset;

/// The number of elements along each dim: enough for all processors.
const WIDE: usize = 512;

fn op(kind: &str, inputs: &[&str], output: &str, attributes: &[(&str, AttributeValue)]) -> Op {
    let operand = |names: &[&str]| Operand {
        slot: String::new(),
        args: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let attribute = |(name, value): &(&str, AttributeValue)| Attribute {
        name: (*name).to_owned(),
        value: value.clone(),
    };
    Op {
        kind: kind.to_owned(),
        inputs: vec![operand(inputs)],
        outputs: vec![operand(&[output])],
        attributes: attributes.iter().map(attribute).collect(),
        ..Op::default()
    }
}

/// Operators that use several threads: of `x`, a square matrix, and `image`, the same as an image.
fn program() -> Program {
    let longs = |values: &[i64]| AttributeValue::Longs(values.to_vec());
    let window = || [("kernel_shape", longs(&[3, 3]))];
    let ops = vec![
        op("MatMul", &["x", "x"], "product", &[]),
        op("Mul", &["product", "x"], "scaled", &[]),
        op("Tanh", &["scaled"], "curve", &[]),
        op("Softmax", &["product"], "shares", &[]),
        op("ReduceMax", &["x"], "greatest", &[]),
        op("Conv", &["image", "filter"], "convolved", &[]),
        op("MaxPool", &["image"], "pooled", &window()),
        op("AveragePool", &["image"], "averaged", &window()),
        op("GlobalAveragePool", &["image"], "means", &[]),
        op("ArgMax", &["x"], "places", &[]),
        op("CumSum", &["x", "axis"], "sums", &[]),
        op("Transpose", &["x"], "turned", &[("perm", longs(&[1, 0]))]),
        op("Erf", &["turned"], "error", &[]),
    ];
    let outputs = ops.iter().flat_map(|op| op.output("").to_vec()).collect();
    let inputs = ["x", "image", "filter", "axis"].map(str::to_owned).to_vec();
    let block = Block { parent: -1, inputs, outputs, ops, ..Block::default() };
    Program::from(Topology {
        operator_versions: vec![(String::new(), newest_opset("").unwrap())],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    })
}

fn singles(dims: &[usize]) -> Value {
    let numbers = 0..dims.iter().product::<usize>();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let bytes: Vec<u8> = numbers
        .flat_map(|number| ((number * 37 % 101) as f32 / 50.0 - 1.0).to_le_bytes())
        .collect();
    Dense::new(DType::Float32, dims, bytes.into()).unwrap().into()
}

/// Returns the bytes of all outputs.
fn computed(threads: &Threads) -> Vec<u8> {
    let program = program();
    let budget = Budget::default();
    let context = Context::new(&budget, threads);
    let plan = Plan::new(&program, &[], Mode::Fast, context).unwrap();
    let axis = Dense::new(DType::Int64, vec![1], vec![0; 8].into()).unwrap();
    let inputs = vec![
        singles(&[WIDE, WIDE]),
        singles(&[1, 4, WIDE, WIDE]),
        singles(&[8, 4, 3, 3]),
        axis.into(),
    ];
    let made = plan.run(inputs, context).unwrap_or_else(|error| panic!("{error}"));
    made.iter().flat_map(|value| value.dense().unwrap().bytes().unwrap().to_vec()).collect()
}

/// A single test, because it examines the whole process.
#[test]
#[expect(
    unsafe_code,
    reason = "a child of a process with threads, as Python's multiprocessing makes them"
)]
fn kernels_use_the_threads_that_they_are_given() {
    let threads = Threads::new(2);
    let wanted = computed(&threads);
    assert!(computed(&Threads::new(1)) == wanted, "another number of threads gives other bits");
    // SAFETY: the child computes and exits, without running handlers that others registered.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            // A child that waits for threads that do not exist is killed.
            nix::unistd::alarm::set(60);
            let same = computed(&threads) == wanted;
            // SAFETY: ends only this process.
            unsafe { nix::libc::_exit(if same { 0 } else { 1 }) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            let status = nix::sys::wait::waitpid(child, None).unwrap();
            let ended = nix::sys::wait::WaitStatus::Exited(child, 0);
            assert_eq!(status, ended, "the child computes the same");
        }
    }
    let global = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
    assert!(global.is_ok(), "something has begun rayon's global pool");
}

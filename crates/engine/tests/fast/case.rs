//! Small programs, in all modes and with several numbers of threads.

use bytes::Bytes;
use lodstone_engine::{
    Budget, Context, Dense, Executable, ExecutableOptions, Mode, Profile, Steps, Threads, Value,
};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Model, Op, Operand, Parameter, Program,
    Tensor, Topology,
};
use lodstone_store::Blob;

/// The largest difference from the reference for each square root of a summand, as a fraction of the largest result: sums
/// are in another order.
pub(super) const NEAR: f64 = 1e-6;

/// Returns numbers of both signs.
pub(super) fn numbers(count: u64, seed: u32) -> Vec<u8> {
    let mixed = |at: u32| (at ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(2_654_435_761) >> 8;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let number = |at: u32| (mixed(at) % 2001) as f32 / 1000.0 - 1.0;
    (0..u32::try_from(count).unwrap()).flat_map(|at| number(at).to_le_bytes()).collect()
}

pub(super) fn tensor(dims: &[u64], seed: u32) -> Tensor {
    let bytes = numbers(dims.iter().product(), seed);
    Tensor::dense(DType::Float32, dims.to_vec(), Blob::memory(bytes))
}

pub(super) fn op(
    kind: &str,
    inputs: &[&str],
    output: &str,
    attributes: &[(&str, AttributeValue)],
) -> Op {
    let operand = |args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        vec![Operand { slot: String::new(), args }]
    };
    let attributes = attributes
        .iter()
        .map(|(name, value)| Attribute { name: (*name).to_owned(), value: value.clone() });
    Op {
        kind: kind.to_owned(),
        inputs: operand(inputs),
        outputs: operand(&[output]),
        attributes: attributes.collect(),
        ..Op::default()
    }
}

/// A program of `x` with its constants.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) x: Vec<u64>,
    pub(super) ops: Vec<Op>,
    pub(super) constants: Vec<(String, Tensor)>,
    pub(super) outputs: Vec<String>,
    /// The number of summands of a result.
    pub(super) terms: u64,
}

impl Case {
    pub(super) fn run(&self, mode: Mode, threads: usize) -> Result<Vec<Value>, String> {
        self.measured(mode, threads).map(|(made, _)| made)
    }

    /// Returns the kinds of the operators that run, those of a pass together.
    pub(super) fn profile(&self) -> Vec<String> {
        let (budget, threads, profile) =
            (Budget::new(1 << 30), Threads::new(1), Profile::default());
        let context = Context::new(&budget, &threads).with_profile(&profile);
        let options = ExecutableOptions::default();
        let executable = Executable::new(&self.model(), &options, context).unwrap();
        let x = Value::of(&tensor(&self.x, 7)).unwrap();
        executable.run(vec![("x", x)], context).unwrap();
        profile.operators().into_iter().map(|operator| operator.kind).collect()
    }

    fn model(&self) -> Model {
        let block = Block {
            ops: self.ops.clone(),
            inputs: vec!["x".to_owned()],
            outputs: self.outputs.clone(),
            ..Block::default()
        };
        let program = Program::from(Topology {
            operator_versions: vec![(String::new(), 21), ("com.microsoft".to_owned(), 1)],
            blocks: vec![block],
            ..Topology::new(Dialect::Onnx)
        });
        let constants = self.constants.iter();
        let parameters = constants
            .map(|(name, tensor)| Parameter { name: name.clone(), tensor: moved(tensor) })
            .collect();
        let mut model = Model { parameters, ..Model::default() };
        model.set_main(program);
        model
    }

    /// Runs the program; also returns the number of its operators that ran.
    pub(super) fn measured(&self, mode: Mode, threads: usize) -> Result<(Vec<Value>, u64), String> {
        let model = self.model();
        let (budget, threads) = (Budget::new(1 << 30), Threads::new(threads));
        let steps = Steps::new(u64::MAX);
        let context = Context::new(&budget, &threads).with_steps(&steps);
        let options = ExecutableOptions::default().with_mode(mode);
        let executable = Executable::new(&model, &options, context).map_err(|it| it.to_string())?;
        let x = Value::of(&tensor(&self.x, 7)).unwrap();
        // The second run uses the memory of the first.
        executable.run(vec![("x", x.clone())], context).map_err(|it| it.to_string())?;
        let taken = steps.taken();
        assert!(taken <= self.ops.len() as u64, "{}", self.name);
        let made = executable.run(vec![("x", x)], context).map_err(|it| it.to_string())?;
        Ok((made, taken))
    }

    /// Compares all modes and numbers of threads; returns whether the program runs.
    pub(super) fn check(&self) -> bool {
        let reference = self.run(Mode::Reference, 1);
        let fast = [1, 2, 3].map(|threads| self.run(Mode::Fast, threads));
        let name = &self.name;
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let tolerance = NEAR * (self.terms as f64).sqrt();
        let Ok(reference) = reference else {
            assert!(fast.iter().all(Result::is_err), "{name}: only the reference fails");
            return false;
        };
        let fast = fast.map(|it| it.unwrap_or_else(|error| panic!("{name}: {error}")));
        let dense = |value: &Value| -> Dense { value.dense().unwrap().clone() };
        for (at, reference) in reference.iter().enumerate() {
            let reference = dense(reference);
            let expected = reference.to_f64().unwrap();
            let most = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            let found: Vec<Dense> = fast.iter().map(|fast| dense(fast.get(at).unwrap())).collect();
            for found in &found {
                assert_eq!(found.dims(), reference.dims(), "{name}");
                assert_eq!(
                    found.bytes().unwrap(),
                    dense(fast[0].get(at).unwrap()).bytes().unwrap(),
                    "{name}: threads change bits"
                );
            }
            for (found, expected) in found[0].to_f64().unwrap().iter().zip(&expected) {
                let near = found == expected
                    || (found - expected).abs() <= tolerance * most.max(1.0)
                    || found.is_nan() && expected.is_nan();
                assert!(near, "{name}: {found} is not {expected}, of at most {most}");
            }
        }
        true
    }
}

/// Returns a tensor at an odd address, as many constants of a file are.
fn moved(tensor: &Tensor) -> Tensor {
    let bytes = tensor.data.bytes().unwrap();
    let bytes = Bytes::from([&[0], &bytes[..]].concat()).slice(1..);
    Tensor { data: Blob::memory(bytes), ..tensor.clone() }
}

pub(super) fn case(
    name: String,
    x: &[u64],
    ops: Vec<Op>,
    constants: &[(&str, Tensor)],
    terms: u64,
) -> Case {
    let constants = constants.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    let outputs = vec!["out".to_owned()];
    Case { name, x: x.to_vec(), ops, constants, outputs, terms }
}

/// Runs all cases; returns how many run.
pub(super) fn count(cases: &[Case]) -> usize {
    cases.iter().filter(|case| case.check()).count()
}

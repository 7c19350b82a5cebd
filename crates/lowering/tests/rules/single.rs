//! Programs of one operator with random attributes, which a test compares with the framework's formula.

use libtest_mimic::Trial;
use lodstone_lowering::paddle::lower_op;
use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dialect, Dim, Model, Op, Operand, Program,
    Tensor, TensorType, Topology, Var,
};
use lodstone_schema::paddle::Release;
use lodstone_store::Blob;

use super::evaluate::lowered;
use super::paddle::{self, Fed, Open};
use super::random::{Random, differences, judge};
use super::recorded;

/// The number of random operators of each kind.
const COUNT: usize = 400;

/// Evaluates an operator.
pub(crate) type Run = fn(&Single) -> Result<Vec<Tensor>, String>;

/// Evaluates an operator of PaddlePaddle 2.6.
pub(crate) const PADDLE: Run = |single| single.paddle(Release::new(2, 6));

/// Returns an operator, and its expected results; `None` if the framework rejects it.
pub(crate) type Draw = fn(&mut Random) -> Option<(Single, Vec<Tensor>)>;

/// Returns a function that makes a trial of a subject from the dialect, a name, and how operators are run and drawn.
pub(crate) fn trials_of(subject: &'static str) -> impl Fn(&str, &str, Run, Draw) -> Trial {
    move |dialect, name, run, draw| {
        random_trial(&format!("{dialect}::{subject}::{name}"), run, draw)
    }
}

/// The draws of a subject, by the name of the operator.
pub(crate) type Draws<D = Draw> = [(&'static str, D)];

/// Returns the trials of a subject: the draws of PaddlePaddle, MXNet, PyTorch and Caffe2, each compared by `trial`.
pub(crate) fn of_frameworks<D: Copy>(
    draws: [&Draws<D>; 4],
    trial: impl Fn(&str, &str, Run, D) -> Trial,
) -> Vec<Trial> {
    let frameworks: [(&str, Run); 4] = [
        ("paddle", PADDLE),
        ("mxnet", Single::mxnet),
        ("torch", Single::torch),
        ("caffe2", Single::caffe2),
    ];
    let all = frameworks.into_iter().zip(draws);
    let each = all.flat_map(|(framework, draws)| draws.iter().map(move |draw| (framework, draw)));
    each.map(|((dialect, run), (name, draw))| trial(dialect, name, run, *draw)).collect()
}

/// Compares random operators with their expected results; there is none if the framework rejects the operator.
pub(crate) fn random_trial(
    name: &str,
    run: Run,
    draw: impl Fn(&mut Random) -> Option<(Single, Vec<Tensor>)> + Send + 'static,
) -> Trial {
    compared(name, move |single, _| run(single), draw)
}

/// Compares random nodes of Glow with their expected results.
pub(crate) fn glow_trial(name: &str, draw: Draw) -> Trial {
    compared(&format!("glow::{name}"), Single::glow, draw)
}

fn compared(
    name: &str,
    run: impl Fn(&Single, &[Tensor]) -> Result<Vec<Tensor>, String> + Send + 'static,
    draw: impl Fn(&mut Random) -> Option<(Single, Vec<Tensor>)> + Send + 'static,
) -> Trial {
    Trial::test(format!("random {name}"), move || {
        let mut random = Random(7);
        let (mut wrong, mut count) = (Vec::new(), 0);
        for _ in 0..COUNT {
            let Some((single, expected)) = draw(&mut random) else { continue };
            count += 1;
            let what = match run(&single, &expected) {
                Ok(found) => differences(&found, &expected, 3e-5),
                Err(error) => Some(error),
            };
            wrong.extend(what.map(|what| format!("{}: {what}", single.describe())));
        }
        judge(&wrong, count, COUNT / 4)
    })
}

impl Random {
    /// Returns a tensor of numbers from -1 to 1.
    pub(crate) fn tensor(&mut self, dims: &[usize]) -> Tensor {
        let count = dims.iter().product();
        let elements: Vec<f32> = (0..count).map(|_| self.real(-1.0, 1.0) as f32).collect();
        floats(&elements, dims)
    }
}

pub(crate) fn floats(elements: &[f32], dims: &[usize]) -> Tensor {
    let bytes: Vec<u8> = elements.iter().flat_map(|it| it.to_le_bytes()).collect();
    let dims = dims.iter().map(|dim| *dim as u64).collect();
    Tensor::dense(DType::Float32, dims, Blob::memory(bytes))
}

/// Returns a tensor of single precision.
pub(crate) fn list(elements: &[f64], dims: &[usize]) -> Tensor {
    floats(&elements.iter().map(|it| *it as f32).collect::<Vec<_>>(), dims)
}

/// Moves the second dim to the end.
pub(crate) fn channels_last(x: &Tensor) -> Tensor {
    let mut dims: Vec<usize> = x.shape.iter().map(|dim| *dim as usize).collect();
    let (all, channels) = (recorded::elements(x), dims.remove(1));
    let (batch, pixels) = (dims[0], dims[1..].iter().product::<usize>());
    let image = |image: usize| {
        (0..pixels).flat_map(move |pixel| {
            (0..channels).map(move |channel| (image * channels + channel) * pixels + pixel)
        })
    };
    let places = (0..batch).flat_map(image);
    dims.push(channels);
    list(&places.map(|place| all[place]).collect::<Vec<_>>(), &dims)
}

pub(crate) fn ints(elements: &[i32]) -> Tensor {
    let bytes: Vec<u8> = elements.iter().flat_map(|it| it.to_le_bytes()).collect();
    Tensor::dense(DType::Int32, vec![elements.len() as u64], Blob::memory(bytes))
}

/// An operator, and its inputs by slot. Slots without a name are positional.
pub(crate) struct Single {
    pub(crate) kind: String,
    pub(crate) inputs: Vec<(&'static str, Tensor)>,
    pub(crate) attributes: Vec<(&'static str, AttributeValue)>,
    pub(crate) outputs: Vec<&'static str>,
    /// Whether the program does not know the dims from the third on.
    pub(crate) is_dynamic: bool,
}

impl Single {
    /// Returns an operator all of whose dims are known.
    pub(crate) fn new(
        kind: impl Into<String>,
        inputs: Vec<(&'static str, Tensor)>,
        attributes: Vec<(&'static str, AttributeValue)>,
        outputs: Vec<&'static str>,
    ) -> Self {
        Self { kind: kind.into(), inputs, attributes, outputs, is_dynamic: false }
    }

    pub(crate) fn describe(&self) -> String {
        let dims: Vec<_> = self.inputs.iter().map(|(slot, it)| (slot, &it.shape)).collect();
        let dynamic = if self.is_dynamic { " with unknown dims" } else { "" };
        format!("`{}`{dynamic} of {dims:?} and {:?}", self.kind, self.attributes)
    }

    fn dims(&self, tensor: &Tensor) -> Vec<Dim> {
        let is_known = |axis: usize| axis < 2 || !self.is_dynamic;
        let dims = tensor.shape.iter().enumerate();
        dims.map(|(axis, dim)| if is_known(axis) { Dim::Known(*dim) } else { Dim::Unknown })
            .collect()
    }

    fn op(&self, positional: bool) -> Op {
        let operand = |slot: &str, args: Vec<String>| Operand { slot: slot.to_owned(), args };
        let operands = |slots: Vec<&str>, prefix: &str| {
            let mut all: Vec<Operand> = Vec::new();
            for (index, slot) in slots.into_iter().enumerate() {
                let slot = if positional { "" } else { slot };
                let name = format!("{prefix}{index}");
                match all.iter_mut().find(|operand| operand.slot == *slot) {
                    Some(operand) => operand.args.push(name),
                    None => all.push(operand(slot, vec![name])),
                }
            }
            all
        };
        let inputs = operands(self.inputs.iter().map(|(slot, _)| *slot).collect(), "x");
        let outputs = operands(self.outputs.clone(), "y");
        let attributes = self
            .attributes
            .iter()
            .map(|(name, value)| Attribute { name: (*name).to_owned(), value: value.clone() });
        let (name, kind) = ("y".to_owned(), self.kind.clone());
        Op { name, kind, inputs, outputs, attributes: attributes.collect(), ..Op::default() }
    }

    fn named(&self) -> Vec<(String, Tensor)> {
        let inputs = self.inputs.iter().enumerate();
        inputs.map(|(index, (_, tensor))| (format!("x{index}"), tensor.clone())).collect()
    }

    /// Evaluates the operator of Caffe2, MXNet or PyTorch.
    fn evaluated(&self, dialect: Dialect) -> Result<Vec<Tensor>, String> {
        self.among(dialect, |op| vec![op])
    }

    /// Evaluates the program that a function makes of the operator. Its results are those of the last operator.
    pub(crate) fn among(
        &self,
        dialect: Dialect,
        all: impl Fn(Op) -> Vec<Op>,
    ) -> Result<Vec<Tensor>, String> {
        let ops = all(self.op(dialect != Dialect::Torch));
        let named = self.named();
        let mut block = Block { parent: -1, ..Block::default() };
        block.vars.extend(named.iter().map(|(name, tensor)| Var {
            name: name.clone(),
            value: TensorType::new(tensor.dtype, Some(self.dims(tensor))).into(),
            ..Var::default()
        }));
        block.outputs = ops.last().unwrap().writes().map(str::to_owned).collect();
        if dialect != Dialect::Mxnet {
            block.inputs = named.iter().map(|(name, _)| name.clone()).collect();
        }
        block.ops = ops;
        let mut model = Model::default();
        model.set_main(Program::from(Topology { blocks: vec![block], ..Topology::new(dialect) }));
        Ok(lowered(model, &named)?.into_iter().map(|(_, tensor)| tensor).collect())
    }

    pub(crate) fn mxnet(&self) -> Result<Vec<Tensor>, String> {
        self.evaluated(Dialect::Mxnet)
    }

    pub(crate) fn caffe2(&self) -> Result<Vec<Tensor>, String> {
        self.evaluated(Dialect::Caffe2)
    }

    pub(crate) fn torch(&self) -> Result<Vec<Tensor>, String> {
        self.evaluated(Dialect::Torch)
    }

    /// Evaluates a node of Glow, whose results have the types of `expected`.
    pub(crate) fn glow(&self, expected: &[Tensor]) -> Result<Vec<Tensor>, String> {
        self.among(Dialect::Glow, |op| {
            let types = expected.iter().enumerate().flat_map(|(index, result)| {
                let dims = result.shape.iter().map(|dim| *dim as i64).collect();
                let kind = match result.dtype {
                    DType::Int32 => "index32",
                    DType::Int64 => "index64",
                    _ => "float",
                };
                [
                    (format!("o{index}_elemKind"), text(kind)),
                    (format!("o{index}_shape"), AttributeValue::Longs(dims)),
                ]
            });
            let types = types.map(|(name, value)| Attribute { name, value });
            let attributes = op.attributes.into_iter().chain(types).collect();
            vec![Op { kind: format!("Glow_{}", op.kind), attributes, ..op }]
        })
    }

    /// Evaluates the operator of a release of PaddlePaddle.
    pub(crate) fn paddle(&self, release: Release) -> Result<Vec<Tensor>, String> {
        let (op, named) = (self.op(false), self.named());
        let feed = named.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let open = if self.is_dynamic { Open::All } else { Open::None };
        let facts = Fed { feed: &feed, open };
        let lowered = lower_op(&op, release, &facts).map_err(|it| it.to_string())?;
        let found = paddle::results(&lowered, &feed)?;
        let value = |name: &str| found.iter().find(|(found, _)| found == name);
        let value = |name: &str| value(name).map(|(_, tensor)| tensor.clone());
        op.writes().map(|name| value(name).ok_or_else(|| format!("there is no `{name}`"))).collect()
    }
}

pub(crate) fn text(text: impl ToString) -> AttributeValue {
    AttributeValue::String(ByteString::from(text.to_string().as_str()))
}

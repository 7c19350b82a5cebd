//! Layers, as PaddlePaddle's programs have them: operators, slots, attributes and names.

use std::sync::Arc;

use lodstone_model::{DType, Dim, TensorType, ValueType, Var};
use lodstone_schema::onnx::infer::ValueInfo;

use crate::error::{Result, variable};
use crate::initializers::Initializer;
use crate::network::{Network, Parameter, Variable};
use crate::operator::Operator;

/// What is fed to the program: `None` is an extent that may be anything.
pub fn data(net: &mut Network, name: &str, shape: &[Option<u64>], dtype: DType) -> Variable {
    sequence_data(net, name, shape, dtype, 0)
}

/// What is fed to the program as sequences, with so many levels of LoD.
pub fn sequence_data(
    net: &mut Network,
    name: &str,
    shape: &[Option<u64>],
    dtype: DType,
    lod_level: u32,
) -> Variable {
    // One that is not known is the same wherever it goes.
    let known = |(place, dim): (usize, &Option<u64>)| match dim {
        Some(extent) => Dim::Known(*extent),
        None => Dim::Symbol(Arc::from(format!("{name}.{place}"))),
    };
    let dims: Vec<Dim> = shape.iter().enumerate().map(known).collect();
    let tensor = TensorType { dtype, shape: Some(dims), lod_level };
    let info: ValueInfo = ValueType::tensor(tensor).into();
    let plain = |dim: &Option<u64>| dim.map_or(Dim::Unknown, Dim::Known);
    let declared = TensorType { dtype, shape: Some(shape.iter().map(plain).collect()), lod_level };
    let var = Var {
        name: name.to_owned(),
        value: ValueType::tensor(declared),
        need_check_feed: true,
        stop_gradient: true,
        ..Var::default()
    };
    net.declare(var, info)
}

/// Extents of which all behind the first `from` have to be known.
fn sizes(net: &Network, var: &Variable, from: usize) -> Result<Vec<u64>> {
    let shape = net.shape(var)?;
    let known: Option<Vec<u64>> = shape.iter().skip(from).copied().collect();
    match known {
        Some(known) => Ok(known),
        None => variable(var.name(), format!("expected extents that are known, found {shape:?}")),
    }
}

/// A fully connected layer.
#[derive(Clone, Debug)]
pub struct Fc {
    /// How many results each row has.
    pub size: u64,
    /// How many extents make up the rows; the rest is what is multiplied.
    pub num_flatten_dims: usize,
    /// An activation: the kind of its operator.
    pub act: Option<&'static str>,
    /// The matrix.
    pub weight: Parameter,
    /// What is added; nothing if there is none.
    pub bias: Option<Parameter>,
}

impl Fc {
    /// So many results, with a bias.
    pub fn new(size: u64) -> Self {
        let (weight, bias) = (Parameter::default(), Some(Parameter::default()));
        Self { size, num_flatten_dims: 1, act: None, weight, bias }
    }

    /// With an activation.
    #[must_use]
    pub fn act(mut self, act: &'static str) -> Self {
        self.act = Some(act);
        self
    }
}

/// Multiplies rows by a matrix, and adds a bias.
///
/// # Errors
/// If the extents of what is multiplied are not known.
pub fn fc(net: &mut Network, x: &Variable, layer: &Fc) -> Result<Variable> {
    let name = net.name("fc");
    let dtype = net.dtype(x)?;
    let inner = sizes(net, x, layer.num_flatten_dims)?.iter().product();
    let shape = [inner, layer.size];
    let otherwise = Initializer::Xavier { seed: 0 };
    let weight = net.parameter(&layer.weight, &format!("{name}.w"), dtype, &shape, otherwise)?;
    let columns = i32::try_from(layer.num_flatten_dims).unwrap_or(i32::MAX);
    let mul = Operator::new("mul").input("X", [x]).input("Y", [&weight]);
    let mut y = net.call(&name, "Out", mul.attribute("x_num_col_dims", columns))?;
    if let Some(bias) = &layer.bias {
        y = biased(net, &name, &y, bias, layer.size, columns)?;
    }
    activated(net, &name, y, layer.act)
}

fn biased(
    net: &mut Network,
    name: &str,
    y: &Variable,
    bias: &Parameter,
    size: u64,
    axis: i32,
) -> Result<Variable> {
    let dtype = net.dtype(y)?;
    let otherwise = Initializer::Constant(0.0);
    let bias = net.parameter(bias, &format!("{name}.b"), dtype, &[size], otherwise)?;
    let add = Operator::new("elementwise_add").input("X", [y]).input("Y", [&bias]);
    net.call(name, "Out", add.attribute("axis", axis))
}

fn activated(
    net: &mut Network,
    name: &str,
    y: Variable,
    act: Option<&'static str>,
) -> Result<Variable> {
    match act {
        Some(kind) => net.call(name, "Out", Operator::new(kind).input("X", [&y])),
        None => Ok(y),
    }
}

/// A convolution over images.
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// How many channels the result has.
    pub num_filters: u64,
    /// Height and width of the window.
    pub filter_size: [u64; 2],
    /// How far it goes at once.
    pub stride: [i32; 2],
    /// What is added above and below, left and right.
    pub padding: [i32; 2],
    /// How far elements of the window lie apart.
    pub dilation: [i32; 2],
    /// In how many groups channels are convolved by themselves.
    pub groups: u64,
    /// An activation: the kind of its operator.
    pub act: Option<&'static str>,
    /// The filter.
    pub weight: Parameter,
    /// What is added to each channel; nothing if there is none.
    pub bias: Option<Parameter>,
}

impl Conv2d {
    /// So many channels by a square window.
    pub fn new(num_filters: u64, filter_size: u64) -> Self {
        Self {
            num_filters,
            filter_size: [filter_size; 2],
            stride: [1; 2],
            padding: [0; 2],
            dilation: [1; 2],
            groups: 1,
            act: None,
            weight: Parameter::default(),
            bias: Some(Parameter::default()),
        }
    }
}

/// Convolves images: examples, channels, height, width.
///
/// # Errors
/// If the number of channels is not known, or the groups do not divide it.
pub fn conv2d(net: &mut Network, x: &Variable, layer: &Conv2d) -> Result<Variable> {
    let name = net.name("conv2d");
    let dtype = net.dtype(x)?;
    let shape = net.shape(x)?;
    let Some(channels) = shape.get(1).copied().flatten() else {
        return variable(x.name(), "expected channels of a known number as the second extent");
    };
    let divides = |count: u64| layer.groups != 0 && count.is_multiple_of(layer.groups);
    if !divides(channels) || !divides(layer.num_filters) {
        let what = format!("{channels} channels cannot be convolved in {} groups", layer.groups);
        return variable(x.name(), what);
    }
    let [height, width] = layer.filter_size;
    let filter = [layer.num_filters, channels / layer.groups, height, width];
    let otherwise = Initializer::Kaiming { seed: 0 };
    let weight = net.parameter(&layer.weight, &format!("{name}.w"), dtype, &filter, otherwise)?;
    let conv = Operator::new("conv2d")
        .input("Input", [x])
        .input("Filter", [&weight])
        .attribute("strides", layer.stride.to_vec())
        .attribute("paddings", layer.padding.to_vec())
        .attribute("dilations", layer.dilation.to_vec())
        .attribute("groups", i32::try_from(layer.groups).unwrap_or(i32::MAX));
    let mut y = net.call(&name, "Output", conv)?;
    if let Some(bias) = &layer.bias {
        y = biased(net, &name, &y, bias, layer.num_filters, 1)?;
    }
    activated(net, &name, y, layer.act)
}

/// Which of the elements in a window is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The greatest.
    Max,
    /// Their mean.
    Avg,
}

/// Pools images.
///
/// # Errors
/// If they are none.
pub fn pool2d(
    net: &mut Network,
    x: &Variable,
    pooling: Pooling,
    size: [i32; 2],
    stride: [i32; 2],
    padding: [i32; 2],
) -> Result<Variable> {
    let kind = match pooling {
        Pooling::Max => "max",
        Pooling::Avg => "avg",
    };
    let pool = Operator::new("pool2d")
        .input("X", [x])
        .attribute("pooling_type", kind)
        .attribute("ksize", size.to_vec())
        .attribute("strides", stride.to_vec())
        .attribute("paddings", padding.to_vec());
    let name = net.name("pool2d");
    net.call(&name, "Out", pool)
}

/// Normalizes each channel: by the batch while it trains, by what it has seen when `is_test`.
///
/// # Errors
/// If the number of channels is not known.
pub fn batch_norm(net: &mut Network, x: &Variable, is_test: bool) -> Result<Variable> {
    let name = net.name("batch_norm");
    let dtype = net.dtype(x)?;
    let Some(channels) = net.shape(x)?.get(1).copied().flatten() else {
        return variable(x.name(), "expected channels of a known number as the second extent");
    };
    let (weight, bias) = (format!("{name}.w"), format!("{name}.b"));
    let usual = Parameter::default();
    let one = Initializer::Constant(1.0);
    let scale = net.parameter(&usual, &weight, dtype, &[channels], one)?;
    let offset = net.parameter(&usual, &bias, dtype, &[channels], Initializer::Constant(0.0))?;
    let mean = net.state(&weight, dtype, &[channels], 0.0)?;
    let variance = net.state(&weight, dtype, &[channels], 1.0)?;
    let [saved_mean, saved_variance] =
        [0, 1].map(|_| Variable::named(&net.name(&format!("{name}.tmp"))));
    let norm = Operator::new("batch_norm")
        .input("X", [x])
        .input("Scale", [&scale])
        .input("Bias", [&offset])
        .input("Mean", [&mean])
        .input("Variance", [&variance])
        .output("MeanOut", [&mean])
        .output("VarianceOut", [&variance])
        .output("SavedMean", [&saved_mean])
        .output("SavedVariance", [&saved_variance])
        .attribute("is_test", is_test);
    net.call(&name, "Y", norm)
}

/// Normalizes each example over its extents from `begin` on.
///
/// # Errors
/// If those extents are not known.
pub fn layer_norm(net: &mut Network, x: &Variable, begin: usize) -> Result<Variable> {
    let name = net.name("layer_norm");
    let dtype = net.dtype(x)?;
    let size: u64 = sizes(net, x, begin)?.iter().product();
    let usual = Parameter::default();
    let one = Initializer::Constant(1.0);
    let scale = net.parameter(&usual, &format!("{name}.w"), dtype, &[size], one)?;
    let zero = Initializer::Constant(0.0);
    let bias = net.parameter(&usual, &format!("{name}.b"), dtype, &[size], zero)?;
    let [mean, variance] = [0, 1].map(|_| Variable::named(&net.name(&format!("{name}.tmp"))));
    let norm = Operator::new("layer_norm")
        .input("X", [x])
        .input("Scale", [&scale])
        .input("Bias", [&bias])
        .output("Mean", [&mean])
        .output("Variance", [&variance])
        .attribute("begin_norm_axis", i32::try_from(begin).unwrap_or(i32::MAX));
    net.call(&name, "Y", norm)
}

/// Rows of a table of `rows` times `size` by number.
///
/// # Errors
/// If the ids are no integers.
pub fn embedding(
    net: &mut Network,
    ids: &Variable,
    [rows, size]: [u64; 2],
    padding: Option<i64>,
) -> Result<Variable> {
    let name = net.name("embedding");
    let otherwise = Initializer::Xavier { seed: 0 };
    let table = net.parameter(
        &Parameter::default(),
        &format!("{name}.w"),
        DType::Float32,
        &[rows, size],
        otherwise,
    )?;
    let lookup = Operator::new("lookup_table_v2")
        .input("Ids", [ids])
        .input("W", [&table])
        .attribute("padding_idx", padding.unwrap_or(-1));
    net.call(&name, "Out", lookup)
}

/// Drops elements with a probability while it trains.
///
/// # Errors
/// If the variable is not there.
pub fn dropout(
    net: &mut Network,
    x: &Variable,
    probability: f32,
    is_test: bool,
) -> Result<Variable> {
    let name = net.name("dropout");
    let mask = Variable::named(&net.name(&format!("{name}.tmp")));
    let drop = Operator::new("dropout")
        .input("X", [x])
        .output("Mask", [&mask])
        .attribute("dropout_prob", probability)
        .attribute("is_test", is_test)
        .attribute("dropout_implementation", "upscale_in_train");
    net.call(&name, "Out", drop)
}

/// The operator of one input and one output that is called so: `relu`, `tanh`, `mean`.
fn unary(net: &mut Network, kind: &str, x: &Variable) -> Result<Variable> {
    let name = net.name(kind);
    net.call(&name, "Out", Operator::new(kind).input("X", [x]))
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// If it cannot take what it is given.
        pub fn $name(net: &mut Network, x: &Variable) -> Result<Variable> {
            unary(net, stringify!($name), x)
        })+
    };
}

unary! {
    /// What is above 0.
    relu,
    /// The exact curve of Gauss' error function.
    gelu,
    /// The hyperbolic tangent.
    tanh,
    /// The logistic curve.
    sigmoid,
    /// Shares along the last extent.
    softmax,
    /// The mean of all elements.
    mean,
    /// Each element times itself.
    square,
}

/// The negative logarithm of the share that a label has.
///
/// # Errors
/// If the label does not fit.
pub fn cross_entropy(net: &mut Network, shares: &Variable, label: &Variable) -> Result<Variable> {
    let name = net.name("cross_entropy");
    let entropy = Operator::new("cross_entropy").input("X", [shares]).input("Label", [label]);
    net.call(&name, "Y", entropy)
}

/// The same of numbers that are no shares yet; gives the loss of each row.
///
/// # Errors
/// If the label does not fit.
pub fn softmax_with_cross_entropy(
    net: &mut Network,
    logits: &Variable,
    label: &Variable,
) -> Result<Variable> {
    let name = net.name("softmax_with_cross_entropy");
    let softmax = Variable::named(&net.name(&format!("{name}.tmp")));
    let entropy = Operator::new("softmax_with_cross_entropy")
        .input("Logits", [logits])
        .input("Label", [label])
        .output("Softmax", [&softmax]);
    net.call(&name, "Loss", entropy)
}

/// The square of what two differ by.
///
/// # Errors
/// If they do not fit each other.
pub fn square_error_cost(net: &mut Network, x: &Variable, label: &Variable) -> Result<Variable> {
    let difference = elementwise(net, "sub", x, label, -1)?;
    square(net, &difference)
}

/// The share of rows of which one of the `k` greatest is the label.
///
/// # Errors
/// If the label does not fit.
pub fn accuracy(net: &mut Network, x: &Variable, label: &Variable, k: i32) -> Result<Variable> {
    let name = net.name("accuracy");
    let [values, indices, correct, total] =
        [0; 4].map(|_| Variable::named(&net.name(&format!("{name}.tmp"))));
    let top = Operator::new("top_k_v2").input("X", [x]).attribute("k", k);
    net.append(top.output("Out", [&values]).output("Indices", [&indices]))?;
    let accuracy = Operator::new("accuracy")
        .input("Out", [&values])
        .input("Indices", [&indices])
        .input("Label", [label])
        .output("Correct", [&correct])
        .output("Total", [&total]);
    net.call(&name, "Accuracy", accuracy)
}

/// `add`, `sub`, `mul`, `div`, `max`, `min`, `pow`: the second is laid over the first from `axis` on; -1 for its
/// end.
///
/// # Errors
/// If they do not fit each other.
pub fn elementwise(
    net: &mut Network,
    kind: &str,
    x: &Variable,
    y: &Variable,
    axis: i32,
) -> Result<Variable> {
    let kind = format!("elementwise_{kind}");
    let name = net.name(&kind);
    let both = Operator::new(&kind).input("X", [x]).input("Y", [y]).attribute("axis", axis);
    net.call(&name, "Out", both)
}

/// `sum`, `mean`, `max`, `min`, `prod` over extents; over all if there are none.
///
/// # Errors
/// If there are no such extents.
pub fn reduce(
    net: &mut Network,
    kind: &str,
    x: &Variable,
    dims: &[i32],
    keep: bool,
) -> Result<Variable> {
    let kind = format!("reduce_{kind}");
    let name = net.name(&kind);
    let dim = if dims.is_empty() { vec![0] } else { dims.to_vec() };
    let reduce = Operator::new(&kind)
        .input("X", [x])
        .attribute("dim", dim)
        .attribute("keep_dim", keep)
        .attribute("reduce_all", dims.is_empty());
    net.call(&name, "Out", reduce)
}

/// Other extents: 0 keeps one, -1 is what is left.
///
/// # Errors
/// If the elements do not fit them.
pub fn reshape(net: &mut Network, x: &Variable, shape: &[i32]) -> Result<Variable> {
    let name = net.name("reshape2");
    let shapes = Variable::named(&net.name(&format!("{name}.tmp")));
    let reshape = Operator::new("reshape2").input("X", [x]).output("XShape", [&shapes]);
    net.call(&name, "Out", reshape.attribute("shape", shape.to_vec()))
}

/// One behind the other along an axis.
///
/// # Errors
/// If they do not fit each other.
pub fn concat(net: &mut Network, values: &[&Variable], axis: i32) -> Result<Variable> {
    let name = net.name("concat");
    let concat = Operator::new("concat").input("X", values.iter().copied());
    net.call(&name, "Out", concat.attribute("axis", axis))
}

/// The product of matrices, either of which may be transposed.
///
/// # Errors
/// If they do not fit each other.
pub fn matmul(
    net: &mut Network,
    x: &Variable,
    y: &Variable,
    [trans_x, trans_y]: [bool; 2],
) -> Result<Variable> {
    let name = net.name("matmul_v2");
    let matmul = Operator::new("matmul_v2")
        .input("X", [x])
        .input("Y", [y])
        .attribute("trans_x", trans_x)
        .attribute("trans_y", trans_y);
    net.call(&name, "Out", matmul)
}

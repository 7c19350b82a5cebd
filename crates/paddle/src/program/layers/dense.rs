//! Fully connected layers, embeddings and matrix products.

use lodstone_model::DType;
use lodstone_schema::numbers::exact;

use super::{activated, biased, sizes};
use crate::program::error::{Result, variable};
use crate::program::initializers::Initializer;
use crate::program::network::{Network, ParamAttr, Variable};
use crate::program::operator::Operator;

/// A fully connected layer.
#[derive(Clone, Debug)]
pub struct Fc {
    /// The number of outputs per row.
    pub size: u64,
    /// The number of leading dims that make up the rows; the others are multiplied by the weight.
    pub num_flatten_dims: usize,
    /// The activation: the kind of its operator.
    pub act: Option<&'static str>,
    /// The weight matrix.
    pub weight: ParamAttr,
    /// The bias, if there is one.
    pub bias: Option<ParamAttr>,
}

impl Fc {
    /// Creates a layer with a bias.
    pub fn new(size: u64) -> Self {
        let (weight, bias) = (ParamAttr::default(), Some(ParamAttr::default()));
        Self { size, num_flatten_dims: 1, act: None, weight, bias }
    }

    /// Sets the activation.
    #[must_use]
    pub fn act(mut self, act: &'static str) -> Self {
        self.act = Some(act);
        self
    }
}

/// Multiplies rows by a matrix, and adds a bias.
///
/// # Errors
/// If the multiplied dims are unknown.
pub fn fc(net: &mut Network, x: &Variable, layer: &Fc) -> Result<Variable> {
    let name = net.name("fc");
    let dtype = net.dtype(x)?;
    let inner = sizes(net, x, layer.num_flatten_dims)?.iter().product();
    let shape = [inner, layer.size];
    let otherwise = Initializer::Xavier { seed: 0 };
    let weight = net.parameter(&layer.weight, &format!("{name}.w"), dtype, &shape, otherwise)?;
    let columns = exact(layer.num_flatten_dims).or_else(|wrong| variable(x.name(), wrong))?;
    let mul = Operator::new("mul").input("X", [x]).input("Y", [&weight]);
    let mut y = net.call(&name, "Out", mul.attribute("x_num_col_dims", columns))?;
    if let Some(bias) = &layer.bias {
        y = biased(net, &name, &y, bias, layer.size, columns)?;
    }
    activated(net, &name, y, layer.act)
}

/// Looks up rows of a `rows` by `size` table by index.
///
/// # Errors
/// If the ids are not integers.
pub fn embedding(
    net: &mut Network,
    ids: &Variable,
    dims: [u64; 2],
    padding: Option<i64>,
) -> Result<Variable> {
    embedding_with(net, ids, dims, padding, false)
}

/// Looks up rows like [`embedding`]; with `is_sparse`, the gradient of the table has only the looked-up rows.
///
/// # Errors
/// Like [`embedding`].
pub fn embedding_with(
    net: &mut Network,
    ids: &Variable,
    [rows, size]: [u64; 2],
    padding: Option<i64>,
    is_sparse: bool,
) -> Result<Variable> {
    let name = net.name("embedding");
    let otherwise = Initializer::Xavier { seed: 0 };
    let table = net.parameter(
        &ParamAttr::default(),
        &format!("{name}.w"),
        DType::Float32,
        &[rows, size],
        otherwise,
    )?;
    let lookup = Operator::new("lookup_table_v2")
        .input("Ids", [ids])
        .input("W", [&table])
        // -1 is none, as in PaddlePaddle.
        .attribute("padding_idx", padding.unwrap_or(-1));
    let lookup = if is_sparse { lookup.attribute("is_sparse", true) } else { lookup };
    net.call(&name, "Out", lookup)
}

/// The product of two matrices, each optionally transposed.
///
/// # Errors
/// If their dims do not match.
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

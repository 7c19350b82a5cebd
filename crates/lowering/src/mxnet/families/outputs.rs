//! Losses and other operators that pass their input on in inference.

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, rank};
use crate::onnx::indexing::IndexMode;
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BlockGrad", Rule::One(first)),
    ("Dropout", Rule::One(dropout)),
    ("IdentityAttachKLSparseReg", Rule::One(first)),
    ("LinearRegressionOutput", Rule::One(first)),
    ("LogisticRegressionOutput", Rule::One(logistic)),
    ("MAERegressionOutput", Rule::One(first)),
    ("MakeLoss", Rule::One(loss)),
    ("SVMOutput", Rule::One(margin)),
    ("SoftmaxActivation", Rule::One(softmax_activation)),
    ("SoftmaxOutput", Rule::One(softmax_output)),
    ("_CrossDeviceCopy", Rule::One(first)),
    ("_contrib_gradientmultiplier", Rule::One(multiplied_gradient)),
    ("_copy", Rule::One(first)),
    ("_copyto", Rule::One(first)),
    ("_identity_with_attr_like_rhs", Rule::One(first)),
    ("_np_copy", Rule::One(first)),
    ("_npi_copy", Rule::One(first)),
    ("cast_storage", Rule::One(stored)),
    ("make_loss", Rule::One(first)),
    ("softmax_cross_entropy", Rule::One(cross_entropy)),
];

fn first(node: &mut Node<'_>) -> Outcome {
    node.input(0)
}

fn loss(node: &mut Node<'_>) -> Outcome {
    node.attributes.ignore(&["valid_thresh"]);
    node.input(0)
}

fn margin(node: &mut Node<'_>) -> Outcome {
    node.attributes.ignore(&["margin", "regularization_coefficient", "use_linear"]);
    node.input(0)
}

fn multiplied_gradient(node: &mut Node<'_>) -> Outcome {
    node.attributes.ignore(&["scalar", "is_int"]);
    node.input(0)
}

fn stored(node: &mut Node<'_>) -> Outcome {
    node.attributes.word("stype", &["default", "row_sparse", "csr"], "default")?;
    node.input(0)
}

fn dropout(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    node.attributes.ignore(&["p", "axes"]);
    match node.attributes.word("mode", &["training", "always"], "training")? {
        "always" => Err(wrong("mode", "`training`: the other one is random", "always")),
        _ => Ok(x),
    }
}

fn logistic(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    node.call("Sigmoid", &[&x], [])
}

/// A softmax over all elements of a row of the batch, over the channels, or over the last dim.
fn softmax_output(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    node.at_most(2)?;
    let by_channel = node.attributes.flag("multi_output", false)?;
    let keeps_shape = node.attributes.flag("preserve_shape", false)?;
    match () {
        () if by_channel => node.call("Softmax", &[&x], [int("axis", 1)]),
        () if keeps_shape => node.call("Softmax", &[&x], [int("axis", -1)]),
        () => flat_softmax(node, &x),
    }
}

fn softmax_activation(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    match node.attributes.word("mode", &["instance", "channel"], "instance")? {
        "channel" => node.call("Softmax", &[&x], [int("axis", 1)]),
        // Along the last dim, whatever the rank.
        _ => node.call("Softmax", &[&x], [int("axis", -1)]),
    }
}

fn flat_softmax(node: &mut Node<'_>, x: &Value) -> Outcome {
    if rank(x)? <= 2 {
        return node.call("Softmax", &[x], [int("axis", -1)]);
    }
    let flat = node.call("Flatten", &[x], [int("axis", 1)])?;
    let y = node.call("Softmax", &[&flat], [int("axis", -1)])?;
    node.reshape_as(&y, x)
}

/// The sum over rows of the negative logarithm of the probability of a class.
fn cross_entropy(node: &mut Node<'_>) -> Outcome {
    let [x, classes] = node.exactly()?;
    let logs = node.call("LogSoftmax", &[&x], [int("axis", -1)])?;
    let dim = node.size_of(&x, 1)?;
    let classes = node.indices(&classes, &dim, IndexMode::Clip)?;
    let classes = node.unsqueeze(&classes, &[1])?;
    let chosen = node.call("GatherElements", &[&logs, &classes], [int("axis", 1)])?;
    let flat = node.reshape_to(&chosen, &[-1])?;
    let sum = node.reduce("ReduceSum", &flat, &[0], true)?;
    node.call("Neg", &[&sum], [])
}

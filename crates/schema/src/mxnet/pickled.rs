//! The classes that MXNet's pickles of optimizers refer to.

/// The kind of an MXNet class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pickled {
    /// An array, dense or sparse.
    Array,
    /// An object with attributes: an optimizer, or an object that it refers to.
    Object,
}

/// Returns the kind of the class `name` of a module; `None` if pickles of MXNet's optimizers do not refer to it.
pub fn pickled(module: &str, name: &str) -> Option<Pickled> {
    let known = |names: &[&str]| names.contains(&name);
    let (is_known, what) = match module {
        "mxnet.ndarray" | "mxnet.ndarray.ndarray" => (known(&["NDArray"]), Pickled::Array),
        "mxnet.ndarray.sparse" => (known(&["CSRNDArray", "RowSparseNDArray"]), Pickled::Array),
        "mxnet.numpy.multiarray" => (known(&["ndarray"]), Pickled::Array),
        "mxnet.lr_scheduler" => (known(SCHEDULES), Pickled::Object),
        "mxnet.initializer" => (known(INITIALIZERS), Pickled::Object),
        "mxnet.gluon.parameter" => (known(&["Parameter"]), Pickled::Object),
        "mxnet.context" => (known(&["Context"]), Pickled::Object),
        "mxnet.device" => (known(&["Context", "Device"]), Pickled::Object),
        // Since 2.0, each class is in its own module.
        _ if module == "mxnet.optimizer" || module.starts_with("mxnet.optimizer.") => {
            (known(OPTIMIZERS), Pickled::Object)
        }
        _ => return None,
    };
    is_known.then_some(what)
}

#[rustfmt::skip]
const OPTIMIZERS: &[&str] = &[
    "AdaBelief", "AdaDelta", "AdaGrad", "Adam", "AdamW", "Adamax", "DCASGD", "FTML", "Ftrl",
    "GroupAdaGrad", "LAMB", "LANS", "LARS", "LBSGD", "NAG", "Nadam", "RMSProp", "SGD", "SGLD",
    "SignSGD", "Signum", "Test", "ccSGD",
];

/// Learning-rate schedules.
#[rustfmt::skip]
const SCHEDULES: &[&str] = &[
    "CosineScheduler", "FactorScheduler", "LRScheduler", "MultiFactorScheduler", "PolyScheduler",
];

/// Classes that parameters refer to.
#[rustfmt::skip]
const INITIALIZERS: &[&str] = &[
    "Bilinear", "Constant", "FusedRNN", "LSTMBias", "MSRAPrelu", "Mixed", "Normal", "One",
    "Orthogonal", "Uniform", "Xavier", "Zero",
];

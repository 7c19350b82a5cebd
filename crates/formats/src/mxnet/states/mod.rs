//! States of MXNet's optimizers (`.states`): momenta and the like, in a pickle.
//!
//! | saved by | the pickle |
//! |---|---|
//! | `Module.save_optimizer_states`, `KVStore` and `Updater` | dict: number or name of a parameter to its state |
//! | `Trainer.save_states`, the others with `dump_optimizer` | tuple of the dict and the optimizer |
//!
//! | value | in the pickle | in the model |
//! |---|---|---|
//! | array | `NDArray(None)`, then the state `{'handle': bytearray}`, a record as in `.params` | a tensor, named by its path |
//! | state of several parts | tuple or list, which may be nested | the same, `0.1` |
//! | no state | `None` | metadata: `null` |
//! | optimizer | an instance and its attributes | metadata: `optimizer.lr` and so on, `optimizer.__class__` |
//! | arrays among its attributes: up to 1.2 it has the parameters of a trainer | | tensors: `optimizer.param_dict.0._data.0` |
//!
//! A path joins keys and indices with dots. The values of metadata are JSON, in which objects have
//! a `__class__`. Elements are slices of the file; protocols before 3, the only ones of Python 2,
//! encode them as strings, which are decoded on read.
//!
//! States are written back byte for byte, including edited elements of the same sizes. Any other
//! edit is rejected: an optimizer is only meaningful together with its parameters and its class.
//!
//! Source of truth: `optimizer.py`, `gluon/trainer.py` and `ndarray.py` of MXNet, and files that
//! 0.9.5, 0.11.0, 1.2.1, 1.5.1 (with Python 2 too), 1.9.1 and 2.0.0b1 wrote.
//!
//! Not supported: optimizers, schedules and initializers that are not part of MXNet, and
//! symbols, which optimizers before 1.0 refer to.

mod contents;
mod detect;
mod read;
mod write;

pub use read::read_blob;

use lodstone_schema::mxnet::{Pickled, pickled, type_flag};
use lodstone_store::Cursor;

use crate::byte_map::{self, Mapper};
use crate::encoding::pickle::known::{Is, State, Takes, Use};
use crate::encoding::pickle::{self, BUILTINS, Builds, MULTIARRAY, Rule, rule};
use crate::format::{Format, Structure};
use crate::mxnet::params;
use crate::options::Holds;

/// The name of the format, and the owner of the residuals of its models.
const NAME: &str = "mxnet-states";

/// Optimizer states.
pub static FORMAT: Format = Format {
    name: NAME,
    title: "MXNet optimizer states",
    framework: "MXNet",
    holds: Holds {
        tensors: true,
        metadata: true,
        names: true,
        sparse: true,
        dtype: |dtype| type_flag(dtype).is_some(),
        ..Holds::NOTHING
    },
    extension: "states",
    detect: detect::detect,
    byte_maps: &[&BYTE_MAP],
    structure: Some(Structure {
        memory_constant: 1 << 20,
        head: 900,
        tail: 600,
        ..Structure::PICKLE
    }),
    read: read::read,
    stage: write::write,
    ..Format::PLAIN
};

/// Byte maps of files.
static BYTE_MAP: Mapper = Mapper {
    what: "MXNet optimizer states",
    detect: detect::detect,
    read: |blob, limits| {
        // Protocols 0 to 2 encode the records of arrays as text.
        let record = |bytes: &mut Cursor<'_>| params::map_alone(bytes);
        let recorded = byte_map::record(blob, |cursor| pickle::map(cursor, blob, limits, record));
        byte_map::checked(recorded, || read_blob(blob, limits))
    },
};

/// Returns the allowed use of an import; `None` if pickles of tensors do not need it.
pub(crate) fn imports(module: &str, name: &str) -> Option<Use> {
    const ARRAY: Use = Use::class(&[&[], &[Takes::None]], Is::Array).with(State::Attributes);
    pickled(module, name).map(|what| match what {
        Pickled::Array => ARRAY,
        Pickled::Object => Use::RECORD,
    })
}

/// The module of functions that create instances in protocols 0 and 1, in Python 3 and 2.
const COPYREG: &[&str] = &["copyreg", "copy_reg"];

/// All allowed imports other than classes of MXNet.
const RULES: &[Rule] = &[
    rule(COPYREG, "_reconstructor", Builds::Reconstructor),
    rule(BUILTINS, "object", Builds::Object),
    rule(BUILTINS, "bytearray", Builds::ByteArray),
    rule(BUILTINS, "bytes", Builds::Bytes),
    rule(BUILTINS, "set", Builds::Set),
    rule(BUILTINS, "frozenset", Builds::Set),
    rule(&["_codecs"], "encode", Builds::Encode),
    rule(&["collections"], "OrderedDict", Builds::OrderedDict),
    rule(&["numpy"], "dtype", Builds::Dtype),
    rule(MULTIARRAY, "scalar", Builds::Scalar),
];

/// Returns what an import represents; `None` if it is not allowed.
fn builds(module: &str, name: &str) -> Option<Builds> {
    match pickled(module, name) {
        Some(Pickled::Array) => Some(Builds::Opaque),
        Some(Pickled::Object) => Some(Builds::Record),
        None => Rule::find(RULES, module, name),
    }
}

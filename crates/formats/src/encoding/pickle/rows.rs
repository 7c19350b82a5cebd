//! The rows of imports and calls in pickles of any framework.

use super::known::Takes::{
    Any, Bytes, Dict, Int, Ints, List, Name, Number, OneOf, Rest, Text, Tuple,
};
use super::known::{Is, Row, State, Takes, Use};
use super::shapes::{BUILTINS, MULTIARRAY};

const NUMERIC: &[&str] = &["numpy.core.numeric", "numpy._core.numeric"];
const MASKED: &[&str] = &["numpy.ma.core", "numpy.ma"];
const RANDOM: &[&str] = &["numpy.random._pickle"];

/// The class that joblib writes in place of an array, module and name.
pub(super) const WRAPPER: (&str, &str) = ("joblib.numpy_pickle", "NumpyArrayWrapper");

pub(super) const ROWS: &[Row] = &[
    (
        &["numpy"],
        &["dtype"],
        Use::class(
            &[
                &[Text],
                &[Text, Number, Number],
                &[Takes::Is(Is::Scalar)],
                &[Takes::Is(Is::Scalar), Number, Number],
            ],
            Is::Plain,
        )
        .with(State::Dtype),
    ),
    (&["numpy"], &["ndarray"], Use::value(Is::Ndarray)),
    (&["numpy"], &["memmap"], Use::value(Is::Memmap)),
    // A function, so that it is a finding to pass it on: its instances are what it creates here, and the reader of joblib
    // sees all of them.
    (&[WRAPPER.0], &[WRAPPER.1], Use::function(&[&[]], Is::Array).with(State::Wrapped)),
    (
        &["numpy"],
        SCALARS,
        Use::class(&[&[], &[Number], &[Bytes], &[Text, Text]], Is::Other).own(Is::Scalar),
    ),
    (&["numpy.dtypes"], DTYPES, Use::class(&[&[], &[Int]], Is::Plain)),
    (
        MULTIARRAY,
        &["_reconstruct"],
        Use::function(&[&[Takes::Is(Is::Ndarray), Ints, Bytes]], Is::Array).with(State::Array),
    ),
    (MULTIARRAY, &["scalar"], Use::function(&[&[Takes::Is(Is::Plain), Bytes]], Is::Other)),
    (
        NUMERIC,
        &["_frombuffer"],
        Use::function(&[&[Bytes, Takes::Is(Is::Plain), Ints, Text]], Is::Array),
    ),
    (
        &["numpy.ma.core"],
        &["_mareconstruct"],
        Use::function(&[&[Takes::Is(Is::Masked), Takes::Is(Is::Ndarray), Ints, Bytes]], Is::Array)
            .with(State::Masked),
    ),
    (MASKED, &["MaskedArray"], Use::value(Is::Masked)),
    (MASKED, &["MaskedConstant"], Use::class(&[&[]], Is::Other)),
    (MASKED, &["mvoid"], Use::value(Is::Masked)),
    (
        RANDOM,
        &["__randomstate_ctor", "__generator_ctor"],
        Use::function(
            &[
                &[Text],
                &[Takes::Is(Is::Other)],
                &[Text, Takes::Is(Is::Constructor)],
                &[Takes::Is(Is::Other), Takes::Is(Is::Constructor)],
            ],
            Is::Other,
        )
        .with(State::Values),
    ),
    (
        RANDOM,
        &["__bit_generator_ctor"],
        Use::function(&[&[Text], &[Takes::Is(Is::Generator)]], Is::Other)
            .with(State::Values)
            .own(Is::Constructor),
    ),
    (&["numpy.random._mt19937"], &["MT19937"], Use::value(Is::Generator)),
    (&["numpy.random._pcg64"], &["PCG64", "PCG64DXSM"], Use::value(Is::Generator)),
    (&["numpy.random._philox"], &["Philox"], Use::value(Is::Generator)),
    (&["numpy.random._sfc64"], &["SFC64"], Use::value(Is::Generator)),
    (
        &["numpy.random.bit_generator"],
        &["__pyx_unpickle_SeedSequence"],
        Use::function(&[&[Takes::Is(Is::Class), Int, Takes::None]], Is::Other).with(State::Values),
    ),
    (&["numpy.random.bit_generator"], &["SeedSequence"], Use::value(Is::Class)),
    (
        &["_codecs"],
        &["encode"],
        Use::function(&[&[Text, OneOf(&["latin1", "latin-1", "utf-8"])]], Is::Bytes),
    ),
    (
        &["collections"],
        &["OrderedDict"],
        Use::class(&[&[], &[List], &[Tuple], &[Dict]], Is::Mapping)
            .with(State::Attributes)
            .with_pairs(),
    ),
    (&["collections"], &["Counter"], Use::class(&[&[], &[Dict]], Is::Mapping).with_pairs()),
    (
        &["collections"],
        &["defaultdict"],
        Use::class(
            &[&[], &[Takes::Is(Is::Class)], &[Takes::None], &[Takes::Is(Is::Class), Dict]],
            Is::Mapping,
        )
        .with_pairs(),
    ),
    (
        &["collections"],
        &["deque"],
        Use::class(&[&[], &[List], &[Tuple], &[List, Any], &[Tuple, Any]], Is::Other).with_items(),
    ),
    (
        &["datetime"],
        &["date", "datetime", "time", "timedelta", "timezone"],
        Use::class(&[&[Rest]], Is::Other),
    ),
    (&["decimal"], &["Decimal"], Use::class(&[&[Text]], Is::Other)),
    (&["pathlib", "pathlib._local"], PATHS, Use::class(&[&[Rest]], Is::Other)),
    (BUILTINS, &["object"], Use::class(&[&[]], Is::Other).own(Is::Object)),
    (BUILTINS, &["bytes"], Use::class(&[&[], &[Bytes], &[List], &[Text, Text]], Is::Bytes)),
    (
        BUILTINS,
        &["bytearray"],
        Use::class(&[&[], &[Bytes], &[List], &[Takes::Is(Is::Bytes)], &[Text, Text]], Is::Bytes),
    ),
    (
        BUILTINS,
        &["bool", "complex", "float", "int", "long"],
        Use::class(&[&[], &[Number], &[Number, Number], &[Text]], Is::Other),
    ),
    (
        BUILTINS,
        &["range", "xrange", "slice"],
        Use::class(&[&[Any], &[Any, Any], &[Any, Any, Any]], Is::Other),
    ),
    (BUILTINS, &["str", "unicode"], Use::class(&[&[], &[Text], &[Bytes, Text]], Is::Other)),
    (BUILTINS, &["dict"], Use::class(&[&[], &[List], &[Dict]], Is::Mapping).with_pairs()),
    (
        BUILTINS,
        &["frozenset", "list", "set", "tuple"],
        Use::class(&[&[], &[List], &[Tuple]], Is::Other).with_items(),
    ),
    (BUILTINS, &["eval"], Use::function(&[&[OneOf(&["data"]), Takes::Data]], Is::Array)),
    (
        &["copyreg", "copy_reg"],
        &["_reconstructor"],
        Use::function(&[&[Takes::Is(Is::Class), Takes::Is(Is::Object), Takes::None]], Is::Other)
            .with(State::Attributes),
    ),
    (BUILTINS, &["getattr"], Use::function(&[&[Takes::Is(Is::Functions), Name]], Is::Other)),
];

/// Classes of paths, which are created but not followed.
const PATHS: &[&str] =
    &["Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"];

/// Classes of scalars.
#[rustfmt::skip]
pub(super) const SCALARS: &[&str] = &[
    "bool_", "bool", "bytes_", "complex128", "complex64", "datetime64", "float16", "float32",
    "float64", "int16", "int32", "int64", "int8", "str_", "timedelta64", "uint16", "uint32", "uint64",
    "uint8", "void",
];

#[rustfmt::skip]
const DTYPES: &[&str] = &[
    "BoolDType", "BytesDType", "Complex128DType", "Complex64DType", "DateTime64DType", "Float16DType",
    "Float32DType", "Float64DType", "Int16DType", "Int32DType", "Int64DType", "Int8DType", "StrDType",
    "TimeDelta64DType", "UInt16DType", "UInt32DType", "UInt64DType", "UInt8DType",
];

//! Hostile pickles: values of PaddlePaddle, and states of MXNet's optimizers.

use super::mxnet::record;
use crate::generate::Kind::{Length, Nesting, Path, Shape, Twice};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::{DEEP, Hostile, Kind, Made, PATHS, alone, file};

pub(super) fn paddle_pickle() -> Vec<Hostile> {
    const FILE: &str = "model.pdparams";
    let mut all = Vec::new();
    for golden in ["2.6.2/adam.pdopt", "2.6.2/dtypes_p4.pdparams", "2.6.2/cut_p2.pdparams"] {
        let honest = file(&format!("paddle_pickle/{golden}"));
        let made = lies(&honest, &fields::pickle(&honest), as_it_is);
        all.extend(alone(FILE, made, short_frame));
    }
    let good = pickled_array(&["1"], 4);
    assert!(good.ends_with(b"s."));
    for dims in [
        &["4294967296", "4294967296"][..],
        &["18446744073709551615", "2"],
        &["9223372036854775807", "9223372036854775807"],
        &["18446744073709551616"],
        &["-1"],
        &["-1", "-1"],
        &["1"; 65],
        &["1"; 10_000],
    ] {
        let what = format!("{} dims {:?}", dims.len(), &dims[..dims.len().min(4)]);
        all.push(Hostile::new(Shape, what, FILE, pickled_array(dims, 4)));
    }
    for made in pickled().into_iter().map(|(kind, what, bytes)| Made { kind, what, bytes }) {
        all.extend(alone(FILE, vec![made], marks));
    }
    for (path, _) in PATHS.iter().filter(|(path, _)| !path.is_empty()) {
        let size = u32::try_from(path.len()).expect("short").to_le_bytes();
        let key = [b"X", &size[..], path.as_bytes()].concat();
        let named = good.windows(6).position(|window| window == b"X\x01\0\0\0x").expect("a key");
        let bytes = [&good[..named], &key, &good[named + 6..]].concat();
        let reason = "keys are not files; where they become files, they are rejected";
        all.push(Hostile::new(Path, *path, FILE, bytes).readable(reason));
        // References to external storage are not resolved.
        let elsewhere = [b"\x80\x02", &key[..], b"Q."].concat();
        all.push(Hostile::new(Path, format!("{path} by a persistent number"), FILE, elsewhere));
    }
    all
}

pub(super) fn mxnet_states() -> Vec<Hostile> {
    const FILE: &str = "model.states";
    let mut all = Vec::new();
    for golden in ["1.9.1/trainer_adam", "1.9.1/protocol4", "1.9.1/module_adam"] {
        let honest = file(&format!("mxnet_states/{golden}.states"));
        let made = lies(&honest, &fields::pickle(&honest), as_it_is);
        all.extend(alone(FILE, made, short_frame));
    }
    for (kind, what, bytes) in pickled() {
        all.push(Hostile::new(kind, what, FILE, bytes));
    }
    // Records of arrays, each as the bytes of a handle.
    let state = |record: &[u8]| {
        let size = u32::try_from(record.len()).expect("small").to_le_bytes();
        let class = b"}K\x00cmxnet.ndarray.ndarray\nNDArray\n(NtR}X\x06\0\0\0handle";
        [b"\x80\x03", &class[..], b"B", &size, record, b"sbs."].concat()
    };
    let honest = Hostile::new(Shape, "an honest one", FILE, state(&record(&[1], 4)));
    all.push(honest.readable("it is honest"));
    for dims in [&[1 << 32, 1 << 32][..], &[i64::MAX, 2], &[-1], &[1 << 62], &[1; 65], &[1; 10_000]]
    {
        let what = format!("{} dims {:?}", dims.len(), &dims[..dims.len().min(4)]);
        all.push(Hostile::new(Shape, what, FILE, state(&record(dims, 4))));
    }
    for (what, bytes) in [("elements less", record(&[2], 4)), ("elements more", record(&[1], 8))] {
        all.push(Hostile::new(Length, what, FILE, state(&bytes)));
    }
    all
}

/// Returns pickled values that are hostile in any format: kind, name, and the bytes before `STOP`.
pub(super) fn pickled() -> Vec<(Kind, String, Vec<u8>)> {
    let begin = b"\x80\x02".to_vec();
    let mut all = Vec::new();
    let mut deep = |what: &str, down: &[u8], middle: &[u8], up: &[u8]| {
        let bytes = [&begin, &down.repeat(DEEP), middle, &up.repeat(DEEP), b"."].concat();
        all.push((Nesting, what.to_owned(), bytes));
    };
    deep("lists", b"]", b"N", b"a");
    deep("tuples", b"", b"N", b"\x85");
    deep("pairs", b"", b"N", b"2\x86");
    deep("dicts", b"}K\x00", b"N", b"s");
    deep("sets", b"\x8f(", b"N", b"\x90");
    deep("frozen sets", b"(", b"N", b"\x91");
    deep("marks", b"(", b"N", b"");
    deep("ordered dicts", b"ccollections\nOrderedDict\n)RK\x00", b"N", b"s");
    deep("states", b"ccollections\nOrderedDict\n)R", b"N", b"b");
    let itself = b"\x80\x02]q\x00h\x00a.".to_vec();
    all.push((Nesting, "a list in itself".to_owned(), itself));
    for (what, middle) in [("a text", &b"X\x01\0\0\0a"[..]), ("a number", b"K\x01")] {
        let pair = [middle, b"N"].concat();
        let bytes = [&begin[..], b"}(", &pair, &pair, b"u."].concat();
        all.push((Twice, format!("{what} as a key"), bytes));
    }
    all
}

/// Unmatched marks.
pub(super) fn marks(what: &str) -> Option<&'static str> {
    (what == "marks").then_some("the value above them is the result, as in CPython")
}

/// A frame that ends before the pickle does.
pub(super) fn short_frame(what: &str) -> Option<&'static str> {
    let short = what.starts_with("size of a frame")
        && matches!(what.split(": ").nth(1), Some("0" | "one less"));
    short.then_some("the rest need not be in a frame: each opcode is inside the frame or after it")
}

/// Returns a pickled NumPy array with these dims and this many bytes of elements.
pub(super) fn pickled_array(dims: &[&str], elements: usize) -> Vec<u8> {
    let dims: String = dims.iter().map(|dim| format!("L{dim}L\n")).collect();
    let size = u8::try_from(elements).expect("few");
    [
        &b"\x80\x02}X\x01\0\0\0xcnumpy.core.multiarray\n_reconstruct\n"[..],
        b"cnumpy\nndarray\nK\0\x85C\x01b\x87R(K\x01(",
        dims.as_bytes(),
        b"tcnumpy\ndtype\nX\x02\0\0\0f4\x89\x88\x87R(K\x03X\x01\0\0\0<",
        b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89C",
        &[size],
        &vec![0; elements],
        b"tbs.",
    ]
    .concat()
}

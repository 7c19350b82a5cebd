//! Hostile pickles, for every format that has them.

use super::Kind::{Nesting, Twice};
use super::{DEEP, Kind};

/// Returns pickled values that are hostile in any format: kind, name, and the bytes before `STOP`.
pub fn pickled() -> Vec<(Kind, String, Vec<u8>)> {
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
pub fn marks(what: &str) -> Option<&'static str> {
    (what == "marks").then_some("the value above them is the result, as in CPython")
}

/// A frame that ends before the pickle does.
pub fn short_frame(what: &str) -> Option<&'static str> {
    let short = what.starts_with("size of a frame")
        && matches!(what.split(": ").nth(1), Some("0" | "one less"));
    short.then_some("the rest need not be in a frame: each opcode is inside the frame or after it")
}

/// Returns a pickled NumPy array with these dims and this many bytes of elements.
pub fn pickled_array(dims: &[&str], elements: usize) -> Vec<u8> {
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

//! Hostile NumPy arrays, alone and in archives.

use crate::generate::Kind::{Nesting, Path, Shape, Twice};
use crate::generate::build::{npy as array, zip};
use crate::generate::fields::{self, as_it_is, lies, mend_npy};
use crate::generate::{Hostile, MALFORMED, PATHS, alone, file, never};

pub(crate) fn npz() -> Vec<Hostile> {
    archives("model.npz", &["numpy/archive/stored.npz", "numpy/archive/deflated.npz"])
}

/// Returns arrays with invalid headers.
pub(crate) fn npy() -> Vec<Hostile> {
    const FILE: &str = "model.npy";
    let mut all = Vec::new();
    for golden in ["dtype/float32", "version/2.0", "version/3.0", "fortran/float64", "shape/scalar"]
    {
        let honest = file(&format!("numpy/{golden}.npy"));
        all.extend(alone(FILE, lies(&honest, &fields::npy(&honest), mend_npy), never));
    }
    let header = |kind, what: &str, rest: &str| {
        let dict = format!("{{'descr': '<f4', 'fortran_order': False, {rest}}}");
        Hostile::new(kind, what, FILE, array(&dict, 4))
    };
    for dims in [
        "(4294967296, 4294967296)",
        "(18446744073709551615, 2)",
        "(18446744073709551616,)",
        "(4611686018427387904,)",
        "(-1,)",
        "(1.0,)",
        "(1e3,)",
        "(0x1,)",
        "(1)",
        "1",
        "[1]",
    ] {
        all.push(header(Shape, dims, &format!("'shape': {dims}, ")));
    }
    let many = format!("'shape': ({}), ", "1,".repeat(20_000));
    all.push(header(Shape, "20,000 dims", &many));
    for open in ["(", "[", "{", "((1,),"] {
        let deep = open.repeat(65_000 / open.len() - 100);
        all.push(header(Nesting, &format!("{open} in a shape"), &format!("'shape': {deep}")));
    }
    let deep =
        format!("{{'descr': {}, 'fortran_order': False, 'shape': (1,), }}", "(".repeat(60_000));
    let structure = Hostile::new(Nesting, "( in a type", FILE, array(&deep, 4));
    all.push(structure.refused(&["Unsupported"], &["structures"]));
    let again = ["unique keys"];
    for rest in [
        "'shape': (1,), 'shape': (1,), ",
        "'descr': '<f4', 'shape': (1,), ",
        "'fortran_order': False, 'shape': (1,), ",
    ] {
        all.push(header(Twice, rest, rest).refused(MALFORMED, &again));
    }
    all
}

/// Returns archives of arrays, for any format that opens them.
pub(crate) fn archives(open: &'static str, goldens: &[&str]) -> Vec<Hostile> {
    let mut all = Vec::new();
    for golden in goldens {
        let honest = file(golden);
        for hostile in alone(open, lies(&honest, &fields::zip(&honest), as_it_is), never) {
            all.push(hostile.refused(&["Malformed", "OutOfRange"], &[]));
        }
    }
    let good = array("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4);
    let member = |kind, what: &str, bytes: &[u8]| {
        [false, true].map(|deflate| {
            let archive = zip([(&b"x.npy"[..], bytes)], deflate);
            let what = format!("{what}, {}", if deflate { "deflated" } else { "stored" });
            Hostile::new(kind, what, open, archive)
        })
    };
    // Hostile arrays are hostile in an archive too.
    for Hostile { kind, what, files, answer, .. } in npy() {
        for hostile in member(kind, &format!("a member: {what}"), &files[0].1) {
            all.push(Hostile { answer: answer.clone(), ..hostile });
        }
    }
    let inner = zip([(&b"x.npy"[..], &good[..])], true);
    all.extend(member(Nesting, "an archive in an archive", &inner));
    for names in [[&b"x.npy"[..], b"x.npy"], [b"\xff.npy", b"y.npy"]] {
        let archive = zip(names.map(|name| (name, &good[..])), false);
        all.push(Hostile::new(Twice, names[0].escape_ascii().to_string(), open, archive));
    }
    let mut overlapping = zip([(&b"x.npy"[..], &good[..]), (b"y.npy", &good)], false);
    let directory = overlapping.len() - 22 - 2 * (46 + 5);
    overlapping.copy_within(directory..directory + 51, directory + 51);
    all.push(Hostile::new(Twice, "a member by two entries", open, overlapping));
    for (path, _) in PATHS {
        let name = format!("{path}.npy");
        let archive = zip([(name.as_bytes(), &good[..])], false);
        let reason =
            "names of members are names of tensors: nothing is unpacked, `scan` reports them";
        all.push(Hostile::new(Path, *path, open, archive).readable(reason));
    }
    all
}

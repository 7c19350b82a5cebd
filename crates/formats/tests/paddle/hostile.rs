//! Hostile PaddlePaddle programs with their parameters, and directories of those.

pub(crate) mod pir;
pub(crate) mod program;
pub(crate) mod stream;

use self::program::left_over;
use self::stream::{dims_from, paddle_tensor};
use crate::generate::Kind::{Length, Path, Shape, Twice};
use crate::generate::build::{lying_program, program, tensor};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::pickle::{marks, pickled, pickled_array, short_frame};
use crate::generate::{
    Answer, Hostile, LINKS, MALFORMED, Made, PATHS, alone, file, long_names, never,
};

pub(crate) fn paddle() -> Vec<Hostile> {
    const PROGRAM: &str = "model.pdmodel";
    const PARAMS: &str = "model.pdiparams";
    let [honest, params] =
        ["pdmodel", "pdiparams"].map(|end| file(&format!("paddle/2.6.2/text/text.{end}")));
    let mut all = Vec::new();
    let dense = vec!["dense".to_owned(); 4];
    let fields = fields::stream(&params, &dense, false, false);
    for hostile in alone(PARAMS, lies(&params, &fields, as_it_is), never) {
        all.push(hostile.beside(&[(PROGRAM, &honest)]).directory());
    }
    for made in lying_program(&honest) {
        let Made { kind, what, bytes, .. } = made;
        let both = Hostile::new(kind, what, PROGRAM, bytes).beside(&[(PARAMS, &params)]);
        all.push(left_over(both.directory()));
    }
    let ours = |program: &[u8], params: &[u8], kind, what: &str| {
        Hostile::new(kind, what, PROGRAM, program.to_vec()).beside(&[(PARAMS, params)]).directory()
    };
    let one = tensor(&[1], 4);
    for (what, count, words) in [
        ("a record less", 1, "it ends before `y`"),
        ("a record more", 3, "it holds 3 tensors, the program declares 2"),
    ] {
        let hostile = ours(&program(&["x", "y"]), &one.repeat(count), Length, what);
        all.push(hostile.refused(&["Mismatch"], &[words]));
    }
    let other = ours(&program(&["x"]), &tensor(&[2], 8), Shape, "other dims than declared");
    all.push(other.refused(&["Mismatch"], &["of shape [1], and is of shape [2]"]));
    for hostile in dims_from(PARAMS, tensor) {
        all.push(hostile.beside(&[(PROGRAM, &program(&["x"]))]).directory());
    }
    let two = Hostile::new(Twice, "two programs", PROGRAM, program(&["x"]));
    let two = two.beside(&[("other.pdmodel", &program(&["x"]))]);
    // A conventional name would be preferred.
    let mut two = two.directory().refused(&["NoModel"], &["several programs"]);
    two.files[0].0 = "mine.pdmodel".to_owned();
    all.push(two);
    let again = ours(&program(&["x", "x"]), &one, Twice, "a variable");
    all.push(again.readable("two variables of the same name are one, with one record"));
    for (path, _) in PATHS {
        let reason = "records of one file have no files of their own";
        all.push(ours(&program(&[path]), &one, Path, path).readable(reason));
    }
    all
}

pub(crate) fn paddle_vars() -> Vec<Hostile> {
    const PROGRAM: &str = "__model__";
    let one = tensor(&[1], 4);
    let ours = |names: &[&str], kind, what: &str| {
        let hostile = Hostile::new(kind, what, PROGRAM, program(names)).directory();
        hostile.beside(&[("x", &one), ("sub/w", &one)])
    };
    let mut all = Vec::new();
    for hostile in paddle_tensor().into_iter().filter(|h| matches!(h.answer, Answer::Refused(..))) {
        let Hostile { kind, what, mut files, .. } = hostile;
        let (_, bytes) = files.remove(0);
        let mut beside = ours(&["x", "y"], kind, &what);
        beside.files.push(("y".to_owned(), bytes));
        all.push(beside);
    }
    let again = ours(&["x", "x"], Twice, "a variable");
    all.push(again.readable("two variables of the same name are one, with one file"));
    let mut two = ours(&["x", "y"], Twice, "two records in a file");
    two.files.push(("y".to_owned(), one.repeat(2)));
    all.push(two.refused(MALFORMED, &["one record", "2 records"]));
    for (path, why) in PATHS {
        all.push(ours(&["x", path], Path, path).refused(&["Escapes"], &[why]));
    }
    for name in long_names() {
        let reason = "a file of that name cannot exist: it is missing, with a warning";
        all.push(ours(&["x", &name], Path, "a long name").readable(reason));
    }
    all.push(ours(&["x", "sub"], Path, "a directory").refused(&["NotAFile"], &[]));
    for (link, target, name) in LINKS {
        let mut hostile = ours(&["x", name], Path, &format!("{link} to {target}"));
        if *link == "sub" {
            hostile.files.retain(|(name, _)| !name.starts_with("sub/"));
        }
        hostile.links.push(((*link).to_owned(), (*target).to_owned()));
        all.push(hostile.refused(&["Escapes"], &["a symbolic link"]));
    }
    all
}

pub(crate) fn paddle_save() -> Vec<Hostile> {
    const PROGRAM: &str = "lenet.pdmodel";
    let [honest, params, states] = ["pdmodel", "pdparams", "pdopt"]
        .map(|end| file(&format!("paddle/2.6.2/lenet/saved/lenet.{end}")));
    let beside = |name: &'static str, made: Made| {
        let other = if name.ends_with("opt") {
            ("lenet.pdparams", &params[..])
        } else {
            ("lenet.pdopt", &states[..])
        };
        let hostile = Hostile::new(made.kind, made.what, name, made.bytes);
        Hostile { open: PROGRAM, ..hostile.beside(&[(PROGRAM, &honest), other]) }
    };
    let mut all = Vec::new();
    for (name, pickle) in [("lenet.pdparams", &params), ("lenet.pdopt", &states)] {
        // The pickles are similar throughout.
        let mut fields = fields::pickle(pickle);
        fields.truncate(40);
        for made in lies(pickle, &fields, as_it_is) {
            let reason = short_frame(&made.what);
            let hostile = beside(name, made);
            all.push(match reason {
                Some(reason) => hostile.readable(reason),
                None => hostile,
            });
        }
        for (kind, what, bytes) in pickled() {
            let reason = marks(&what);
            let hostile = beside(name, Made { kind, what, bytes });
            all.push(match reason {
                Some(reason) => hostile.readable(reason),
                None => hostile,
            });
        }
        let bytes = pickled_array(&["4294967296", "4294967296"], 4);
        all.push(beside(name, Made { kind: Shape, what: "dims".to_owned(), bytes }));
    }
    let twice = Made { kind: Twice, what: "a tensor in both".to_owned(), bytes: params.clone() };
    let reason = "each pickle is its own dict; the names show that there are two";
    all.push(beside("lenet.pdopt", twice).readable(reason));
    all
}

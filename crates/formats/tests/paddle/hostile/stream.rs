//! Hostile PaddlePaddle tensor streams.

use crate::generate::Kind::{Nesting, Shape, Twice};
use crate::generate::build::{number, tensor};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::{Hostile, alone, file, kinds, nested, never};

pub(crate) fn paddle_tensor() -> Vec<Hostile> {
    const FILE: &str = "x.lodtensor";
    let goldens = [
        "2.6.2/lod3.lodtensor",
        "2.6.2/float32.lodtensor",
        "2.6.2/scalar.lodtensor",
        "2.6.2/rows_float64.selectedrows",
        "2.6.2/tokens.vocab",
    ];
    let mut all = streams(FILE, &goldens, false, false);
    all.extend(dims_from(FILE, tensor));
    let described = |description: &[u8]| {
        let size = u32::try_from(description.len()).expect("short").to_le_bytes();
        [&[0; 16][..], &size, description, &[0; 4]].concat()
    };
    let groups = [number(1, 5), number(2, 1), nested("\x2b", 2000, "\x2c").into_bytes()].concat();
    all.push(Hostile::new(Nesting, "groups in a description", FILE, described(&groups)));
    let twice = [number(1, 6), number(1, 5), number(2, 1)].concat();
    let reason = "protobuf uses the last of duplicate values, and PaddlePaddle uses protobuf";
    all.push(Hostile::new(Twice, "an element type", FILE, described(&twice)).readable(reason));
    all
}

pub(crate) fn paddle_tensor_lod_last() -> Vec<Hostile> {
    const FILE: &str = "x.lodtensor";
    let goldens = ["early/lod_last/lod3.lodtensor", "early/lod_last/float32.lodtensor"];
    let mut all = streams(FILE, &goldens, true, false);
    // The number of levels follows the elements.
    all.extend(dims_from(FILE, |dims, elements| tensor(dims, elements)[12..].to_vec()));
    all
}

pub(crate) fn paddle_params() -> Vec<Hostile> {
    const FILE: &str = "model.pdiparams";
    let goldens = [
        "2.6.2/mixed.combined",
        "2.6.2/tensors_and_vocabulary.combined",
        "2.6.2/vocabularies.combined",
    ];
    let mut all = streams(FILE, &goldens, false, false);
    let honest = tensor(&[1], 4);
    all.extend(dims_from(FILE, |dims, elements| [honest.clone(), tensor(dims, elements)].concat()));
    all
}

pub(crate) fn paddle_params_sized() -> Vec<Hostile> {
    const FILE: &str = "model.params";
    let goldens = ["early/sized/mixed.combined", "early/sized/lod3.lodtensor"];
    let mut all = streams(FILE, &goldens, false, true);
    let sized = |record: Vec<u8>| [&(record.len() as u64).to_le_bytes()[..], &record].concat();
    let honest = sized(tensor(&[1], 4));
    all.extend(dims_from(FILE, |dims, elements| {
        [honest.clone(), sized(tensor(dims, elements))].concat()
    }));
    all
}

/// Returns golden Paddle streams with wrong values, under the name of a file.
fn streams(open: &'static str, goldens: &[&str], lod_last: bool, sized: bool) -> Vec<Hostile> {
    let mut all = Vec::new();
    for golden in goldens {
        let path = format!("paddle/{golden}");
        let honest = file(&path);
        let fields = fields::stream(&honest, &kinds(&path), lod_last, sized);
        all.extend(alone(open, lies(&honest, &fields, as_it_is), never));
    }
    all
}

/// Returns records with hostile dims, built by `record`.
pub(crate) fn dims_from(
    open: &'static str,
    record: impl Fn(&[i64], usize) -> Vec<u8>,
) -> Vec<Hostile> {
    let hostile: [&[i64]; 9] = [
        &[1 << 32, 1 << 32],
        &[i64::MAX, i64::MAX],
        &[i64::MAX, 2],
        &[1 << 62],
        &[-1],
        &[-1, -1],
        &[i64::MIN, 2],
        &[2, 1 << 61, 2],
        &[1; 5000],
    ];
    let made = hostile.map(|dims| {
        let what = format!("{} dims {:?}", dims.len(), &dims[..dims.len().min(4)]);
        Hostile::new(Shape, what, open, record(dims, 4))
    });
    made.into_iter().collect()
}

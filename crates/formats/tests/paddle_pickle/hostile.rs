//! Hostile files of `paddle.save`.

use crate::generate::Kind::{Path, Shape};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::pickle::{marks, pickled, pickled_array, short_frame};
use crate::generate::{Hostile, Made, PATHS, alone, file};

pub(crate) fn paddle_pickle() -> Vec<Hostile> {
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

//! Hostile states of MXNet's optimizers.

use crate::generate::Kind::{Length, Shape};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::pickle::{pickled, short_frame};
use crate::generate::{Hostile, alone, file};
use crate::mxnet::hostile::record;

pub(crate) fn mxnet_states() -> Vec<Hostile> {
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

//! Hostile PaddlePaddle programs, binary and text.

use crate::generate::Kind::{Length, Nesting, Path, Shape, Twice};
use crate::generate::build::{self, field, lying_program, number, program};
use crate::generate::{DEEP, Hostile, MALFORMED, PATHS, alone, file, nested, never};

pub(crate) fn paddle_program() -> Vec<Hostile> {
    const FILE: &str = "model.pdmodel";
    let mut all = Vec::new();
    for golden in ["2.6.2/attributes.pb", "3.3.1/old/net.pdmodel"] {
        let made = lying_program(&file(&format!("paddle/{golden}")));
        all.extend(alone(FILE, made, never).map(left_over));
    }
    let declared = |dims: &[i64]| {
        let mut description = number(1, 5);
        dims.iter().for_each(|dim| description.extend(number(2, *dim)));
        let kind = [number(1, 7), field(3, &field(1, &description))].concat();
        let var = [field(1, b"x"), field(2, &kind)].concat();
        let block = [number(1, 0), number(2, -1), field(3, &var)].concat();
        field(1, &block)
    };
    for dims in [&[1 << 32, 1 << 32][..], &[i64::MAX, i64::MAX], &[i64::MIN], &[1; 10_000]] {
        let what = format!("{} dims {:?}", dims.len(), &dims[..dims.len().min(4)]);
        let reason = "a declaration: no tensor is built from it";
        all.push(Hostile::new(Shape, what, FILE, declared(dims)).readable(reason));
    }
    let honest = program(&["x"]);
    for (what, rest) in [
        ("groups", nested("\x2b", DEEP, "\x2c").into_bytes()),
        ("groups that do not end", vec![0x2b; DEEP]),
        ("ends of groups", vec![0x2c; 4]),
    ] {
        all.push(Hostile::new(Nesting, what, FILE, [honest.clone(), rest].concat()));
    }
    let version = |number: i64| field(4, &build::number(1, number));
    let twice = [honest, version(1)].concat();
    let once = ["once, found a duplicate"];
    all.push(Hostile::new(Twice, "a version", FILE, twice).refused(MALFORMED, &once));
    let block = |rest: &[u8]| field(1, &[&number(1, 0)[..], &number(2, -1), rest].concat());
    let kinds = [field(2, &number(1, 7)), field(2, &number(1, 8))].concat();
    let var = field(3, &[field(1, b"x"), kinds].concat());
    all.push(Hostile::new(Twice, "a type", FILE, block(&var)).refused(MALFORMED, &once));
    let same = "PaddlePaddle also uses the last of two variables; both are kept in the bytes";
    let vars = field(3, &build::variable("x")).repeat(2);
    all.push(Hostile::new(Twice, "a variable", FILE, block(&vars)).readable(same));
    for (path, _) in PATHS {
        let reason = "names are looked up only inside the directory";
        all.push(Hostile::new(Path, *path, FILE, program(&[path])).readable(reason));
    }
    all
}

pub(crate) fn paddle_program_text() -> Vec<Hostile> {
    const FILE: &str = "model.pbtxt";
    let text = |kind, what: &str, text: &str| {
        Hostile::new(
            kind,
            what,
            FILE,
            format!("blocks {{ idx: 0 parent_idx: -1 {text} }}").into_bytes(),
        )
    };
    let mut all = Vec::new();
    for value in [
        "2147483648",
        "4294967296",
        "18446744073709551615",
        "99999999999999999999",
        "1e300",
        "nan",
        "0x1ffffffff",
        "--1",
    ] {
        let hostile = text(Length, value, &format!("forward_block_idx: {value}"));
        let fits = matches!(value, "2147483648" | "4294967296" | "0x1ffffffff");
        let reason = "64 bits are accepted where PaddlePaddle reads 32, as in the binary form";
        all.push(if fits { hostile.readable(reason) } else { hostile });
    }
    for value in ["18446744073709551616", "-9223372036854775809", "1.5", "1e3"] {
        let var = format!(
            "vars {{ name: \"x\" type {{ type: LOD_TENSOR lod_tensor {{ tensor {{ data_type: FP32 dims: {value} }} }} }} }}"
        );
        all.push(text(Shape, value, &var));
    }
    for open in ["vars {", "ops {", "vars <", "ops { attrs {", "ops { inputs: [", "vars { type {"] {
        all.push(text(Nesting, open, &open.repeat(DEEP)));
    }
    let once = [];
    for (what, twice) in [
        ("a number", "forward_block_idx: 1 forward_block_idx: 1"),
        ("a message", "vars { name: \"x\" type { type: RAW } type { type: RAW } }"),
        ("a name", "vars { name: \"x\" name: \"y\" type { type: RAW } }"),
    ] {
        all.push(text(Twice, what, twice).refused(MALFORMED, &once));
    }
    for (path, _) in PATHS {
        let escaped: String = path.bytes().map(|byte| format!("\\{byte:03o}")).collect();
        let var =
            format!("vars {{ name: \"{escaped}\" type {{ type: LOD_TENSOR }} persistable: true }}");
        let reason = "names are looked up only inside the directory";
        all.push(text(Path, path, &var).readable(reason));
    }
    all
}

/// The rest of a shortened name may happen to be an unknown field.
pub(crate) fn left_over(hostile: Hostile) -> Hostile {
    let names =
        ["1 of a pair", "1 of a operand", "2 of a operand", "1 of a attribute", "3 of a op"];
    let shorter = [": one less", ": 0"].iter().any(|lie| hostile.what.ends_with(lie));
    match shorter && names.iter().any(|name| hostile.what.contains(name)) {
        true => hostile.perhaps("the rest of a name may happen to be a field"),
        false => hostile,
    }
}

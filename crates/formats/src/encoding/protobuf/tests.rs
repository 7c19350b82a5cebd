#![expect(clippy::unwrap_used, reason = "tests panic on unexpected results")]

use bytes::Bytes;
use lodstone_model::Limits;

use super::patch::patch;
use super::schema::{Enum, Generation, Kind, Message as Schema, many, one};
use super::text;
use super::wire::{Encoder, Message, Source};
use crate::error::Error;

static COLOR: Enum = Enum { values: &[(1, &["RED"]), (2, &["OLD_BLUE", "BLUE"])] };

static INNER: Schema = Schema {
    name: "Inner",
    fields: &[one(1, &["x"], Kind::Int), one(2, &["color"], Kind::Enum(&COLOR))],
};

static OUTER: Schema = Schema {
    name: "Outer",
    fields: &[
        one(1, &["id"], Kind::Int),
        many(2, &["inner"], Kind::Message(&INNER)),
        one(3, &["f"], Kind::Float),
        one(4, &["d"], Kind::Double),
        one(5, &["s"], Kind::Bytes),
        one(6, &["b"], Kind::Bool),
        many(7, &["n"], Kind::Int),
    ],
};

fn parse(text: &str) -> Result<Bytes, Error> {
    let limits = Limits::default();
    text::parse(&Source::new("test", &limits), &OUTER, text.as_bytes(), &limits).map(Bytes::from)
}

fn print(bytes: &Bytes, generation: Generation) -> String {
    let style = text::Style { generation, floats_as_doubles: true };
    text::print(&Source::new("test", &Limits::default()), &OUTER, bytes, style).unwrap()
}

#[test]
fn floats_print_as_python_prints_the_double_that_equals_them() {
    // The right-hand sides are results of repr() in Python 3.
    for (value, expected) in [
        (0.9_f32, "0.8999999761581421"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e-8, "9.99999993922529e-09"),
        (1e-6, "9.999999974752427e-07"),
        (0.0001, "9.999999747378752e-05"),
        (0.001, "0.0010000000474974513"),
        (1e16, "1.0000000272564224e+16"),
        (123_456_792.0, "123456792.0"),
        (f32::MAX, "3.4028234663852886e+38"),
        (f32::INFINITY, "inf"),
        (f32::NEG_INFINITY, "-inf"),
        (f32::NAN, "nan"),
    ] {
        let mut encoder = Encoder::default();
        encoder.f32(3, value);
        let bytes = encoder.finish().into();
        assert_eq!(print(&bytes, Generation::First), format!("f: {expected}\n"));
        let back = parse(&print(&bytes, Generation::First)).unwrap();
        assert!(back == bytes || value.is_nan());
    }
    let mut encoder = Encoder::default();
    encoder.f64(4, 1e22);
    assert_eq!(print(&encoder.finish().into(), Generation::First), "d: 1e+22\n");
}

#[test]
fn text_is_parsed_in_all_its_forms() {
    let plain = parse("id: 5 inner { x: 1 color: RED } inner { color: BLUE } n: 1 n: 2").unwrap();
    for other in [
        "id:5,inner{x:1;color:RED}inner<color:OLD_BLUE>n:[1,2]",
        "# comment\nid: 0x5\ninner: { x: 01 color: 1 } # more\ninner { color: 2 }\nn: [ 1, 2 ]\n",
    ] {
        assert_eq!(parse(other).unwrap(), plain, "{other}");
    }
    let string = parse(r#"s: "a\n\"\'\\\101\x42" 'c' "\303\251""#).unwrap();
    assert_eq!(string, parse("s: \"a\\n\\\"\\'\\\\ABc\u{e9}\"").unwrap());
    assert_eq!(print(&string, Generation::First), "s: \"a\\n\\\"\\'\\\\ABc\\303\\251\"\n");
    assert_eq!(parse("b: true f: 1.5f").unwrap(), parse("b: t f: 1.5").unwrap());
}

#[test]
fn later_generations_print_their_own_names() {
    let bytes = parse("inner { color: OLD_BLUE }").unwrap();
    assert!(print(&bytes, Generation::First).contains("OLD_BLUE"));
    assert!(print(&bytes, Generation::Latest).contains("color: BLUE"));
}

#[test]
fn unknown_fields_survive_text() {
    let mut encoder = Encoder::default();
    encoder.int(1, 7);
    encoder.int(90, -1);
    encoder.fixed32(91, [1, 2, 3, 4]);
    encoder.fixed64(92, [8; 8]);
    encoder.bytes(93, &[0, 255, b'a']);
    // Packed, where there is one value.
    encoder.bytes(6, &[1, 0]);
    let bytes: Bytes = encoder.finish().into();
    let text = print(&bytes, Generation::First);
    assert!(text.contains("91: 0x04030201\n"), "{text}");
    assert_eq!(parse(&text).unwrap(), bytes);
}

#[test]
fn errors_in_text_are_reported_with_their_offset() {
    for (text, expected, found) in [
        ("nothing: 1", "a field of Outer", "`nothing`"),
        ("id: x", "an integer", "`x`"),
        ("id 5", "`:` after `id`", "`5`"),
        ("inner { color: GREEN }", "an enum value", "`GREEN`"),
        ("inner { x: 1", "`}` at the end of a message", "the end of the text"),
        ("}", "a field", "a closing bracket"),
        ("s: \"abc", "a terminated string", "the end of the line"),
        ("s: \"\\q\"", "an escape", "`\\q`"),
        ("n: [1 2]", "`,` or `]`", "`2`"),
        ("id: 99999999999999999999", "an integer", "`99999999999999999999`"),
        ("s: 5", "a string in quotes", "`5`"),
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(&format!("expected {expected}, found {found}")), "{message}");
        assert!(message.contains("at offset"), "{message}");
    }
}

#[test]
fn a_patch_changes_what_changed_and_keeps_the_rest() {
    // As read: an unknown field inside each message, an explicit default, another order.
    let odd = |x: u8| [0x12, 5, 0x08, x, 0xf8, 0x06, 9].to_vec();
    let raw: Vec<u8> = [&odd(1)[..], &odd(2), &odd(3), &[0x08, 5, 0x30, 0]].concat();
    let message = |id: i64, xs: &[i64]| -> Bytes {
        let mut encoder = Encoder::default();
        encoder.int(1, id);
        xs.iter().for_each(|x| encoder.message(2, |inner| inner.int(1, *x)));
        encoder.finish().into()
    };
    let raw = Bytes::from(raw);
    let old = message(5, &[1, 2, 3]);
    let patched = |new: &Bytes| patch(&OUTER, &raw, &old, new).unwrap().to_vec();

    assert_eq!(patched(&old), raw);
    let tail = [0x08, 5, 0x30, 0];
    let changed = [&odd(1)[..], &odd(7), &odd(3), &tail].concat();
    assert_eq!(patched(&message(5, &[1, 7, 3])), changed, "one element");
    let removed = [&odd(1)[..], &odd(3), &tail].concat();
    assert_eq!(patched(&message(5, &[1, 3])), removed, "one removed");
    let inserted = [&odd(1)[..], &[0x12, 2, 0x08, 9], &odd(2), &odd(3), &tail].concat();
    assert_eq!(patched(&message(5, &[1, 9, 2, 3])), inserted, "one inserted");
    let renumbered = [&odd(1)[..], &odd(2), &odd(3), &[0x08, 6, 0x30, 0]].concat();
    assert_eq!(patched(&message(6, &[1, 2, 3])), renumbered, "another field");
    let swapped = [&odd(3)[..], &odd(2), &odd(1), &tail].concat();
    assert_eq!(patched(&message(5, &[3, 2, 1])), swapped, "two swapped");
    let none = [0x30, 0];
    assert_eq!(patched(&Bytes::new()), none, "all removed");
}

#[test]
fn a_patch_keeps_fields_between_each_other() {
    // Elements of two fields that alternate, as if messages had been merged.
    let inner = |x: u8| vec![0x12, 2, 0x08, x];
    let number = |n: u8| vec![0x38, n];
    let raw = Bytes::from([inner(1), number(1), inner(2), number(2)].concat());
    let old = Bytes::from([inner(1), inner(2), number(1), number(2)].concat());
    let patched = |new: Vec<u8>| patch(&OUTER, &raw, &old, &new.into()).unwrap().to_vec();

    let edited = [inner(1), inner(9), number(1), number(2)].concat();
    assert_eq!(patched(edited), [inner(1), number(1), inner(9), number(2)].concat());
    let longer = [inner(1), inner(2), inner(3), number(1), number(2)].concat();
    assert_eq!(patched(longer), [inner(1), number(1), inner(2), inner(3), number(2)].concat());
    let shorter = [inner(2), number(1), number(2)].concat();
    assert_eq!(patched(shorter), [inner(2), number(1), number(2)].concat());
}

#[test]
fn varints_of_any_length_up_to_ten_bytes_are_read() {
    let source = Source::new("test", &Limits::default());
    let first = |bytes: &[u8]| {
        let message = Message::new(&source, Bytes::copy_from_slice(bytes));
        let mut fields = message.fields();
        fields.next().unwrap().map(|field| field.i64())
    };
    assert_eq!(first(&[0x08, 0x80, 0x80, 0x00]).unwrap().unwrap(), 0, "not the shortest form");
    let minus_one = [&[0x08][..], &[0xff; 9], &[0x01]].concat();
    assert_eq!(first(&minus_one).unwrap().unwrap(), -1);
    assert!(first(&[&[0x08][..], &[0xff; 11]].concat()).is_err());
}

//! Messages in which one repeated field occurs any number of times, for the test that counts the steps of readers.

use crate::encoding::protobuf::schema::{Field, Kind, Message};
use crate::encoding::protobuf::wire::Encoder;
use crate::registry::MESSAGES;

/// A repeated field of a message, and its enclosing messages from the outside in.
#[derive(Debug)]
pub struct Repeated {
    /// The value of fields that are not repeated.
    single: usize,
    path: Vec<(&'static Message, &'static Field)>,
}

/// Returns the repeated fields of each format that is based on protobuf.
pub fn repeated() -> [Vec<Repeated>; 2] {
    MESSAGES.map(|(root, single)| fields(root, single))
}

fn fields(root: &'static Message, single: usize) -> Vec<Repeated> {
    let (mut found, mut seen) = (Vec::new(), vec![root.name]);
    let mut open = vec![(root, Vec::new())];
    while let Some((message, path)) = open.pop() {
        for field in message.fields {
            let mut path = path.clone();
            path.push((message, field));
            if let Kind::Message(inner) = field.kind
                && !seen.contains(&inner.name)
            {
                seen.push(inner.name);
                open.push((inner, path.clone()));
            }
            if field.repeated {
                found.push(Repeated { single, path });
            }
        }
    }
    found
}

impl Repeated {
    /// Returns the path of the field, such as `graph.node`.
    pub fn name(&self) -> String {
        let names = self.path.iter().filter_map(|(_, field)| field.names.first().copied());
        names.collect::<Vec<_>>().join(".")
    }

    /// Returns a message in which the field occurs `count` times: each with different contents, or all empty.
    pub fn grown(&self, count: usize, filled: bool) -> Vec<u8> {
        self.level(0, count, filled)
    }

    fn level(&self, depth: usize, count: usize, filled: bool) -> Vec<u8> {
        let Some((message, field)) = self.path.get(depth) else { return Vec::new() };
        let mut out = Encoder::default();
        for other in message.fields.iter().filter(|other| other.number != field.number) {
            value(&mut out, other, self.single, 1);
        }
        if depth + 1 < self.path.len() {
            out.bytes(field.number, &self.level(depth + 1, count, filled));
            return out.finish();
        }
        for number in 0..count {
            match field.kind {
                Kind::Message(_) if !filled => out.bytes(field.number, &[]),
                _ => value(&mut out, field, number, 2),
            }
        }
        out.finish()
    }
}

/// Encodes a value of a field; messages contain their fields to a depth of `levels`.
fn value(out: &mut Encoder, field: &Field, number: usize, levels: usize) {
    match field.kind {
        Kind::Int | Kind::Uint => out.int(field.number, number as i64 % 100),
        Kind::Bool => out.bool(field.number, true),
        Kind::Float => out.f32(field.number, 1.0),
        Kind::Double => out.f64(field.number, 1.0),
        Kind::Bytes => out.bytes(field.number, format!("n{number}").as_bytes()),
        Kind::Elements => out.bytes(field.number, &[0; 4]),
        Kind::Enum(values) => {
            if let Some((value, _)) = values.values.get(number % values.values.len().max(1)) {
                out.int(field.number, *value);
            }
        }
        Kind::Message(message) if levels > 0 => out.message(field.number, |out| {
            let single = message.fields.iter().filter(|field| !field.repeated);
            single.for_each(|field| value(out, field, number, levels - 1));
        }),
        Kind::Message(_) => {}
    }
}

//! Messages as tables.

/// A message type.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A field of a message type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// The name, and the new name in a later generation of the framework.
    pub(crate) names: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) repeated: bool,
    /// Whether values are packed.
    pub(crate) packed: bool,
    /// Whether elements of a tensor may be in this field, though it also holds other values: many of them in a row, each
    /// with its own tag, or one long value.
    pub(crate) runs: bool,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `int32` and `int64`.
    Int,
    /// `uint64`.
    Uint,
    Bool,
    Float,
    Double,
    /// `string` and `bytes`, which text format does not distinguish.
    Bytes,
    /// `bytes` that hold elements of a tensor.
    Elements,
    Enum(&'static Enum),
    Message(&'static Message),
}

/// An enum type: each value, its name, and its name in a later generation.
#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) values: &'static [(i32, &'static [&'static str])],
}

/// The generation of names for printing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    First,
    Latest,
}

impl Generation {
    fn pick(self, names: &'static [&'static str]) -> &'static str {
        let name = if self == Self::First { names.first() } else { names.last() };
        name.copied().unwrap_or_default()
    }
}

impl Message {
    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    pub(crate) fn field_named(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.names.contains(&name))
    }

    /// Returns the message type of field `number`, if it is a message.
    pub(crate) fn submessage(&self, number: u32) -> Option<&'static Message> {
        match self.field(number)?.kind {
            Kind::Message(message) => Some(message),
            _ => None,
        }
    }
}

impl Field {
    /// Returns whether the field holds elements of a tensor, of which there may be many.
    pub(crate) fn is_elements(&self) -> bool {
        self.packed || matches!(self.kind, Kind::Elements)
    }

    pub(crate) fn name(&self, generation: Generation) -> &'static str {
        generation.pick(self.names)
    }
}

impl Enum {
    pub(crate) fn name(&self, number: i32, generation: Generation) -> Option<&'static str> {
        let (_, names) = self.values.iter().find(|(value, _)| *value == number)?;
        Some(generation.pick(names))
    }

    pub(crate) fn number(&self, name: &str) -> Option<i32> {
        self.values.iter().find(|(_, names)| names.contains(&name)).map(|(number, _)| *number)
    }
}

/// A field that appears at most once.
pub(crate) const fn one(number: u32, names: &'static [&'static str], kind: Kind) -> Field {
    Field { number, names, kind, repeated: false, packed: false, runs: false }
}

/// A field that appears any number of times.
pub(crate) const fn many(number: u32, names: &'static [&'static str], kind: Kind) -> Field {
    Field { number, names, kind, repeated: true, packed: false, runs: false }
}

/// Packed values: elements of a tensor.
pub(crate) const fn packed(number: u32, names: &'static [&'static str], kind: Kind) -> Field {
    Field { number, names, kind, repeated: true, packed: true, runs: false }
}

/// The same field, in which elements of a tensor may be.
pub(crate) const fn runs(field: Field) -> Field {
    Field { runs: true, ..field }
}

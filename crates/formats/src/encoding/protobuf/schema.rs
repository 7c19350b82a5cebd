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
    /// Its name, and the one that a later generation of the framework gave it.
    pub(crate) names: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) repeated: bool,
    /// Whether numbers are written in one piece.
    pub(crate) packed: bool,
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
    /// `string` and `bytes`: text format does not tell them apart.
    Bytes,
    /// `bytes` that are elements of a tensor.
    Elements,
    Enum(&'static Enum),
    Message(&'static Message),
}

/// An enum type: each number, its name, and the name of a later generation.
#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) values: &'static [(i32, &'static [&'static str])],
}

/// Which of the names of a field or value to print.
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

    /// The type of the message in field `number`, if that is one.
    pub(crate) fn submessage(&self, number: u32) -> Option<&'static Message> {
        match self.field(number)?.kind {
            Kind::Message(message) => Some(message),
            _ => None,
        }
    }
}

impl Field {
    /// Whether it holds elements of a tensor, of which there may be many.
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
    Field { number, names, kind, repeated: false, packed: false }
}

/// A field that appears any number of times.
pub(crate) const fn many(number: u32, names: &'static [&'static str], kind: Kind) -> Field {
    Field { number, names, kind, repeated: true, packed: false }
}

/// Numbers in one piece: elements of a tensor.
pub(crate) const fn packed(number: u32, names: &'static [&'static str], kind: Kind) -> Field {
    Field { number, names, kind, repeated: true, packed: true }
}

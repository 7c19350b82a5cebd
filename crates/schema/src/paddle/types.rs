//! The types of the outputs that no lowering infers: the column `types`.
//!
//! ONNX's inference gives the outputs of a lowering their types. The column has those of native functions, in the order in
//! which programs declare them, each as `Slot=type`:
//!
//! | type | the output has |
//! |---|---|
//! | `X` | the type of the variable of `X` at the same position |
//! | `copy(X)` | that, and its contents |
//! | `relation(X)` | a type that follows from that of `X` by a [`Relation`] |
//! | `int64[?,1]`, `X[X.0,1]` | an element type, or that of an input, and dims, each a [`Size`] |
//! | `uint8[X]` | an element type, and the dims of `X` |
//! | `attributes` | the dims of the attribute `shape`, and the element type of `dtype` |
//! | `scopes` | no tensor: the scopes of a block |
//!
//! | before them | meaning |
//! |---|---|
//! | `-` | a lowering infers all outputs; or it is a gradient, whose outputs have the types of variables |
//! | `declared` | all outputs are declared before |
//! | `!Lengths` | only without the input `Lengths`: with it, the lowering infers the outputs |
//! | `lowered` | the lowering infers all other outputs; here, `X` is one of these |
//!
//! With `native_if_sparse`, the types are those of selected rows; the lowering infers dense ones.

use lodstone_model::DType;

/// The types of the outputs of an operator.
#[derive(Debug, PartialEq, Eq)]
pub enum Types {
    /// A lowering infers them.
    Inferred,
    /// A lowering infers all but these, which it does not compute: only gradients read them.
    Unlowered(Vec<OutputType>),
    /// No lowering infers them; outputs that are not among these are declared before.
    Native {
        /// The input with which a lowering infers the outputs.
        unless: Option<&'static str>,
        /// The types, in the order in which programs declare the variables.
        outputs: Vec<OutputType>,
    },
}

/// The type of an output.
#[derive(Debug, PartialEq, Eq)]
pub struct OutputType {
    /// The output slot.
    pub slot: &'static str,
    /// Its type.
    pub value: Type,
}

/// A type, as it follows from other variables of the operator or from its attributes.
#[derive(Debug, PartialEq, Eq)]
pub enum Type {
    /// The scopes of a block.
    StepScopes,
    /// The dims of the attribute `shape`, the element type of the attribute `dtype`.
    Attributes,
    /// A type that follows from that of a slot.
    Of(Relation, &'static str),
    /// A tensor.
    Tensor(Element, Dims),
}

/// How a type follows from that of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same type.
    Same,
    /// The same type and contents.
    Copy,
    /// Any number of rows.
    Rows,
    /// The tensor of the rows of an array, with one level of LoD.
    Sequences,
    /// An array of such tensors.
    Array,
    /// An array of tensors with any number of rows, without LoD.
    Steps,
    /// A tensor of an array.
    Member,
    /// All tensors of an array in one, of any dims.
    Joined,
    /// The number of tensors of an array.
    Length,
    /// The tensor of the stored rows of selected rows.
    Stored,
    /// The type that all variables have in common: dims in which they differ are unknown.
    Common,
    /// Selected rows if all variables are, else the type of the first that is dense.
    Sum,
    /// The order of sequences by length.
    RankTable,
    /// A label for each row: of `[batch, steps, tags]` a matrix, of `[rows, tags]` a column.
    Labels,
}

/// An element type.
#[derive(Debug, PartialEq, Eq)]
pub enum Element {
    /// A fixed one.
    Fixed(DType),
    /// That of an input.
    Of(&'static str),
}

/// The dims of a tensor.
#[derive(Debug, PartialEq, Eq)]
pub enum Dims {
    /// Those of a variable.
    Of(&'static str),
    /// Each on its own.
    Each(Vec<Size>),
}

/// The size of a dim.
#[derive(Debug, PartialEq, Eq)]
pub enum Size {
    /// `?`: unknown.
    Unknown,
    /// `1`.
    Known(u64),
    /// `X.0`: that of a dim of an input; unknown if it has no such dim.
    Dim(&'static str, usize),
    /// `X.last`: that of the last dim of an input.
    Last(&'static str),
    /// `X.0of3`: that of a dim of an input of this rank; unknown for any other rank.
    OfRank(&'static str, usize, usize),
    /// `X.0?Lengths`: that of a dim of an input if there is another input; unknown otherwise.
    If(&'static str, usize, &'static str),
    /// `X.0*4`: a multiple of a dim of a matrix, which must be known.
    Multiple(&'static str, usize, u64),
}

const RELATIONS: [(&str, Relation); 13] = [
    ("array", Relation::Array),
    ("common", Relation::Common),
    ("copy", Relation::Copy),
    ("joined", Relation::Joined),
    ("labels", Relation::Labels),
    ("length", Relation::Length),
    ("member", Relation::Member),
    ("rank_table", Relation::RankTable),
    ("rows", Relation::Rows),
    ("sequences", Relation::Sequences),
    ("steps", Relation::Steps),
    ("stored", Relation::Stored),
    ("sum", Relation::Sum),
];

impl Types {
    /// Parses the column; `None` if a word is unknown.
    pub(super) fn parse(words: &'static str) -> Option<Self> {
        let outputs = |words: &'static str| {
            words.split(' ').map(OutputType::parse).collect::<Option<Vec<_>>>()
        };
        Some(match words {
            "-" => Self::Inferred,
            "declared" => Self::Native { unless: None, outputs: Vec::new() },
            _ => match words.split_once(' ') {
                Some(("lowered", words)) => Self::Unlowered(outputs(words)?),
                Some((first, words)) if first.starts_with('!') => {
                    let unless = Some(slot(first.strip_prefix('!')?)?);
                    Self::Native { unless, outputs: outputs(words)? }
                }
                _ => Self::Native { unless: None, outputs: outputs(words)? },
            },
        })
    }
}

impl OutputType {
    fn parse(word: &'static str) -> Option<Self> {
        let (slot, value) = word.split_once('=')?;
        Some(Self { slot, value: Type::parse(value)? })
    }
}

impl Type {
    fn parse(text: &'static str) -> Option<Self> {
        let enclosed = |open, close| text.strip_suffix(close)?.split_once(open);
        Some(match text {
            "scopes" => Self::StepScopes,
            "attributes" => Self::Attributes,
            _ => match (enclosed('[', ']'), enclosed('(', ')')) {
                (Some((element, dims)), _) => {
                    Self::Tensor(Element::parse(element)?, Dims::parse(dims)?)
                }
                (None, Some((name, of))) => {
                    let (_, relation) = RELATIONS.iter().find(|(known, _)| *known == name)?;
                    Self::Of(*relation, slot(of)?)
                }
                (None, None) => Self::Of(Relation::Same, slot(text)?),
            },
        })
    }
}

impl Element {
    fn parse(text: &'static str) -> Option<Self> {
        DType::from_name(text).map(Self::Fixed).or_else(|| slot(text).map(Self::Of))
    }
}

impl Dims {
    fn parse(text: &'static str) -> Option<Self> {
        Some(match slot(text) {
            Some(slot) => Self::Of(slot),
            None => Self::Each(text.split(',').map(Size::parse).collect::<Option<_>>()?),
        })
    }
}

impl Size {
    fn parse(text: &'static str) -> Option<Self> {
        let Some((of, dim)) = text.split_once('.') else {
            return match text {
                "?" => Some(Self::Unknown),
                size => size.parse().ok().map(Self::Known),
            };
        };
        let of = slot(of)?;
        let parts = |sign: &str| dim.split_once(sign);
        Some(match (parts("of"), parts("?"), parts("*")) {
            (Some((dim, rank)), ..) => Self::OfRank(of, dim.parse().ok()?, rank.parse().ok()?),
            (_, Some((dim, given)), _) => Self::If(of, dim.parse().ok()?, slot(given)?),
            (.., Some((dim, times))) => Self::Multiple(of, dim.parse().ok()?, times.parse().ok()?),
            _ if dim == "last" => Self::Last(of),
            _ => Self::Dim(of, dim.parse().ok()?),
        })
    }
}

/// Returns the name of a slot: unlike all other words, it begins with a capital.
pub(super) fn slot(text: &'static str) -> Option<&'static str> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_name && text.starts_with(|first: char| first.is_ascii_uppercase())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_refused() {
        let known = ["-", "declared", "Out=X", "lowered A=int64[Out]", "!L Out=X[?,1]"];
        assert!(known.iter().all(|words| Types::parse(words).is_some()));
        let unknown = [
            "",
            "x",
            "Out",
            "Out=x",
            "Out=like(X)",
            "Out=int65[1]",
            "Out=int64[]",
            "Out=int64[1",
            "Out=X[X.0of]",
            "Out=X[X.first]",
            "Out=X[x.0]",
            "!l Out=X",
            "lowered",
            "Out=X  A=X",
        ];
        let read: Vec<_> = unknown.iter().filter(|words| Types::parse(words).is_some()).collect();
        assert!(read.is_empty(), "{read:?}");
    }

    #[test]
    fn sizes_are_read() {
        let dims = "?,1,X.1,X.last,X.0of3,X.0?Y,X.0*4";
        let sizes = vec![
            Size::Unknown,
            Size::Known(1),
            Size::Dim("X", 1),
            Size::Last("X"),
            Size::OfRank("X", 0, 3),
            Size::If("X", 0, "Y"),
            Size::Multiple("X", 0, 4),
        ];
        assert_eq!(Dims::parse(dims), Some(Dims::Each(sizes)));
    }
}

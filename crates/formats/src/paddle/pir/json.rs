//! The JSON types of a program.
//!
//! Parts that only some operators have, and values of attributes, remain text until they are needed: a value of two
//! bytes would become a large structure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Deserialize)]
pub(super) struct File<'a> {
    pub(super) base_code: BaseCode<'a>,
    #[serde(borrow)]
    pub(super) program: Regions<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BaseCode<'a> {
    #[serde(borrow)]
    pub(super) magic: Cow<'a, str>,
    #[serde(default)]
    pub(super) version: i64,
    pub(super) trainable: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Regions<'a> {
    #[serde(borrow)]
    pub(super) regions: Vec<Region<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Region<'a> {
    #[serde(borrow)]
    pub(super) blocks: Vec<Block<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(default, borrow)]
    pub(super) args: Vec<Argument<'a>>,
    /// Arguments by keyword: an object, or, by a defect of PaddlePaddle, the list of `args` again.
    #[serde(default, borrow)]
    pub(super) kwargs: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) ops: Vec<Op<'a>>,
}

/// An argument of a block.
#[derive(Debug, Deserialize)]
pub(super) struct Argument<'a> {
    #[serde(rename = "#")]
    pub(super) id: i64,
    #[serde(rename = "TT", borrow)]
    pub(super) value: Typed<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Op<'a> {
    #[serde(rename = "#", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(rename = "I", default)]
    pub(super) operands: Vec<Operand>,
    /// A list of results; the one result, if the operator is a parameter.
    #[serde(rename = "O", borrow)]
    pub(super) results: Option<&'a RawValue>,
    /// A list of named attributes; flags and a name, if the operator is a parameter.
    #[serde(rename = "A", borrow)]
    pub(super) attributes: Option<&'a RawValue>,
    /// Attributes of results; flags, if the operator is a parameter.
    #[serde(rename = "OA", borrow)]
    pub(super) result_attributes: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) regions: Vec<Region<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Operand {
    #[serde(rename = "%")]
    pub(super) id: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Value<'a> {
    #[serde(rename = "%")]
    pub(super) id: i64,
    #[serde(rename = "TT", borrow)]
    pub(super) value: Typed<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Attribute<'a> {
    #[serde(rename = "N", borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(rename = "AT", borrow)]
    pub(super) value: Typed<'a>,
}

/// A type with its parts, or an attribute type with its value.
#[derive(Debug, Deserialize)]
pub(super) struct Typed<'a> {
    #[serde(rename = "#", borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(rename = "D", borrow)]
    pub(super) data: Option<&'a RawValue>,
    /// A number that JSON cannot express.
    #[serde(rename = "VD", borrow)]
    pub(super) special: Option<Cow<'a, str>>,
}

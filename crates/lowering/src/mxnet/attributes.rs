//! Attributes of MXNet nodes: strings, which `dmlc::Parameter` parses.
//!
//! | type | text |
//! |---|---|
//! | Boolean | `True`, `1`, `False`, `0`, in any case |
//! | number | decimal; floats also `1e-05`, `inf`, `nan` |
//! | tuple | `(3, 3)`, `[3, 3]`, `(2,)`, `()`, or a single number; elements may end in `L` |
//! | optional value, or element | `None` |
//! | enumeration | a word |
//!
//! An attribute that the rule of an operator does not read is an error, as in MXNet, unless it has no effect on
//! inference.

use std::cell::RefCell;
use std::collections::HashSet;
use std::str::FromStr;

use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;

use super::node::Outcome;

/// Attributes that choose an implementation, or concern training only, of the operators that have them.
const WITHOUT_EFFECT: &[&str] = &[
    "cudnn_algo_verbose",
    "cudnn_algo_bwd_data",
    "cudnn_algo_bwd_data_prec",
    "cudnn_algo_bwd_filter",
    "cudnn_algo_bwd_filter_prec",
    "cudnn_algo_fwd",
    "cudnn_algo_fwd_prec",
    "cudnn_off",
    "cudnn_tensor_core_only",
    "cudnn_tune",
    "ctx",
    "grad_scale",
    "ignore_label",
    "key",
    "momentum",
    "ndev",
    "normalization",
    "num_args",
    "out_grad",
    "penalty",
    "smooth_alpha",
    "sparse_grad",
    "sparseness_target",
    "use_ignore",
    "valid_thresh_loss",
    "workspace",
];

/// The attributes of an operator; records which are read.
pub(super) struct Attributes<'a> {
    op: &'a Op,
    read: RefCell<HashSet<String>>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(op: &'a Op) -> Self {
        Self { op, read: RefCell::default() }
    }

    /// Returns an attribute, if the node has it.
    pub(super) fn find(&self, name: &str) -> Outcome<Option<&'a str>> {
        self.read.borrow_mut().insert(name.to_owned());
        let found = self.op.attributes.iter().find(|it| it.name == name);
        let Some(found) = found else { return Ok(None) };
        let text = match &found.value {
            AttributeValue::String(text) => std::str::from_utf8(&text.0).ok(),
            _ => None,
        };
        match text {
            Some(text) => Ok(Some(text.trim())),
            None => Err(wrong(name, "a string", "another value")),
        }
    }

    /// Marks attributes as read that have no effect where a rule does not read them.
    pub(super) fn ignore(&self, names: &[&str]) {
        self.read.borrow_mut().extend(names.iter().map(|name| (*name).to_owned()));
    }

    /// Returns the first attribute that was not read although it may have an effect.
    pub(super) fn unread(&self) -> Option<&'a str> {
        let read = self.read.borrow();
        let names = self.op.attributes.iter().map(|it| it.name.as_str());
        let mut unread = names.filter(|name| {
            let is_hidden = name.starts_with("__") && name.ends_with("__");
            !is_hidden && !WITHOUT_EFFECT.contains(name) && !read.contains(*name)
        });
        unread.next()
    }

    /// Returns a value of any type that has a text form.
    fn parsed<T: FromStr>(&self, name: &str, what: &str, default: Option<T>) -> Outcome<T> {
        match (self.find(name)?, default) {
            (Some(text), _) => text.parse().map_err(|_| wrong(name, what, text)),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(missing(name)),
        }
    }

    /// Returns an integer; without a default, the attribute is required.
    pub(super) fn int(&self, name: &str, default: impl Into<Option<i64>>) -> Outcome<i64> {
        match (self.find(name)?, default.into()) {
            (Some(text), _) => integer(text).ok_or_else(|| wrong(name, "an integer", text)),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(missing(name)),
        }
    }

    /// Returns an integer, or `None` if the attribute is `None` or absent.
    pub(super) fn int_or_none(&self, name: &str) -> Outcome<Option<i64>> {
        match self.find(name)? {
            None | Some("None") => Ok(None),
            Some(text) => integer(text).map(Some).ok_or_else(|| wrong(name, "an integer", text)),
        }
    }

    /// Returns a float; without a default, the attribute is required.
    pub(super) fn float(&self, name: &str, default: impl Into<Option<f64>>) -> Outcome<f64> {
        self.parsed(name, "a number", default.into())
    }

    /// Returns a float, or `None` if the attribute is `None` or absent.
    pub(super) fn float_or_none(&self, name: &str) -> Outcome<Option<f64>> {
        match self.find(name)? {
            None | Some("None") => Ok(None),
            Some(_) => self.parsed(name, "a number", None).map(Some),
        }
    }

    /// Returns a Boolean.
    pub(super) fn flag(&self, name: &str, default: bool) -> Outcome<bool> {
        match self.find(name)? {
            None => Ok(default),
            Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(wrong(name, "a Boolean", text)),
        }
    }

    /// Returns a Boolean, or `None` if the attribute is `None` or absent.
    pub(super) fn flag_or_none(&self, name: &str) -> Outcome<Option<bool>> {
        match self.find(name)? {
            None | Some("None") => Ok(None),
            Some(_) => self.flag(name, false).map(Some),
        }
    }

    /// Returns one of several words.
    pub(super) fn word<'w>(
        &self,
        name: &str,
        words: &[&'w str],
        default: &'w str,
    ) -> Outcome<&'w str> {
        let Some(text) = self.find(name)? else { return Ok(default) };
        let known = words.iter().find(|word| **word == text);
        known.copied().ok_or_else(|| wrong(name, &format!("one of {words:?}"), text))
    }

    /// Returns a required word.
    pub(super) fn required_word<'w>(&self, name: &str, words: &[&'w str]) -> Outcome<&'w str> {
        match self.find(name)? {
            Some(_) => self.word(name, words, ""),
            None => Err(missing(name)),
        }
    }

    /// Returns the elements of a tuple, which may be `None`; `None` if the attribute is absent or `None`.
    pub(super) fn tuple(&self, name: &str) -> Outcome<Option<Vec<Option<i64>>>> {
        let text = match self.find(name)? {
            None | Some("None") => return Ok(None),
            Some(text) => text,
        };
        let element = |text: &str| match text {
            "None" => Some(None),
            text => integer(text).map(Some),
        };
        let elements = elements(text).and_then(|all| all.into_iter().map(element).collect());
        elements.map(Some).ok_or_else(|| wrong(name, "a tuple of integers", text))
    }

    /// Returns a tuple of integers; `None` if the attribute is absent or `None`.
    pub(super) fn ints_or_none(&self, name: &str) -> Outcome<Option<Vec<i64>>> {
        let Some(tuple) = self.tuple(name)? else { return Ok(None) };
        let all: Option<Vec<i64>> = tuple.iter().copied().collect();
        all.map(Some).ok_or_else(|| wrong(name, "a tuple of integers", "`None` in it"))
    }

    /// Returns a tuple of integers, empty by default.
    pub(super) fn ints(&self, name: &str) -> Outcome<Vec<i64>> {
        Ok(self.ints_or_none(name)?.unwrap_or_default())
    }

    /// Returns a required tuple of integers.
    pub(super) fn required_ints(&self, name: &str) -> Outcome<Vec<i64>> {
        self.ints_or_none(name)?.ok_or_else(|| missing(name))
    }

    /// Returns a tuple of floats, or a default.
    pub(super) fn floats(&self, name: &str, default: &[f64]) -> Outcome<Vec<f64>> {
        let Some(text) = self.find(name)? else { return Ok(default.to_vec()) };
        let parsed = elements(text)
            .and_then(|all| all.into_iter().map(|it| it.parse::<f64>().ok()).collect());
        parsed.ok_or_else(|| wrong(name, "a tuple of numbers", text))
    }

    /// Returns an element type by name; `None` if the attribute is absent or `None`.
    pub(super) fn dtype(&self, name: &str) -> Outcome<Option<DType>> {
        let text = match self.find(name)? {
            None | Some("None") => return Ok(None),
            Some(text) => text,
        };
        Ok(Some(match text {
            "float32" => DType::Float32,
            "float64" => DType::Float64,
            "float16" => DType::Float16,
            "bfloat16" => DType::BFloat16,
            "uint8" => DType::Uint8,
            "int8" => DType::Int8,
            "int32" => DType::Int32,
            "int64" => DType::Int64,
            "int16" => DType::Int16,
            "uint16" => DType::Uint16,
            "uint32" => DType::Uint32,
            "uint64" => DType::Uint64,
            "bool" => DType::Bool,
            _ => return Err(wrong(name, "an element type", text)),
        }))
    }
}

/// Returns the integer in a text; elements of Python 2's tuples end in `L`.
fn integer(text: &str) -> Option<i64> {
    text.strip_suffix('L').unwrap_or(text).parse().ok()
}

/// Returns the elements of a tuple.
fn elements(text: &str) -> Option<Vec<&str>> {
    let inner = match (text.strip_prefix('('), text.strip_prefix('[')) {
        (Some(rest), _) => rest.strip_suffix(')')?,
        (None, Some(rest)) => rest.strip_suffix(']')?,
        (None, None) => text,
    };
    let inner = inner.trim();
    let inner = inner.strip_suffix(',').unwrap_or(inner).trim();
    match inner {
        "" => Some(Vec::new()),
        _ => Some(inner.split(',').map(str::trim).collect()),
    }
}

fn missing(name: &str) -> Finding {
    Finding::from(format!("the attribute `{name}` is missing")).about_attribute(name)
}

pub(super) fn wrong(name: &str, expected: &str, found: &str) -> Finding {
    let found: String = found.chars().take(100).collect();
    Finding::from(format!("expected {expected} as `{name}`, found `{found}`")).about_attribute(name)
}

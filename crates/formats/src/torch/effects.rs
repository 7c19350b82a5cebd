//! The effects of TorchScript's code on anything but its own values, for scans.
//!
//! The language has no effects except through operators. A call names its operator:
//!
//! | call | operator |
//! |---|---|
//! | `torch.NAME(..)`, `VALUE.NAME(..)` | `aten::NAME` |
//! | `ops.NAMESPACE.NAME(..)` | `NAMESPACE::NAME` |
//!
//! An operator counts where it is mentioned, since a name may call it later, also as a method of a value; `getattr` counts by
//! its string, and by itself where it is not called.
//! A method or attribute of a class may have the name of an operator, so that a class with a method `save` is reported, too.
//!
//! Source of truth: `import_source.cpp` and `sugared_value.cpp` of PyTorch 2.15.

use std::collections::BTreeSet;

use lodstone_schema::Risk;
use lodstone_schema::torch::{CONVENTIONS, overloads};

use super::code::{Expression, Function, Kind, Source, Statement, Step, parse};
use crate::scan::CodeEffect;

/// Namespaces of operators that have no schema.
const WITHOUT_SCHEMA: &[&str] = &["prim", "prims"];

/// Returns the effects of a file of code, each once.
///
/// # Errors
/// The first line that is not understood.
pub(super) fn effects(text: &str) -> Result<Vec<CodeEffect>, String> {
    let source = parse(text).map_err(|error| error.to_string())?;
    let mut walk = Walk { found: BTreeSet::new(), functions: Vec::new(), expressions: Vec::new() };
    walk.source(&source);
    let found = walk.found.into_iter();
    Ok(found.map(|(line, name, what)| CodeEffect { line, name, what }).collect())
}

/// A walk over a file of code; what is left to visit is on stacks.
struct Walk<'a> {
    found: BTreeSet<(u32, String, &'static str)>,
    functions: Vec<&'a Function>,
    expressions: Vec<&'a Expression>,
}

impl<'a> Walk<'a> {
    fn source(&mut self, source: &'a Source) {
        self.functions.extend(source.functions.iter().map(AsRef::as_ref));
        for class in &source.classes {
            self.functions.extend(class.methods.iter().map(AsRef::as_ref));
            self.expressions.extend(class.constants.iter().map(|(_, value)| value));
        }
        while let Some(function) = self.functions.pop() {
            let defaults = function.parameters.iter().filter_map(|it| it.default.as_ref());
            self.expressions.extend(defaults);
            let mut blocks = vec![function.body.as_slice()];
            while let Some(block) = blocks.pop() {
                for statement in block {
                    self.statement(statement, &mut blocks);
                }
            }
        }
        while let Some(expression) = self.expressions.pop() {
            self.expression(expression);
        }
    }

    fn statement(&mut self, statement: &'a Statement, blocks: &mut Vec<&'a [Statement]>) {
        match &statement.step {
            Step::Assign { values, .. } => self.expressions.extend(values),
            Step::SetAttribute { object, value, .. } => self.expressions.extend([object, value]),
            Step::Evaluate(value) => self.expressions.push(value),
            Step::Return(value) => self.expressions.extend(value),
            Step::Pass => {}
            Step::If { condition, then, otherwise } => {
                self.expressions.push(condition);
                blocks.extend([then.as_slice(), otherwise.as_slice()]);
            }
            Step::While { condition: value, body } | Step::For { count: value, body, .. } => {
                self.expressions.push(value);
                blocks.push(body);
            }
            Step::With { context, body, .. } => {
                self.expressions.push(context);
                blocks.push(body);
            }
            Step::Define(function) => self.functions.push(function),
        }
    }

    fn expression(&mut self, expression: &'a Expression) {
        match &expression.kind {
            Kind::None
            | Kind::Bool(_)
            | Kind::Int(_)
            | Kind::Float(_)
            | Kind::Complex(..)
            | Kind::String(_) => {}
            Kind::Name(name) => self.passed_on(name, expression.line),
            Kind::Attribute(object, method) => match expression.path() {
                Some(path) if is_operator(&path) => self.mention(&path, expression.line),
                _ => {
                    self.operator(&format!("aten::{method}"), expression.line);
                    self.expressions.push(object);
                }
            },
            Kind::Index(object, index) => self.expressions.extend([&**object, &**index]),
            Kind::Slice(object, from, to) => {
                self.expressions.push(object);
                self.expressions.extend(from.iter().chain(to).map(AsRef::as_ref));
            }
            Kind::Call { callee, arguments, named } => {
                if !self.is_getattr(callee, arguments) {
                    self.expressions.push(callee);
                }
                self.expressions.extend(arguments);
                self.expressions.extend(named.iter().map(|(_, value)| value));
            }
            Kind::Tuple(items) | Kind::List(items) => self.expressions.extend(items),
            Kind::Dict(items) => {
                self.expressions.extend(items.iter().flat_map(|(key, value)| [key, value]));
            }
        }
    }

    /// Returns whether a call is one of `getattr`, which names an operator by a string.
    fn is_getattr(&mut self, callee: &Expression, arguments: &[Expression]) -> bool {
        let Kind::Name(name) = &callee.kind else { return false };
        if name != GETATTR {
            return false;
        }
        match arguments {
            [_, Expression { kind: Kind::String(method), .. }, ..] => {
                self.operator(&format!("aten::{method}"), callee.line);
            }
            _ => self.runs(GETATTR, callee.line),
        }
        true
    }

    /// An operator by its path, which may be called elsewhere by another name.
    fn mention(&mut self, path: &str, line: u32) {
        let parts: Vec<&str> = path.split('.').collect();
        match parts.as_slice() {
            ["torch", "ops", namespace, name] | ["ops", namespace, name] => {
                let name = format!("{namespace}::{name}");
                let is_known = WITHOUT_SCHEMA.contains(namespace) || !overloads(&name).is_empty();
                match is_known || (CONVENTIONS.risk)(&name).is_some() {
                    true => self.operator(&name, line),
                    false => self.runs(&name, line),
                }
            }
            ["torch", .., name] => self.operator(&format!("aten::{name}"), line),
            _ => self.runs(path, line),
        }
    }

    /// The operators themselves, as a value, hide which of them is called, and so does `getattr` by another name.
    fn passed_on(&mut self, name: &str, line: u32) {
        if matches!(name, "ops" | "torch" | GETATTR) {
            self.runs(name, line);
        }
    }

    fn operator(&mut self, name: &str, line: u32) {
        if let Some(risk) = (CONVENTIONS.risk)(name) {
            self.found.insert((line, name.to_owned(), risk.describe()));
        }
    }

    fn runs(&mut self, name: &str, line: u32) {
        self.found.insert((line, name.to_owned(), Risk::Runs.describe()));
    }
}

const GETATTR: &str = "getattr";

/// Returns whether a path is that of an operator, or of several.
fn is_operator(path: &str) -> bool {
    path.starts_with("torch.") || path.starts_with("ops.")
}

//! A toy dialect, as the measure of the frame: what a new dialect has to say. It has an operator (`add`), a view (`row`), a
//! write (`set_`) and a loop (`times`).

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;

use crate::frame::control::Turn;
use crate::frame::views::{Reference, Tensors, View};
use crate::frame::{At, Dialect, Frame, Scope, Step};
use crate::onnx::{Graph, Value};

#[derive(Default)]
pub(super) struct Toy {
    pub(super) tensors: Tensors,
}

pub(super) type Walk<'m> = Frame<'m, Toy>;

#[derive(Clone)]
pub(super) struct Row;

impl View for Row {
    fn apply(&self, graph: &mut Graph, input: &Value) -> Result<Value, Finding> {
        let last = graph.long(-1);
        graph.gather(input, &last, 0)
    }
}

impl<'m> Dialect<'m> for Toy {
    type Item = Reference<Row>;
    type Rule = &'static str;
    const PROGRAM: &'static str = "the program";
    const IS_OPEN: bool = false;

    fn value(item: &Reference<Row>) -> Option<&Value> {
        Some(&item.value)
    }

    fn rule(op: &Op) -> Result<&'static str, Finding> {
        let known = ["add", "row", "set_", "times"].into_iter().find(|kind| *kind == op.kind);
        known.ok_or_else(|| "the operator is not supported".into())
    }

    fn apply(
        walk: &mut Walk<'m>,
        rule: &'static str,
        at: At,
        op: &'m Op,
        scope: &mut Scope<Self::Item>,
    ) -> Step {
        let mut items = Vec::new();
        for name in op.input("") {
            let mut item = scope.item(name)?.clone();
            walk.dialect.tensors.read(&mut walk.graph, &mut item)?;
            items.push(item);
        }
        let result = match (rule, items.as_mut_slice()) {
            ("add", [a, b]) => walk.graph.add(&a.value, &b.value)?,
            ("row", [x]) => {
                let value = Row.apply(&mut walk.graph, &x.value)?;
                let row = Reference { views: vec![Row], value, ..x.clone() };
                op.writes().for_each(|name| scope.bind(name, row.clone()));
                return Ok(());
            }
            ("set_", [row, y]) => {
                let value = y.value.clone();
                return Ok(walk.dialect.tensors.write(&mut walk.graph, row, value)?);
            }
            ("times", [x]) => {
                let (count, yes) = (walk.graph.long(3), walk.graph.number(DType::Bool, 1.0)?);
                let body = |walk: &mut Walk<'m>, states: &[Value]| {
                    let state = walk.dialect.tensors.add(states[0].clone(), None);
                    let mut inner: Scope<_> = [("x".to_owned(), state)].into_iter().collect();
                    walk.enter(1, &mut inner)?;
                    let next = vec![inner.item("y")?.value.clone()];
                    Ok(Turn { goes_on: yes.clone(), next, made: Vec::new() })
                };
                let first = [x.value.clone()];
                walk.repeat("times", (Some(&count), &yes), &first, body)?.states.remove(0)
            }
            _ => return Err("expected other inputs".into()),
        };
        Self::bind_results(walk, at, op, vec![result], scope)
    }

    fn bind_results(
        walk: &mut Walk<'m>,
        at: At,
        op: &'m Op,
        results: Vec<Value>,
        scope: &mut Scope<Self::Item>,
    ) -> Step {
        for (name, result) in op.writes().zip(&results) {
            let value = walk.named(at, name, "", result)?;
            scope.bind(name, walk.dialect.tensors.add(value, None));
        }
        Ok(())
    }
}

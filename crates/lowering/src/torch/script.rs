//! Control flow of TorchScript: subgraphs that read the values around them.
//!
//! | operator | arguments | ONNX |
//! |---|---|---|
//! | `prim::If` | `cond`; the blocks of two branches | `If`; with a known condition, the operators of a branch |
//! | `prim::Loop` | `max_trip_count`, `cond`, `states`; the block of the body: (number, states) to (condition, states) | `Loop` |

use lodstone_model::{Attribute, AttributeValue, DType, Dim, Op, ValueType};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::{Code, Finding};

use super::arguments::{Item, Number};
use super::control::like;
use super::list::List;
use super::node::Outcome;
use super::walk::{Bound, Scope, Walk};
use crate::frame::control::type_of;
use crate::frame::{At, Step};
use crate::onnx::Value;
use crate::rules::RuleName;

/// The rule of an operator that binds its results itself.
pub(super) type ScriptRule = for<'m> fn(&mut Walk<'m>, Place<'m>, &mut Scope<'m>) -> Step;

/// An operator and its place.
type Place<'m> = (At, &'m Op);

const RULES: &[(&str, ScriptRule)] = &[
    ("aten::append", append),
    ("prim::If", choose),
    ("prim::ListConstruct", construct),
    ("prim::Loop", repeat),
];

/// Returns the rule of an operator that binds its results.
pub(super) fn rule(kind: &str) -> Option<ScriptRule> {
    RULES.iter().find(|(known, _)| *known == kind).map(|(_, rule)| *rule)
}

/// Returns the names of the rules.
pub(super) fn names() -> impl Iterator<Item = RuleName> {
    RULES.iter().map(|(kind, _)| RuleName { family: "script", kind })
}

/// The maximum number of times that the body of a loop is translated until the types of its states are known.
const MAX_PASSES: usize = 4;

/// The maximum number of repetitions of loops, in all, that are translated one by one, and of operators that they become.
const MAX_UNROLLED: i64 = 4096;
const MAX_OPERATORS: usize = 1 << 20;

/// Returns the only value in a slot.
fn only<'m>(walk: &mut Walk<'m>, op: &Op, slot: &str, scope: &mut Scope<'m>) -> Step<Item> {
    match op.input(slot) {
        [name] => walk.item(name, scope),
        names => Err(format!("expected one value as `{slot}`, found {}", names.len()).into()),
    }
}

/// Makes a list of tensors, to which others are appended.
fn construct<'m>(walk: &mut Walk<'m>, (_, op): Place<'m>, scope: &mut Scope<'m>) -> Step {
    let mut list = List::default();
    for name in op.input("self") {
        let item = walk.item(name, scope)?;
        list = list.with(walk.value(&item)?);
    }
    bind_all(op, vec![Bound::List(list)], scope);
    Ok(())
}

/// Appends a tensor to a list.
fn append<'m>(walk: &mut Walk<'m>, (block, op): Place<'m>, scope: &mut Scope<'m>) -> Step {
    let element = only(walk, op, "el", scope)?;
    let element = walk.value(&element)?;
    if let [name] = op.input("self")
        && let Some(Bound::List(list)) = scope.get(name)
    {
        let list = list.with(element);
        bind_all(op, vec![Bound::List(list)], scope);
        return Ok(());
    }
    let list = only(walk, op, "self", scope)?;
    let list = walk.value(&list)?;
    let made = if is_open(list.value_type()) {
        let kind = ValueType::list(element.value_type().clone());
        let kind = kind.map_err(|error| Finding::from(error.to_string()))?;
        let inputs = [Some(&list), Some(&element)];
        walk.graph.emit_typed("SequenceInsert", &inputs, Vec::new(), vec![ValueInfo::from(kind)])
    } else {
        vec![walk.graph.call("SequenceInsert", &[&list, &element], [])?]
    };
    walk.bind(block, op, made, scope)?;
    Ok(())
}

/// Returns whether a type is that of an empty list: what is appended determines its elements.
fn is_open(kind: &ValueType) -> bool {
    matches!(kind, ValueType::List(element) if **element == ValueType::Unspecified)
}

/// Binds what an operator writes.
fn bind_all<'m>(op: &Op, results: Vec<Bound<'m>>, scope: &mut Scope<'m>) {
    for (name, result) in op.writes().zip(results) {
        scope.bind(name, result);
    }
}

/// Runs one of two branches.
fn choose<'m>(walk: &mut Walk<'m>, (place, op): Place<'m>, scope: &mut Scope<'m>) -> Step {
    let blocks: Vec<usize> = match op.attribute("blocks") {
        Some(AttributeValue::Blocks(blocks)) => {
            blocks.iter().filter_map(|block| usize::try_from(*block).ok()).collect()
        }
        _ => Vec::new(),
    };
    let [then, other] = blocks.as_slice() else {
        return Err(format!("expected two blocks, found {}", blocks.len()).into());
    };
    let condition = only(walk, op, "cond", scope)?;
    if let Some(number) = condition.number() {
        let block = if number != Number::Bool(false) { *then } else { *other };
        let results = walk.inlined(block, &mut scope.clone())?;
        walk.graph.begin(&op.name);
        bind_all(op, results, scope);
        return Ok(());
    }
    let condition = walk.value(&condition)?;
    let condition = walk.truth(&condition)?;
    let results = walk.choose(&op.name, &condition, |walk, is_then| {
        walk.inner(if is_then { *then } else { *other }, &mut scope.clone())
    })?;
    walk.bind(place, op, results, scope)
}

/// Returns the type that a state has before and after the body: dims that differ are unknown.
fn joined(before: &ValueInfo, after: &Value) -> Outcome<ValueInfo> {
    if matches!(before.value, ValueType::List(_)) {
        // The elements of a list: an empty one has the type of what is appended.
        return Ok(ValueInfo::from(after.value_type().clone()));
    }
    let own = before.value.tensor_type().map(|tensor| tensor.dtype);
    if own != Some(after.dtype()) {
        return Err(format!("a state of a loop becomes {}", after.dtype()).into());
    }
    let (Some(dims), Ok(next)) = (before.shape(), after.shape()) else {
        return Ok(ValueInfo::tensor(after.dtype(), None));
    };
    if dims.len() != next.len() {
        return Err("a state of a loop changes its rank".into());
    }
    let join = |(before, after): (&Dim, &Dim)| match before == after {
        true => before.clone(),
        false => Dim::Unknown,
    };
    Ok(ValueInfo::tensor(after.dtype(), Some(dims.iter().zip(next).map(join).collect())))
}

/// A loop, with what its operands are.
struct Repeated<'m> {
    block: usize,
    /// The names of the number and the states in the block.
    inputs: Vec<String>,
    /// The maximum number of repetitions.
    most: Item,
    /// Whether it begins.
    begins: Item,
    states: Vec<Item>,
    /// What the states stand for, which may be more than a value.
    bound: Vec<Bound<'m>>,
}

/// Repeats a block: as `Loop`, or one time after the other where that has no rule, such as for states whose rank changes,
/// and the number of times is known.
fn repeat<'m>(walk: &mut Walk<'m>, (place, op): Place<'m>, scope: &mut Scope<'m>) -> Step {
    let block = match op.attribute("body") {
        Some(AttributeValue::Block(block)) => usize::try_from(*block).ok(),
        _ => None,
    };
    let block = block.ok_or("expected the block of a loop")?;
    let most = only(walk, op, "max_trip_count", scope)?;
    let begins = only(walk, op, "cond", scope)?;
    let mut states = Vec::new();
    for name in op.input("states") {
        let item = walk.item(name, scope)?;
        states.push(item);
    }
    let inputs = walk.program.blocks.get(block).map_or(&[][..], |block| &block.inputs).to_vec();
    if inputs.len() != states.len() + 1 {
        return Err(format!("expected {} inputs of the body", states.len() + 1).into());
    }
    let bound = op.input("states").iter().filter_map(|name| scope.get(name).cloned()).collect();
    let repeated = Repeated { block, inputs, most, begins, states, bound };
    let before = walk.mark();
    let looped = looped(walk, op, scope, &repeated);
    let is_made = looped.is_ok() && !walk.has_findings_since(&before);
    match repeated.most.number() {
        Some(Number::Int(count)) if count <= MAX_UNROLLED && !is_made => {
            let reported = walk.back_to(&before);
            if let Some(results) = unrolled(walk, scope, &repeated, count)?
                && !walk.has_findings_since(&before)
            {
                walk.graph.begin(&op.name);
                bind_all(op, results, scope);
                return Ok(());
            }
            // What was found first says more.
            walk.back_to(&before);
            walk.findings = reported;
        }
        _ => {}
    }
    let results = looped?;
    walk.bind(place, op, results, scope)?;
    Ok(())
}

/// Translates the body of a loop for each repetition; `None` if it cannot be, or only the program knows how often.
fn unrolled<'m>(
    walk: &mut Walk<'m>,
    scope: &Scope<'m>,
    repeated: &Repeated<'m>,
    count: i64,
) -> Step<Option<Vec<Bound<'m>>>> {
    let mut states = repeated.bound.clone();
    let mut goes_on = repeated.begins.number();
    for number in 0..count {
        match goes_on {
            Some(Number::Bool(true)) => {}
            Some(_) => break,
            None => return Ok(None),
        }
        walk.dialect.repetitions += 1;
        if walk.dialect.repetitions > MAX_UNROLLED || walk.graph.ops.len() > MAX_OPERATORS {
            let what = format!("at most {MAX_UNROLLED} repetitions of loops whose states change");
            return Err(Finding::new(Code::Limit, what).into());
        }
        let number = Bound::Constant(AttributeValue::Long(number));
        let mut inner = scope.clone();
        for (name, bound) in repeated.inputs.iter().zip(std::iter::once(number).chain(states)) {
            inner.bind(name, bound);
        }
        let mut results = walk.inlined(repeated.block, &mut inner)?;
        if results.is_empty() {
            return Ok(None);
        }
        states = results.split_off(1);
        goes_on = match results.pop() {
            Some(Bound::Constant(value)) => Item::Constant(value).number(),
            Some(Bound::Number(value)) => Item::Number(value).number(),
            _ => None,
        };
    }
    Ok(Some(states))
}

/// Translates a loop to `Loop`.
fn looped<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    scope: &Scope<'m>,
    repeated: &Repeated<'m>,
) -> Step<Vec<Value>> {
    let Repeated { block, inputs, most, begins, states, .. } = repeated;
    let is_endless = most.number() == Some(Number::Int(i64::MAX));
    let most = if is_endless { None } else { Some(walk.value(most)?) };
    let begins = walk.value(begins)?;
    let begins = walk.truth(&begins)?;
    let first: Vec<Value> = states.iter().map(|it| walk.value(it)).collect::<Outcome<_>>()?;
    let mut types: Vec<ValueInfo> = first.iter().map(type_of).collect();
    for (info, bound) in types.iter_mut().zip(&repeated.bound) {
        if matches!(bound, Bound::List(list) if list.values().is_empty()) {
            let open = ValueType::list(ValueType::Unspecified);
            *info = ValueInfo::from(open.map_err(|error| Finding::from(error.to_string()))?);
        }
    }
    for _ in 0..MAX_PASSES {
        let number =
            walk.block_input("iteration", ValueInfo::tensor(DType::Int64, Some(Vec::new())));
        let own: Vec<Value> =
            types.iter().map(|info| walk.block_input("state", info.clone())).collect();
        let mut inner = scope.clone();
        let items = states.iter().zip(&own).map(|(item, value)| like(item, value.clone()));
        let items: Vec<Item> = std::iter::once(Item::Number(number.clone())).chain(items).collect();
        for (name, bound) in inputs.iter().zip(walk.all_bound(&items)) {
            inner.bind(name, bound);
        }
        let (mut ops, next) = walk.apart(&op.name, |walk| walk.inner(*block, &mut inner))?;
        let Some((goes_on, next)) = next.split_first() else {
            return Err("a loop has no condition".into());
        };
        if next.len() != own.len() {
            return Err(format!("expected {} states, found {}", own.len(), next.len()).into());
        }
        let wider = types.iter().zip(next).map(|(info, next)| joined(info, next));
        let mut wider = wider.collect::<Outcome<Vec<_>>>()?;
        // A list to which nothing is appended has the type that it begins with.
        for (info, first) in wider.iter_mut().zip(&first) {
            if is_open(&info.value) {
                *info = type_of(first);
            }
        }
        let is_stable = wider.iter().zip(&types).all(|(wide, own)| wide.value == own.value);
        if !is_stable {
            types = wider;
            continue;
        }
        let (more, goes_on) = walk.apart(&op.name, |walk| walk.truth(goes_on))?;
        ops.extend(more);
        let flag = walk.block_input("condition", ValueInfo::tensor(DType::Bool, Some(Vec::new())));
        let inputs: Vec<Value> = [number, flag].into_iter().chain(own).collect();
        let returned: Vec<Value> = std::iter::once(&goes_on).chain(next).cloned().collect();
        let value = walk.block(&op.name, &inputs, ops, &returned)?;
        let operands: Vec<Option<&Value>> =
            [most.as_ref(), Some(&begins)].into_iter().chain(first.iter().map(Some)).collect();
        let body = Attribute { name: "body".to_owned(), value };
        return Ok(walk.graph.emit_typed("Loop", &operands, [body], types));
    }
    Err("the types of the states of a loop do not settle".into())
}

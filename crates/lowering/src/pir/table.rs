//! Operators with a counterpart in the table.

use lodstone_model::{AttributeValue, Dim, Op, ValueType};
use lodstone_schema::onnx::quoted;
use lodstone_schema::paddle::{self, AttributeSpec, attributes};
use lodstone_schema::pir::{LAYER, OperandKind, Operator, operator};
use lodstone_schema::{Code, Finding};

use super::attributes::{convert, is_neutral};
use super::walk::{Bound, Walk, attribute, operand};
use crate::frame::Step;

/// Attributes that do not affect what an operator of PaddlePaddle 2 computes: devices, orders among equals, checks.
const WITHOUT_EFFECT: [&str; 8] =
    ["place", "stable", "qmin", "qmax", "mkldnn_data_type", "sparse", "name", "force_cpu"];

/// The reason why an operator has no counterpart.
pub(super) fn missing(kind: &str) -> Finding {
    let message = match operator(kind) {
        Some(_) => "the operator is not supported",
        None => "the operator is not known",
    };
    Finding::new(Code::NoEquivalent, message)
}

/// Translates an operator to its counterpart in the table.
pub(super) fn translate<'p>(walk: &mut Walk<'p>, op: &'p Op) -> Step {
    let row = operator(&op.kind).ok_or_else(|| missing(&op.kind))?;
    match row.kind.filter(|kind| paddle::operator(kind).is_some()) {
        Some(kind) => renamed(walk, op, row, kind),
        None if walk.keeps => kept(walk, op, row),
        None => Err(missing(&op.kind).into()),
    }
}

fn renamed<'p>(walk: &mut Walk<'p>, op: &'p Op, row: &Operator, kind: &str) -> Step {
    let specs: Vec<&AttributeSpec> = attributes(kind).collect();
    let like = |name: &str| specs.iter().find(|spec| spec.name == name)?.like.as_ref();
    let mut new = Op { kind: kind.to_owned(), ..Op::default() };
    let args = op.input("");
    if args.len() > row.operands.len() {
        let (found, most) = (args.len(), row.operands.len());
        return Err(format!("expected at most {most} operands, found {found}").into());
    }
    for (index, known) in row.operands.iter().enumerate() {
        let Some(arg) = args.get(index).filter(|arg| !arg.is_empty()) else {
            if known.optional || matches!(known.kind, OperandKind::Slot(None)) {
                continue;
            }
            return Err(format!("operand `{}` is missing", known.name).into());
        };
        match &known.kind {
            OperandKind::Slot(Some(slot)) => {
                let names = match known.several {
                    true => walk.list(arg)?,
                    false => vec![walk.variable(arg)?],
                };
                new.inputs.push(operand(slot, names));
            }
            // A state of the operator itself.
            OperandKind::Slot(None) if !known.optional => {}
            OperandKind::Slot(None) => {
                let message = format!("the operand `{}` is not supported", known.name);
                return Err(Finding::new(Code::NoEquivalent, message).into());
            }
            OperandKind::Attribute { name, tensor, list } => {
                // It only repeats the shape of another operand.
                if name.is_empty() {
                    continue;
                }
                computed(walk, &mut new, arg, (name, like(name)), (*tensor, *list))
                    .map_err(|halt| halt.within(format_args!("operand `{}`", known.name)))?;
            }
        }
    }
    for given in &op.attributes {
        let name = given.name.as_str();
        if name == LAYER || name == lodstone_schema::pir::REGIONS {
            continue;
        }
        let known = row.attributes.iter().find(|known| known.name == name);
        let name = known.map_or(name, |known| known.paddle);
        let Some(like) = like(name) else {
            // What is not in the row is information about the operator.
            let matters = known.is_some()
                && !name.is_empty()
                && !WITHOUT_EFFECT.contains(&name)
                && (kind, name) != ("cast", "dtype");
            let is_neutral = is_neutral(&given.value) || is_default(name, &given.value);
            if matters && !is_neutral && !is_extra(kind, name) {
                let message = format!("the attribute `{name}` is not supported");
                return Err(Finding::new(Code::NoEquivalent, message).into());
            }
            if matters && is_extra(kind, name) {
                let value = match (kind, name) {
                    ("set_value", "values") => {
                        convert(&given.value, &AttributeValue::Scalars(Vec::new()))
                    }
                    _ => Some(given.value.clone()),
                };
                let value = value.ok_or("expected numbers as `values`")?;
                new.attributes.push(attribute(name, value));
            }
            continue;
        };
        let value = convert(&given.value, like)
            .ok_or_else(|| format!("attribute `{}`: expected another type of value", given.name))?;
        new.attributes.push(attribute(name, value));
    }
    complete(walk, op, &mut new, &specs)?;
    let results = op.output("");
    if results.len() > row.results.len() {
        let (found, most) = (results.len(), row.results.len());
        return Err(format!("expected at most {most} results, found {found}").into());
    }
    for (index, known) in row.results.iter().enumerate() {
        let Some(value) = results.get(index).filter(|value| !value.is_empty()) else { continue };
        let Some(slot) = known.slot else {
            let what =
                format!("the result `{}` of {} has no counterpart", known.name, quoted(&op.kind));
            walk.values.refuse(value, Finding::new(Code::NoEquivalent, what));
            continue;
        };
        let overwritten = known.overwrites.filter(|_| op.kind.ends_with('_'));
        let overwritten = overwritten.and_then(|operand| args.get(operand));
        let names = match (known.several, overwritten) {
            (true, _) => walk.results(op, value),
            (false, Some(arg)) if is_same(walk, arg, value) => {
                let variable = walk.variable(arg)?;
                walk.constants.remove(&variable);
                walk.bind(value, Bound::Variable(variable.clone()));
                vec![variable]
            }
            (false, _) => vec![walk.result(op, value)],
        };
        new.outputs.push(operand(slot, names));
    }
    let has_shape = paddle::operator(kind)
        .is_some_and(|row| row.outputs.iter().any(|slot| slot.name == "XShape"));
    if has_shape && new.output("XShape").is_empty() && kind != "einsum" {
        let of = new.input("X").first().cloned().unwrap_or_default();
        walk.add_shape_output(&mut new, &of);
    }
    walk.emit(new);
    Ok(())
}

/// Whether the rules of an operator read an attribute that the table of PaddlePaddle 2.6.2 does not have.
fn is_extra(kind: &str, name: &str) -> bool {
    (name == "round_type" && kind.starts_with("fake_")) || (kind, name) == ("set_value", "values")
}

/// Whether an attribute that PaddlePaddle 2 does not have has the value that means what its operator does.
fn is_default(name: &str, value: &AttributeValue) -> bool {
    (name, super::attributes::long(value)) == ("output_size", Some(-1))
}

/// Whether an operator that works in place can keep the variable of its operand.
fn is_same(walk: &Walk<'_>, operand: &str, result: &str) -> bool {
    let (operand, result) = (walk.type_of(operand), walk.type_of(result));
    operand.is_array() || operand == result
}

/// Adds an attribute whose value is an operand: as the attribute if it is constant, and otherwise in its slot.
fn computed(
    walk: &mut Walk<'_>,
    new: &mut Op,
    arg: &str,
    (name, like): (&str, Option<&AttributeValue>),
    (tensor, list): (Option<&str>, Option<&str>),
) -> Step {
    let bound = walk.bound(arg)?;
    let names = match &bound {
        Bound::Variable(name) => vec![name.clone()],
        Bound::List(names) => names.iter().flatten().cloned().collect(),
    };
    // A list of one tensor with all numbers is that tensor.
    let is_list = match names.as_slice() {
        [only] => matches!(bound, Bound::List(_)) && !walk.is_longer(only),
        _ => matches!(bound, Bound::List(_)),
    };
    let constants: Vec<_> = names.iter().map(|name| walk.constants.get(name)).collect();
    let value = match (is_list, constants.as_slice()) {
        (false, [constant]) => constant.map(|it| it.scalar().unwrap_or_else(|| it.value())),
        (_, constants) => {
            let each = constants.iter().map(|it| super::attributes::long(&(*it)?.scalar()?));
            each.collect::<Option<Vec<i64>>>().map(AttributeValue::Longs)
        }
    };
    if let (Some(value), Some(like)) = (&value, like) {
        let value = convert(value, like).ok_or("expected another type of value")?;
        new.attributes.push(attribute(name, value));
        return Ok(());
    }
    match (is_list, tensor, list) {
        (false, Some(slot), _) => new.inputs.push(operand(slot, names)),
        (_, _, Some(slot)) => {
            // The attribute holds the numbers that are known, and the number of them.
            let numbers = constants.iter().map(|it| super::attributes::long(&(*it)?.scalar()?));
            // -1 stands for a number that is computed.
            let numbers: Vec<i64> = numbers.map(|number| number.unwrap_or(-1)).collect();
            let names = match (is_list, names.as_slice()) {
                (false, [name]) => walk.members(name)?,
                _ => names,
            };
            let mut numbers = numbers;
            numbers.resize(names.len(), -1);
            if let Some(value) =
                like.and_then(|like| convert(&AttributeValue::Longs(numbers), like))
            {
                new.attributes.push(attribute(name, value));
            }
            new.inputs.push(operand(slot, names));
        }
        (true, Some(slot), None) => {
            let joined = walk.joined(&names);
            new.inputs.push(operand(slot, vec![joined]));
        }
        (_, None, None) => return Err("expected a constant, found a computed value".into()),
    }
    Ok(())
}

impl Walk<'_> {
    /// Returns the elements of a list of numbers, each as a variable.
    fn members(&mut self, name: &str) -> Step<Vec<String>> {
        let declared = self.declared(name);
        let tensor = declared.tensor_type();
        let dims = tensor.and_then(|tensor| tensor.shape.clone()).unwrap_or_default();
        let [Dim::Known(count)] = dims.as_slice() else {
            return Err("expected a list of a known number of elements".into());
        };
        let count = i32::try_from(*count).ok().filter(|count| *count <= 64);
        let count = count.ok_or("expected at most 64 elements")?;
        if count == 1 {
            return Ok(vec![name.to_owned()]);
        }
        let mut element = tensor.cloned().unwrap_or_default();
        element.shape = Some(vec![Dim::Known(1)]);
        let outputs: Vec<String> =
            (0..count).map(|_| self.fresh("split", ValueType::Tensor(element.clone()))).collect();
        let mut op = super::walk::new_op(
            "split",
            &[("X", name)],
            &[],
            vec![
                attribute("num", count),
                attribute("axis", 0),
                attribute("sections", Vec::<i32>::new()),
            ],
        );
        op.outputs.push(operand("Out", outputs.clone()));
        self.emit(op);
        Ok(outputs)
    }

    /// Whether a tensor is declared to have more or fewer than one element.
    fn is_longer(&self, name: &str) -> bool {
        let declared = self.declared(name);
        let dims = declared.tensor_type().and_then(|tensor| tensor.shape.as_deref());
        let one = Dim::Known(1);
        dims.is_some_and(|dims| dims.iter().any(|dim| *dim != one))
    }

    /// Returns a list of numbers as one variable.
    fn joined(&mut self, names: &[String]) -> String {
        let mut parts = Vec::new();
        for name in names {
            let declared = self.declared(name);
            let mut tensor = declared.tensor_type().cloned().unwrap_or_default();
            tensor.shape = Some(vec![Dim::Known(1)]);
            let shape = attribute("shape", vec![1_i32]);
            let part = self.fresh("reshape2", ValueType::Tensor(tensor));
            let mut op =
                super::walk::new_op("reshape2", &[("X", name)], &[("Out", &part)], vec![shape]);
            self.add_shape_output(&mut op, name);
            self.emit(op);
            parts.push(part);
        }
        let declared = names.first().map(|name| self.declared(name)).unwrap_or_default();
        let mut tensor = declared.tensor_type().cloned().unwrap_or_default();
        tensor.shape = Some(vec![Dim::Known(names.len() as u64)]);
        let output = self.fresh("concat", ValueType::Tensor(tensor));
        let mut op =
            super::walk::new_op("concat", &[], &[("Out", &output)], vec![attribute("axis", 0)]);
        op.inputs.push(operand("X", parts));
        self.emit(op);
        output
    }
}

/// Adds what PaddlePaddle 2 stores and PIR derives: element types of operands, and whether a reduction is over all
/// axes.
fn complete(walk: &Walk<'_>, op: &Op, new: &mut Op, specs: &[&AttributeSpec]) -> Step {
    let has = |new: &Op, name: &str| new.attribute(name).is_some();
    let knows = |name: &str| specs.iter().any(|spec| spec.name == name);
    if new.kind == "cast" || new.kind == "cast_grad" {
        let operand = op.input("").first().map(|arg| walk.type_of(arg)).unwrap_or_default();
        let from = operand.tensor_type().map(|tensor| tensor.dtype);
        let from = from.ok_or("the element type of the operand must be known")?;
        new.attributes.push(attribute("in_dtype", super::attributes::code(from)?));
        if let Some(AttributeValue::String(name)) = op.attribute("dtype") {
            let code = super::attributes::dtype(name).and_then(paddle::codes::dtype_code);
            let code = code.ok_or_else(|| {
                format!("element type {} is not supported", quoted(&name.to_string()))
            })?;
            new.attributes.retain(|it| it.name != "out_dtype");
            new.attributes.push(attribute("out_dtype", code));
        }
    }
    if knows("reduce_all") && knows("dim") && !has(new, "reduce_all") {
        let all = match new.attribute("dim") {
            Some(value) => super::attributes::longs(value).is_some_and(|dims| dims.is_empty()),
            None => true,
        };
        if all {
            // `reduce_amax` and `reduce_amin` of 2.6.2 do not read `reduce_all`.
            let operand = op.input("").first().map(|arg| walk.type_of(arg)).unwrap_or_default();
            let rank = operand.tensor_type().and_then(|tensor| tensor.shape.as_ref()).map(Vec::len);
            let dims: Vec<i32> = match (new.kind.starts_with("reduce_am"), rank) {
                (false, _) => vec![0],
                (true, Some(rank)) => (0..).take(rank).collect(),
                (true, None) => return Err("the rank of the operand must be known".into()),
            };
            new.attributes.retain(|it| it.name != "dim");
            new.attributes.push(attribute("dim", dims));
        }
        new.attributes.push(attribute("reduce_all", all));
    }
    if knows("op_role") && !has(new, "op_role") {
        new.attributes.push(attribute("op_role", 0));
    }
    Ok(())
}

/// Keeps an operator without a counterpart: its slots have the names of its operands.
fn kept<'p>(walk: &mut Walk<'p>, op: &'p Op, row: &Operator) -> Step {
    let mut new = Op { kind: row.name.to_owned(), ..Op::default() };
    for (known, arg) in row.operands.iter().zip(op.input("")).filter(|(_, arg)| !arg.is_empty()) {
        new.inputs.push(operand(known.name, walk.list(arg)?));
    }
    let plain = op.attributes.iter().filter(|it| it.value.blocks().next().is_none());
    new.attributes = plain.cloned().collect();
    for (known, value) in row.results.iter().zip(op.output("")) {
        if !value.is_empty() {
            let names = match known.several {
                true => walk.results(op, value),
                false => vec![walk.result(op, value)],
            };
            new.outputs.push(operand(known.name, names));
        }
    }
    walk.emit(new);
    Ok(())
}

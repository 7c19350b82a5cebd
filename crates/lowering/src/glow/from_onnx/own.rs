//! Glow nodes without an ONNX equivalent that an ONNX program keeps in their own domain.

use lodstone_model::AttributeValue;
use lodstone_schema::Finding;
use lodstone_schema::glow::{Member, PREFIX, Type, node as kind_of};
use lodstone_schema::numbers::exact;

use super::graph::MemberValue;
use super::op::{Cx, Outcome};

/// The domain of these operators.
pub(super) const DOMAIN: &str = "com.facebook.glow";

/// Restores the node with its members and the declared types of its results.
pub(super) fn node(cx: &mut Cx<'_>) -> Outcome {
    let name = cx.op.kind.strip_prefix(PREFIX).unwrap_or(&cx.op.kind);
    let kind = kind_of(name).ok_or_else(|| format!("Glow has no node `{name}`"))?;
    let mut inputs = Vec::new();
    for index in 0..cx.count() {
        inputs.push(cx.input(index)?);
    }
    if inputs.len() < kind.inputs.len() {
        let (expected, found) = (kind.inputs.len(), inputs.len());
        return Err(format!("expected {expected} inputs, found {found}").into());
    }
    let mut rest = inputs.split_off(kind.inputs.len()).into_iter();
    let groups = kind.members.iter().filter(|(_, member)| *member == Member::Values).count();
    let mut members = Vec::new();
    for (member, class) in &kind.members {
        let member_value = match class {
            Member::Values => {
                let count = match groups {
                    1 => rest.len(),
                    _ => exact(cx.int(&format!("{member}Size"), 0)?)?,
                };
                MemberValue::Values(rest.by_ref().take(count).collect())
            }
            class => member_value(cx, member, *class)?,
        };
        members.push((*member, member_value));
    }
    let mut results = Vec::new();
    for (index, result) in kind.results.iter().enumerate() {
        let like = result.like.and_then(|like| kind.inputs.iter().position(|input| *input == like));
        let like = like.and_then(|index| inputs.get(index).copied());
        results.push(match like {
            Some(like) => cx.type_of(like),
            None if result.several => break,
            None => Type::of(cx.op, &format!("o{index}"))?,
        });
    }
    if kind.results.iter().any(|result| result.several) {
        for index in 0..cx.op.output("").len() {
            results.push(Type::of(cx.op, &format!("o{index}"))?);
        }
    }
    let base = cx.base.clone();
    let predicate = rest.next();
    let results = cx.graph.node(kind.kind, &base, inputs, members, results)?;
    let options = cx.op.attributes.iter().filter(|option| option.name.starts_with("NodeOpt_"));
    if let Some(node) = cx.graph.nodes.last_mut() {
        node.is_own = true;
        node.predicate = predicate;
        node.options = options.cloned().collect();
    }
    Ok(results.into_iter().map(Some).collect())
}

fn member_value(cx: &Cx<'_>, name: &str, class: Member) -> Result<MemberValue, Finding> {
    use AttributeValue as A;
    let value = cx.op.attribute(name);
    let value = value.ok_or_else(|| format!("expected the attribute `{name}`, found none"))?;
    let is_in = |least: i64, number: i64| number >= least;
    Ok(match (class, value) {
        (Member::Float, A::Float(number)) => MemberValue::Float(*number),
        (Member::Floats, A::Floats(numbers)) => MemberValue::Floats(numbers.clone()),
        (Member::Floats, A::Unknown(0)) => MemberValue::Floats(Vec::new()),
        (Member::Int(least), A::Long(number)) if is_in(least, *number) => MemberValue::Int(*number),
        (Member::Code(count), A::Long(number)) if (0..count).contains(number) => {
            MemberValue::Int(*number)
        }
        (Member::Bool, A::Long(number @ 0..=1)) => MemberValue::Int(*number),
        (Member::Ints(least), A::Longs(numbers))
            if numbers.iter().all(|number| is_in(least, *number)) =>
        {
            MemberValue::Ints(numbers.clone())
        }
        (Member::Ints(_), A::Unknown(0)) => MemberValue::Ints(Vec::new()),
        (Member::String, A::String(text)) => MemberValue::Text(text.to_string()),
        (Member::Name(names), A::String(text)) if names.contains(&text.to_string().as_str()) => {
            MemberValue::Text(text.to_string())
        }
        _ => return Err(format!("attribute `{name}` has the wrong type").into()),
    })
}

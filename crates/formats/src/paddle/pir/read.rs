//! Reads a [`Program`].

use std::collections::{HashMap, HashSet};

use lodstone_model::{
    Attribute, AttributeValue, Block, Dialect, Limits, Op, Operand, Program, Residual, Topology,
    ValueType, Var,
};
use lodstone_schema::paddle::set_stop_gradient;
use lodstone_schema::pir::{
    FETCH, IS_DISTRIBUTED, NAME, NEED_CLIP, PARAMETER, REGIONS, TRAINABLE, full_name, is_input,
};
use lodstone_store::Blob;
use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Result as JsonResult, Value};

use super::attributes::{attribute_value, few, part};
use super::json;
use super::types::value_type;
use super::write::OWNER;
use crate::encoding::json::malformed;
use crate::error::{Error, Result};
use crate::format::block_number;

/// Reads a program.
///
/// # Errors
/// Fails if the text is not a PIR program, with the place of the operator, or if an operator reads a value that no
/// operator before it produces.
pub fn read(blob: &Blob, limits: &Limits) -> Result<Program> {
    if blob.len() > limits.structure_bytes {
        let limit = limits.at_most_bytes("of a program");
        return Err(blob.over_limit(0, limit).into());
    }
    let text = blob.read()?;
    let file: json::File<'_> = serde_json::from_slice(&text)
        .map_err(|error| malformed(blob, (0, &text), "a PIR program", &error))?;
    if file.base_code.magic != "pir" {
        let found = format!("`{}`", file.base_code.magic);
        return Err(blob.malformed(0, "the magic `pir`", found).into());
    }
    let mut reader = Reader::new(blob, &text, limits);
    let main = only_block(file.program.regions.as_slice())
        .ok_or_else(|| reader.unsupported("expected one region of one block"))?;
    reader.block(main, -1)?;
    let base = &file.base_code;
    let flag = |value| Attribute { name: TRAINABLE.to_owned(), value: AttributeValue::Bool(value) };
    let topology = Topology {
        version: Some(base.version),
        attributes: base.trainable.map(flag).into_iter().collect(),
        blocks: reader.blocks,
        residual: Residual::new(OWNER, text.clone()),
        ..Topology::new(Dialect::Pir)
    };
    Ok(topology.into())
}

fn only_block<'j, 'a>(regions: &'j [json::Region<'a>]) -> Option<&'j json::Block<'a>> {
    let [region] = regions else { return None };
    let [block] = region.blocks.as_slice() else { return None };
    Some(block)
}

struct Reader<'a> {
    blob: &'a Blob,
    text: &'a [u8],
    limits: &'a Limits,
    /// The remaining number of nodes.
    nodes: usize,
    blocks: Vec<Block>,
    /// The names of the values that can be read; empty for a result that is not produced.
    values: HashMap<i64, String>,
    /// All names of values.
    names: HashSet<String>,
}

impl<'a> Reader<'a> {
    fn new(blob: &'a Blob, text: &'a [u8], limits: &'a Limits) -> Self {
        let (values, names) = Default::default();
        Self { blob, text, limits, nodes: limits.nodes, blocks: Vec::new(), values, names }
    }

    fn unsupported(&self, what: &str) -> Error {
        self.blob.malformed(0, what.to_owned(), "others").into()
    }

    fn count(&mut self, nodes: usize) -> Result<()> {
        self.limits.check_cancelled()?;
        let left = self.nodes.checked_sub(nodes);
        let limit = || self.limits.at_most_nodes("nodes of a program");
        self.nodes = left.ok_or_else(|| Error::from(self.blob.over_limit(0, limit())))?;
        Ok(())
    }

    /// Reads a block and those in it. JSON bounds their depth.
    fn block(&mut self, json: &json::Block<'_>, parent: i32) -> Result<i32> {
        let index = block_number(self.blocks.len())?;
        self.blocks.push(Block { index, parent, ..Block::default() });
        let mut block = Block { index, parent, ..Block::default() };
        let mut own = Vec::new();
        let keywords = self.keyword_arguments(json)?;
        for argument in json.args.iter().chain(&keywords) {
            self.count(1)?;
            let value = value_type(&argument.value, 0)
                .map_err(|error| self.wrong(&error, argument.value.data, "a type"))?;
            let name = self.define(argument.id, None, &mut own)?;
            block.inputs.push(name.clone());
            block.vars.push(Var { name, value, ..Var::default() });
        }
        for (number, op) in json.ops.iter().enumerate() {
            let place = || format!("block {index}, operator {number} (`{}`)", op.kind);
            let read = self.op(op, index, &mut block, &mut own);
            block.ops.push(read.map_err(|error| error.inside(place()))?);
        }
        for id in own {
            self.values.remove(&id);
        }
        if let Some(place) =
            usize::try_from(index).ok().and_then(|index| self.blocks.get_mut(index))
        {
            *place = block;
        }
        Ok(index)
    }

    /// Returns the arguments of a block that have keywords. PaddlePaddle writes the list of arguments in their place
    /// by mistake.
    fn keyword_arguments<'j>(&self, json: &json::Block<'j>) -> Result<Vec<json::Argument<'j>>> {
        let Some(text) = json.kwargs.filter(|text| text.get().starts_with('{')) else {
            return Ok(Vec::new());
        };
        let named: HashMap<String, json::Argument<'j>> =
            part(Some(text)).map_err(|error| self.wrong(&error, Some(text), "arguments"))?;
        let mut arguments: Vec<_> = named.into_iter().collect();
        arguments.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(arguments.into_iter().map(|(_, argument)| argument).collect())
    }

    fn op(
        &mut self,
        json: &json::Op<'_>,
        index: i32,
        block: &mut Block,
        own: &mut Vec<i64>,
    ) -> Result<Op> {
        if json.kind == "p" {
            let (op, id, var) =
                parameter(json).map_err(|error| self.wrong(&error, json.results, "a parameter"))?;
            return self.parameter(op, id, var, block, own);
        }
        let mut op = Op { kind: full_name(&json.kind).into_owned(), ..Op::default() };
        let attributes: Vec<json::Attribute<'_>> = match json.attributes {
            Some(text) => {
                part(Some(text)).map_err(|error| self.wrong(&error, Some(text), "attributes"))?
            }
            None => Vec::new(),
        };
        let results: Vec<json::Value<'_>> = match json.results {
            Some(text) => {
                part(Some(text)).map_err(|error| self.wrong(&error, Some(text), "results"))?
            }
            None => Vec::new(),
        };
        self.count(1 + json.operands.len() + results.len() + attributes.len())?;
        for attribute in &attributes {
            let value = attribute_value(&attribute.value).map_err(|error| {
                let expected = format!("a value of attribute `{}`", attribute.name);
                self.wrong(&error, attribute.value.data, &expected)
            })?;
            op.attributes.push(Attribute { name: attribute.name.clone().into_owned(), value });
        }
        let operands = json.operands.iter().map(|operand| self.operand(operand.id));
        let args = operands.collect::<Result<Vec<_>>>()?;
        op.inputs = slot(args);
        let mut inner = Vec::new();
        for region in &json.regions {
            let only = only_block(std::slice::from_ref(region));
            let only = only.ok_or_else(|| self.unsupported("expected regions of one block"))?;
            inner.push(self.block(only, index)?);
        }
        if !inner.is_empty() {
            let value = AttributeValue::Blocks(inner);
            op.attributes.push(Attribute { name: REGIONS.to_owned(), value });
        }
        let flags = flags(json.result_attributes)
            .map_err(|error| self.wrong(&error, json.result_attributes, "attributes of results"))?;
        let wanted = match op.attribute(NAME) {
            Some(AttributeValue::String(name)) if is_input(&op) || op.kind == FETCH => {
                Some(name.to_string())
            }
            _ => None,
        };
        let mut names = Vec::new();
        for (number, result) in results.iter().enumerate() {
            let value = value_type(&result.value, 0)
                .map_err(|error| self.wrong(&error, result.value.data, "a type"))?;
            if value == ValueType::Unspecified {
                self.hide(result.id, own)?;
                names.push(String::new());
                continue;
            }
            let name = self.define(result.id, wanted.as_deref().filter(|_| number == 0), own)?;
            let is = |flag: &str| {
                let values = flags.iter().find(|(name, _)| name == flag);
                values.is_some_and(|(_, values)| values.get(number) == Some(&true))
            };
            // PaddlePaddle marks outputs too, but saves inputs only.
            let persistable = is("persistable") && is_input(&op);
            let mut var = Var { name: name.clone(), value, persistable, ..Var::default() };
            set_stop_gradient(&mut var, is("stop_gradient"));
            block.vars.push(var);
            names.push(name);
        }
        op.outputs = slot(names);
        Ok(op)
    }

    fn parameter(
        &mut self,
        mut op: Op,
        id: i64,
        var: Var,
        block: &mut Block,
        own: &mut Vec<i64>,
    ) -> Result<Op> {
        self.count(2)?;
        let name = self.define(id, Some(&var.name), own)?;
        op.outputs = slot(vec![name.clone()]);
        block.vars.push(Var { name, ..var });
        Ok(op)
    }

    /// Returns the name of an operand; empty if it is omitted.
    fn operand(&self, id: i64) -> Result<String> {
        if id == 0 {
            return Ok(String::new());
        }
        let found = self.values.get(&id).cloned();
        found.ok_or_else(|| {
            let expected = "an operand that is produced before it is read";
            self.blob.malformed(0, expected, format!("`%{id}`")).into()
        })
    }

    /// Defines a value, and returns its name: the one `wanted`, unless another value has it, or else its id.
    fn define(&mut self, id: i64, wanted: Option<&str>, own: &mut Vec<i64>) -> Result<String> {
        let mut name = match wanted {
            Some(wanted) if !wanted.is_empty() && !self.names.contains(wanted) => wanted.to_owned(),
            _ => format!("%{id}"),
        };
        while self.names.contains(&name) {
            name.push('_');
        }
        self.insert(id, name.clone(), own)?;
        self.names.insert(name.clone());
        Ok(name)
    }

    /// Defines a result that is not produced.
    fn hide(&mut self, id: i64, own: &mut Vec<i64>) -> Result<()> {
        self.insert(id, String::new(), own)
    }

    fn insert(&mut self, id: i64, name: String, own: &mut Vec<i64>) -> Result<()> {
        if id == 0 || self.values.insert(id, name).is_some() {
            let expected = "values with ids of their own";
            return Err(self.blob.malformed(0, expected, format!("`%{id}`")).into());
        }
        own.push(id);
        Ok(())
    }

    /// Returns the error of a part of the text.
    fn wrong(&self, error: &serde_json::Error, part: Option<&RawValue>, expected: &str) -> Error {
        let part = part.map_or("", RawValue::get).as_bytes();
        // Parts are slices of the text.
        let start = (part.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize);
        // An absent part is missing in all of it.
        let start = start.filter(|start| *start < self.text.len()).unwrap_or(0);
        malformed(self.blob, (start, part), expected, error)
    }
}

fn slot(args: Vec<String>) -> Vec<Operand> {
    if args.is_empty() {
        return Vec::new();
    }
    vec![Operand { slot: String::new(), args }]
}

/// Parses a parameter: the operator, the id of its value, and its variable.
fn parameter(json: &json::Op<'_>) -> JsonResult<(Op, i64, Var)> {
    let list = |text| match few(text)? {
        Value::Array(values) => Ok(values),
        Value::Null => Ok(Vec::new()),
        _ => Err(serde_json::Error::custom("expected a list of flags")),
    };
    let (attributes, flags) = (list(json.attributes)?, list(json.result_attributes)?);
    let is_set = |values: &[Value], index: usize| {
        let value = values.get(index);
        value.is_some_and(|value| value.as_bool() == Some(true) || value.as_i64() == Some(1))
    };
    let name = attributes.get(3).and_then(Value::as_str);
    let name = name.ok_or_else(|| serde_json::Error::custom("expected the name of a parameter"))?;
    // PaddlePaddle writes the one result itself; a list of one is unambiguous too.
    let result: json::Value<'_> = match json.results.filter(|text| text.get().starts_with('[')) {
        Some(list) => {
            let [result] = part::<[json::Value<'_>; 1]>(Some(list))?;
            result
        }
        None => part(json.results)?,
    };
    let mut op = Op { kind: PARAMETER.to_owned(), ..Op::default() };
    let flag =
        |name: &str, value| Attribute { name: name.into(), value: AttributeValue::Bool(value) };
    let text = AttributeValue::from(name);
    op.attributes = vec![
        Attribute { name: NAME.to_owned(), value: text },
        flag(IS_DISTRIBUTED, is_set(&attributes, 0)),
        flag(NEED_CLIP, is_set(&attributes, 2)),
    ];
    let mut var = Var {
        name: name.to_owned(),
        value: value_type(&result.value, 0)?,
        // Programs that cannot be trained have no flags.
        persistable: flags.is_empty() || is_set(&flags, 0),
        is_parameter: is_set(&attributes, 1),
        attributes: vec![flag(TRAINABLE, is_set(&flags, 2))],
        ..Var::default()
    };
    set_stop_gradient(&mut var, is_set(&flags, 1));
    Ok((op, result.id, var))
}

/// Parses the flags of the results of an operator, by name. Those that are not boolean describe placements.
fn flags(text: Option<&serde_json::value::RawValue>) -> JsonResult<Vec<(String, Vec<bool>)>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let named: Vec<json::Attribute<'_>> = part(Some(text))?;
    let mut flags = Vec::new();
    for attribute in named {
        if let AttributeValue::Bools(values) = attribute_value(&attribute.value)? {
            flags.push((attribute.name.into_owned(), values));
        }
    }
    Ok(flags)
}

//! Plans of one operator, which run without registers: an executor that runs operator by operator has a plan for each of them.

use lodstone_schema::Finding;
use smallvec::SmallVec;

use super::{Group, Implementation, Path, Plan, Registers};
use crate::budget::Memory;
use crate::context::Context;
use crate::error::{Outcome, Result};
use crate::evaluate::compute;
use crate::operator::Operator;
use crate::threads::SMALL;
use crate::value::Value;

/// The only operator of a plan, by the reference kernel: its results share no bytes with inputs.
pub(super) struct Single {
    operator: &'static Operator,
    inputs: Vec<Option<Source>>,
    /// The size of the results in bytes.
    bytes: u64,
}

/// The source of an input.
enum Source {
    Input(usize),
    Constant(usize),
}

impl Single {
    /// Returns the only operator of groups, if it needs no registers.
    pub(super) fn of(
        groups: &[Group],
        constants: &Registers,
        inputs: &[usize],
        outputs: &[usize],
    ) -> Option<Self> {
        let [group] = groups else { return None };
        let [node] = &group.nodes[..] else { return None };
        let Implementation::Kernel(operator, Path::Reference) = node.implementation else {
            return None;
        };
        let computed = node.outputs.iter().copied().collect::<Option<Vec<usize>>>()?;
        if computed != outputs || operator.shares {
            return None;
        }
        let source = |register: &usize| {
            let input = inputs.iter().position(|input| input == register).map(Source::Input);
            input.or_else(|| {
                constants.get(*register)?.as_ref()?;
                Some(Source::Constant(*register))
            })
        };
        let source = |register: &Option<usize>| match register {
            Some(register) => source(register).map(Some),
            None => Some(None),
        };
        let inputs = node.inputs.iter().map(source).collect::<Option<Vec<_>>>()?;
        Some(Self { operator, inputs, bytes: node.bytes? })
    }

    /// Runs the operator of a plan; `None` if it takes much memory, or many elements go through a chain.
    pub(super) fn run(
        &self,
        plan: &Plan,
        inputs: &[&Value],
        context: Context<'_>,
    ) -> Result<Option<Vec<Value>>> {
        let [group] = &plan.groups[..] else { return Ok(None) };
        let [node] = &group.nodes[..] else { return Ok(None) };
        let value = |source: &Source| {
            let value = match source {
                Source::Input(at) => inputs.get(*at).copied(),
                Source::Constant(register) => {
                    plan.constants.get(*register).and_then(Option::as_ref)
                }
            };
            value.ok_or_else(|| Finding::internal("an operator lacks an input"))
        };
        let mut values: SmallVec<[Option<&Value>; 4]> = SmallVec::new();
        for source in &self.inputs {
            values.push(source.as_ref().map(value).transpose()?);
        }
        let (mut touched, mut elements) = (self.bytes, 0_u64);
        for value in values.iter().flatten() {
            if group.is_chain() && value.count() > 1 {
                return Ok(None);
            }
            touched = touched.saturating_add(value.nbytes());
            elements = elements.saturating_add(value.count());
        }
        let working = self.operator.working.bytes(elements, node.count);
        let bytes = working.saturating_add(self.bytes);
        if bytes > SMALL {
            return Ok(None);
        }
        context.step()?;
        context.budget.check(bytes)?;
        let compute = || -> Outcome<Vec<Value>> {
            let kernel = self.operator.bind(&node.op, &values, Memory(Some(context.budget)))?;
            let mut results = compute(kernel, touched, context.threads)?;
            node.check_count(&results)?;
            results.truncate(plan.outputs.len());
            Ok(results)
        };
        compute().map(Some).map_err(|finding| node.failed(finding))
    }
}

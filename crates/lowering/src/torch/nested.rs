//! Blocks that an operator runs: as subgraphs, or as operators around it.

use lodstone_schema::onnx::quoted;
use lodstone_schema::{Code, Finding, Findings};

use super::arguments::{Arguments, Item};
use super::node::{Node, Outcome};
use super::tensors::Base;
use super::walk::{Bound, EMPTY, Scope, Walk};
use crate::onnx::Value;

/// The maximum depth of subgraphs, as in ONNX's checker.
const MAX_DEPTH: usize = 64;

/// A state of a translation.
pub(super) struct Mark {
    ops: usize,
    blocks: usize,
    bases: Vec<Base>,
    findings: Findings,
}

impl<'m> Walk<'m> {
    /// Translates the block that an operator runs, with its inputs bound; returns its outputs. Returns `None` if it could
    /// not be translated, which has been reported.
    pub(super) fn subgraph(
        &mut self,
        block: usize,
        inputs: Vec<Bound<'m>>,
    ) -> Outcome<Option<Vec<Value>>> {
        let program = self.program;
        let own = program.blocks.get(block).ok_or("a subgraph does not exist")?;
        if own.inputs.len() != inputs.len() {
            let (expected, found) = (own.inputs.len(), inputs.len());
            return Err(format!("a subgraph has {expected} inputs, but gets {found}").into());
        }
        let mut scope: Scope<'m> = own.inputs.iter().cloned().zip(inputs).collect();
        self.inner(block, &mut scope)
    }

    /// Translates the block that an operator runs, in the scope of the block around it; returns its outputs.
    pub(super) fn inner(
        &mut self,
        block: usize,
        scope: &mut Scope<'m>,
    ) -> Outcome<Option<Vec<Value>>> {
        let around = self.tensors.bases.len();
        let versions: Vec<u64> = self.tensors.bases.iter().map(|base| base.version).collect();
        self.nested(block, scope)?;
        let now = self.tensors.bases.iter().take(around).map(|base| base.version);
        if !now.eq(versions) {
            return Err(
                "a subgraph writes to a tensor outside of it, which is not supported".into()
            );
        }
        let program = self.program;
        let names = program.blocks.get(block).map_or(&[][..], |own| &own.outputs);
        let mut results = Vec::new();
        for name in names {
            match self.item(name, scope)? {
                Some(Item::Tensor(value) | Item::Number(value)) => results.push(value),
                Some(item @ Item::Constant(_)) => {
                    let number =
                        item.number().ok_or("a subgraph returns a constant that is no number")?;
                    let mut node =
                        Node::new(&mut self.graph, &EMPTY, Arguments::new(&EMPTY, Vec::new()));
                    results.push(node.number_of(number.dtype(), number)?);
                }
                Some(Item::Absent) => return Err("a subgraph returns `None`".into()),
                Some(Item::Complex(_)) => return Err("a subgraph returns a complex tensor".into()),
                None => return Ok(None),
            }
        }
        Ok(Some(results))
    }

    /// Translates the block that an operator runs into the operators around it; returns what its outputs stand for.
    /// Returns `None` if it could not be translated, which has been reported.
    pub(super) fn inlined(
        &mut self,
        block: usize,
        scope: &mut Scope<'m>,
    ) -> Outcome<Option<Vec<Bound<'m>>>> {
        self.nested(block, scope)?;
        let program = self.program;
        let names = program.blocks.get(block).map_or(&[][..], |own| &own.outputs);
        let mut results = Vec::new();
        for name in names {
            match scope.get(name) {
                Some(Bound::Failed) => return Ok(None),
                Some(bound) => results.push(bound.clone()),
                None => return Err(format!("{} has no value", quoted(name)).into()),
            }
        }
        Ok(Some(results))
    }

    /// Translates the operators of a block that an operator runs.
    fn nested(&mut self, block: usize, scope: &mut Scope<'m>) -> Outcome<()> {
        if self.depth >= MAX_DEPTH {
            let deep = format!("subgraphs are nested deeper than {MAX_DEPTH}");
            return Err(Finding::new(Code::Limit, deep));
        }
        if block >= self.program.blocks.len() {
            return Err("a subgraph does not exist".into());
        }
        self.depth += 1;
        self.operators(block, scope);
        self.depth -= 1;
        Ok(())
    }

    /// Returns the state of the translation, to return to it.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            ops: self.graph.ops.len(),
            blocks: self.blocks.len(),
            bases: self.tensors.bases.clone(),
            findings: self.findings.clone(),
        }
    }

    /// Whether something was found since.
    pub(super) fn has_findings_since(&self, mark: &Mark) -> bool {
        self.findings.count() != mark.findings.count()
    }

    /// Drops what was translated since, and what it wrote to tensors; returns the findings that there were.
    pub(super) fn back_to(&mut self, mark: &Mark) -> Findings {
        self.graph.ops.truncate(mark.ops);
        self.blocks.truncate(mark.blocks);
        self.tensors.bases.clone_from(&mark.bases);
        std::mem::replace(&mut self.findings, mark.findings.clone())
    }
}

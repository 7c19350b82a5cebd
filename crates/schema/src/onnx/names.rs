//! Fresh names.

use std::collections::HashSet;

use lodstone_model::{Parameter, Topology};

/// All names of values of a program, in all blocks: a fresh name is unique everywhere.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    next: usize,
}

impl Names {
    pub(super) fn of(program: &Topology, parameters: &[Parameter]) -> Self {
        let mut taken = HashSet::new();
        for block in &program.blocks {
            let vars = block.vars.iter().map(|var| &var.name);
            let initializers = block.initializers.iter().map(|parameter| &parameter.name);
            let ends = block.inputs.iter().chain(&block.outputs);
            taken.extend(vars.chain(initializers).chain(ends).cloned());
            for op in &block.ops {
                taken.extend(op.reads().chain(op.writes()).map(str::to_owned));
            }
        }
        taken.extend(parameters.iter().map(|parameter| parameter.name.clone()));
        Self { taken, next: 0 }
    }

    /// Returns a fresh name that describes the use of a value.
    pub(super) fn fresh(&mut self, what: &str) -> String {
        loop {
            let name = format!("{what}_{}", self.next);
            self.next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

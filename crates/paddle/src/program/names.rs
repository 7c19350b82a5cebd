//! Generated names: a base and a number, as PaddlePaddle's `unique_name` generates them.

use std::collections::HashMap;

use lodstone_model::Program;

/// The next number of generated names, by base.
#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<String, u64>);

impl Names {
    /// Generates a name: the base and the next number, such as `fc_0`.
    pub fn generate(&mut self, base: &str) -> String {
        let next = self.0.entry(base.to_owned()).or_default();
        let name = format!("{base}_{next}");
        *next = next.saturating_add(1);
        name
    }

    /// Avoids the names of a program's variables, and those of the layers that they belong to: after `fc_0.w_0`, the next
    /// layer is `fc_1`.
    pub fn avoid(&mut self, program: &Program) {
        for var in program.vars() {
            let ends = var.name.match_indices('.').map(|(at, _)| at);
            let ends = ends.chain(std::iter::once(var.name.len()));
            for name in ends.filter_map(|end| var.name.get(..end)) {
                self.avoid_name(name);
            }
        }
    }

    fn avoid_name(&mut self, name: &str) {
        let Some((base, number)) = name.rsplit_once('_') else { return };
        // `parse` also accepts forms that are never generated, such as `+1`; avoiding more does no harm.
        let Some(next) = number.parse::<u64>().ok().and_then(|number| number.checked_add(1)) else {
            return;
        };
        let known = self.0.entry(base.to_owned()).or_default();
        *known = (*known).max(next);
    }
}

//! All weights of a model, wherever its files hold them.

use std::borrow::Cow;
use std::collections::HashSet;

use lodstone_model::{Model, Parameter};

use crate::conventions;

/// Returns the parameters of a model, and behind them the weights that its program holds in operators and subgraphs.
///
/// If several of these have the same name, `.1`, `.2`, ... is appended to all but the first.
pub fn weights(model: &Model) -> Cow<'_, [Parameter]> {
    let embedded = model.main().map(|program| (conventions(program).embedded)(program));
    let embedded = embedded.unwrap_or_default();
    if embedded.is_empty() {
        return Cow::Borrowed(&model.parameters);
    }
    let mut all = model.parameters.clone();
    let mut taken: HashSet<String> = all.iter().map(|parameter| parameter.name.clone()).collect();
    for mut parameter in embedded {
        let name = parameter.name.clone();
        let mut number = 0;
        while !taken.insert(parameter.name.clone()) {
            number += 1;
            parameter.name = format!("{name}.{number}");
        }
        all.push(parameter);
    }
    Cow::Owned(all)
}

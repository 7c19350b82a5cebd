//! Tables of rules by the kinds of operators, in families: each family is a file.

use std::collections::HashMap;
use std::sync::OnceLock;

/// A family and its rules by kind.
pub(crate) type Family<R> = (&'static str, &'static [(&'static str, R)]);

/// Returns families by the names of their modules, each of which has a table `RULES`, after a prefix.
macro_rules! families {
    ($prefix:literal; $($name:ident),* $(,)?) => {
        &[$((concat!($prefix, stringify!($name)), $name::RULES)),*]
    };
    ($($name:ident),* $(,)?) => { families![""; $($name),*] };
}
pub(crate) use families;

/// The name of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct RuleName {
    /// The family: the file of the rule in the folder of its dialect.
    pub family: &'static str,
    /// The kind of operator, without overloads and aliases.
    pub kind: &'static str,
}

/// The rules of a dialect.
pub(crate) struct Rules<R: 'static> {
    groups: &'static [&'static [Family<R>]],
    by_kind: OnceLock<HashMap<&'static str, (RuleName, R)>>,
}

impl<R: Copy> Rules<R> {
    /// Creates the table of some groups of families. A test checks that no kind has two rules.
    pub(crate) const fn new(groups: &'static [&'static [Family<R>]]) -> Self {
        Self { groups, by_kind: OnceLock::new() }
    }

    fn by_kind(&self) -> &HashMap<&'static str, (RuleName, R)> {
        let all = || self.all().map(|(name, rule)| (name.kind, (name, rule)));
        self.by_kind.get_or_init(|| all().collect())
    }

    fn all(&self) -> impl Iterator<Item = (RuleName, R)> {
        self.groups.iter().copied().flatten().flat_map(|(family, rules)| {
            rules.iter().map(|(kind, rule)| (RuleName { family, kind }, *rule))
        })
    }

    /// Returns the rule of a kind.
    pub(crate) fn get(&self, kind: &str) -> Option<R> {
        self.by_kind().get(kind).map(|(_, rule)| *rule)
    }

    /// Returns the name of the rule of a kind.
    pub(crate) fn name(&self, kind: &str) -> Option<RuleName> {
        self.by_kind().get(kind).map(|(name, _)| *name)
    }

    /// Returns the names of all rules, in the order of the tables.
    pub(crate) fn names(&self) -> impl Iterator<Item = RuleName> {
        self.all().map(|(name, _)| name)
    }
}

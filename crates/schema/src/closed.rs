//! Closed sets of the values of attributes: the tables that list them, and what is said of other values.

use crate::onnx::quoted;

/// A row of a table of sets.
pub(crate) struct Row {
    /// The columns before the attribute.
    pub(crate) before: &'static str,
    pub(crate) attribute: &'static str,
    pub(crate) operators: std::str::Split<'static, char>,
    pub(crate) values: Vec<&'static str>,
}

/// Returns the rows of a table whose last columns are an attribute, the operators, and the values, with spaces between; `""` is
/// the empty text.
pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = Row> {
    table.lines().filter_map(|line| {
        let mut columns = line.rsplitn(4, '\t');
        let (values, operators) = (columns.next()?, columns.next()?.split(' '));
        let (attribute, before) = (columns.next()?, columns.next().unwrap_or_default());
        let value = |word| if word == r#""""# { "" } else { word };
        Some(Row { before, attribute, operators, values: values.split(' ').map(value).collect() })
    })
}

/// Lists values for a message.
pub(crate) fn listed<'w>(values: impl IntoIterator<Item = &'w str>) -> String {
    values.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// Describes a value that is not in the set of its attribute.
pub(crate) fn refused(attribute: &str, allowed: &[&str], found: &str) -> String {
    let allowed = listed(allowed.iter().copied());
    format!("expected {} of {allowed}, found {}", quoted(attribute), quoted(found))
}

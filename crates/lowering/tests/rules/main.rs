//! Every rule computes what its framework computed: files and results that the frameworks recorded, translated to ONNX, and
//! evaluated by the engine.
//!
//! A case is a test, named by its dialect and the rules that it tries: `torch::index::aten::gather`, where `index` is the
//! file of the rule. `cargo test --locked -p lodstone-lowering --test rules torch::index` runs those of a file. The rules without a case are
//! listed in `untried.txt`, which may only get shorter: lines of a rule, a colon, and the reason.
#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![expect(clippy::indexing_slicing, reason = "an index out of range fails the test")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "recorded numbers fit"
)]

mod boxes;
mod caffe2;
mod equal;
mod evaluate;
mod indexing;
mod matrices;
mod mxnet;
mod normalization;
mod paddle;
mod pir;
mod quantization;
mod random;
#[expect(dead_code, reason = "the tests of the executor use more of it")]
#[path = "../../../paddle/tests/operators/recorded.rs"]
mod recorded;
mod recurrence;
mod resizing;
mod single;
mod spectra;
mod tables;
mod torch;
mod windows;

use std::collections::BTreeSet;
use std::path::PathBuf;

use equal::{EQUAL, Equal};
use libtest_mimic::{Arguments, Failed, Trial};
use lodstone_lowering::{RuleName, rule_of, rules};
use lodstone_model::{Dialect, Op};

/// A recorded run of a program.
struct Case {
    dialect: Dialect,
    name: String,
    /// The rules that its operators have.
    rules: BTreeSet<RuleName>,
    /// The operator that is tried in the place of recorded ones.
    equal: Option<&'static Equal>,
    /// Returns how the results differ from the recorded ones.
    difference: Box<dyn FnOnce() -> Option<String> + Send>,
}

impl Case {
    fn new<'o>(
        dialect: Dialect,
        name: &str,
        ops: impl Iterator<Item = &'o Op>,
        difference: impl FnOnce() -> Option<String> + Send + 'static,
    ) -> Self {
        let rules = ops.filter_map(|op| rule_of(dialect, op)).collect();
        let difference = Box::new(difference);
        Self { dialect, name: name.to_owned(), rules, equal: None, difference }
    }

    /// Returns the case, if it is one with another operator in the place of recorded ones.
    fn of(self, equal: Option<&'static Equal>) -> Self {
        let Some(equal) = equal else { return self };
        let name = format!("{} as {}", self.name, equal.kind);
        let inner = self.difference;
        let difference =
            Box::new(move || inner().map(|what| format!("{what} (expected: {})", equal.why)));
        Self { name, equal: Some(equal), difference, ..self }
    }

    fn trial(self) -> Trial {
        let dialect = self.dialect.name();
        let rules = self.rules.iter().map(|it| format!("{dialect}::{}::{}", it.family, it.kind));
        let rules: Vec<String> = rules.collect();
        let name = format!("{} ({dialect} {})", rules.join(" "), self.name);
        Trial::test(name, || (self.difference)().map_or(Ok(()), |what| Err(Failed::from(what))))
    }
}

/// Dialects whose rules are tried here.
const DIALECTS: [Dialect; 5] =
    [Dialect::Paddle, Dialect::Pir, Dialect::Mxnet, Dialect::Caffe2, Dialect::Torch];

/// Fails unless each operator that is tried in the place of others has its case, and no recorded run.
fn equal_operators(cases: &[Case]) -> impl FnOnce() -> Result<(), Failed> + Send + 'static {
    let kinds = |cases: Vec<&Case>| -> BTreeSet<(&str, &str)> {
        let rules = |case: &Case| {
            let dialect = case.dialect.name();
            case.rules.iter().map(|rule| (dialect, rule.kind)).collect::<Vec<_>>()
        };
        cases.into_iter().flat_map(rules).collect()
    };
    let (equal, recorded): (Vec<&Case>, Vec<&Case>) =
        cases.iter().partition(|case| case.equal.is_some());
    let count = equal.len();
    let (tried, recorded) = (kinds(equal), kinds(recorded));
    let is_wrong = |equal: &&Equal| {
        let name = (equal.dialect.name(), equal.kind);
        !tried.contains(&name) || recorded.contains(&name)
    };
    let wrong: Vec<&str> = EQUAL.iter().filter(is_wrong).map(|equal| equal.kind).collect();
    move || match wrong.is_empty() && count >= EQUAL.len() {
        true => Ok(()),
        false => Err(format!("{count} cases; without one, or recorded: {wrong:?}").into()),
    }
}

/// Fails if a rule that is not listed has no case, or one that is listed has.
fn untried(cases: &[Case]) -> impl FnOnce() -> Result<(), Failed> + Send + 'static {
    let mut lines = Vec::new();
    for dialect in DIALECTS {
        let cases = cases.iter().filter(|case| case.dialect == dialect);
        let tried: BTreeSet<RuleName> = cases.flat_map(|case| case.rules.iter().copied()).collect();
        let all: BTreeSet<RuleName> = rules(dialect).into_iter().collect();
        let name = dialect.name();
        lines
            .extend(all.difference(&tried).map(|it| format!("{name}::{}::{}", it.family, it.kind)));
    }
    move || {
        let path = root().join("tests/rules/untried.txt");
        let listed = std::fs::read_to_string(&path)?;
        let reasoned = |line| match str::split_once(line, ": ") {
            Some((rule, reason)) if !reason.trim().is_empty() => Ok(rule),
            _ => Err(format!("`{line}` has no reason")),
        };
        let listed = listed.lines().map(reasoned).collect::<Result<BTreeSet<&str>, _>>()?;
        let untried: BTreeSet<&str> = lines.iter().map(String::as_str).collect();
        let (more, fewer): (Vec<_>, Vec<_>) =
            (untried.difference(&listed).collect(), listed.difference(&untried).collect());
        match more.is_empty() && fewer.is_empty() {
            true => Ok(()),
            false => Err(format!("rules without a case: {more:?}; with one: {fewer:?}").into()),
        }
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn main() {
    let arguments = Arguments::from_args();
    let mut cases = torch::cases();
    cases.extend(mxnet::cases());
    cases.extend(caffe2::cases());
    cases.extend(paddle::cases());
    cases.extend(pir::cases());
    let (untried, equal) = (untried(&cases), equal_operators(&cases));
    let mut trials: Vec<Trial> = cases.into_iter().map(Case::trial).collect();
    trials.push(Trial::test("rules_without_a_case_are_listed", untried));
    trials.push(Trial::test("operators_that_equal_others_have_no_recorded_run", equal));
    trials.extend(tables::trials());
    trials.extend(boxes::trials());
    trials.extend(indexing::trials());
    trials.extend(matrices::trials());
    trials.extend(normalization::trials());
    trials.extend(quantization::trials());
    trials.extend(recurrence::trials());
    trials.extend(resizing::trials());
    trials.extend(spectra::trials());
    trials.extend(windows::trials());
    libtest_mimic::run(&arguments, trials).exit();
}

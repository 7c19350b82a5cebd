//! Translation of programs between the operators of frameworks.
//!
//! What the target cannot express is a named loss or an error: nothing is guessed, and all operators without an
//! equivalent are reported at once.
//!
//! | folder | translates |
//! |---|---|
//! | one for each framework | programs of the framework: a walk over the program, and a table of rules for each family of operators |
//! | `frame` | what all walks have in common: names, blocks, control flow, coverage |
//! | `onnx` | builds ONNX programs: operators, constants, names, and the inferred types of all values |
//!
//! A rule serves runs, where all dims are known, and exports, where some are. Rules emit the newest version of ONNX's
//! operators, which the engine runs; for other runtimes, `lodstone_schema::onnx::downgrade` writes older ones.
//!
//! An operator without an equivalent is kept only with permission, in a domain of its framework, because dropping it
//! would change the program. Without permission, the lowering fails as a whole: half a program is of no use.
//!
//! ```
//! use lodstone_lowering::can_lower;
//! use lodstone_model::Dialect;
//!
//! assert!(can_lower(Dialect::Glow, Dialect::Onnx));
//! assert!(!can_lower(Dialect::Onnx, Dialect::Mxnet));
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod caffe2;
mod frame;
pub mod glow;
pub mod mxnet;
mod onnx;
pub mod paddle;
pub mod pir;
mod rules;
pub mod torch;

pub use rules::RuleName;

use std::fmt;

use lodstone_model::{AttributeValue, ByDialect, Dialect, Model, Op, Programs, Report};
use lodstone_schema::onnx::{place_of, versions};
use lodstone_schema::{Code, Finding, Findings, Located, Origins};

/// A program that cannot be translated to another dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LowerError {
    /// The target dialect.
    pub to: Dialect,
    /// The reasons, with their places.
    pub findings: Findings,
}

impl LowerError {
    /// Creates the error of a program that cannot be translated to `to`.
    pub fn new(to: Dialect, findings: Findings) -> Self {
        Self { to, findings }
    }
}

/// What a finding prevents, as the headline of an error counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The target has nothing like the operator.
    Unsupported,
    /// Something must be known that the program leaves open.
    Unknown,
    /// A parameter has no value.
    Missing,
    /// The operator is contradictory, or in a form that has no equivalent.
    Refused,
    /// The program as a whole, an input or an output.
    Whole,
}

impl Kind {
    fn of(located: &Located) -> Self {
        match located.finding.code {
            Code::NoEquivalent => Self::Unsupported,
            Code::UnknownDims => Self::Unknown,
            Code::NoParameter => Self::Missing,
            _ if located.place.contains("operator ") => Self::Refused,
            _ => Self::Whole,
        }
    }

    /// Returns the headline of some findings of this kind.
    fn headline(self, count: usize, framework: &str) -> Option<String> {
        let counted = |one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {many}"),
        };
        Some(match self {
            Self::Unsupported => {
                let what = format!("no {framework} equivalent");
                counted(&format!("operator has {what}"), &format!("operators have {what}"))
            }
            Self::Unknown => counted("shape must be known", "shapes must be known"),
            Self::Missing => counted("parameter has no value", "parameters have no value"),
            Self::Refused => {
                let what = format!("cannot be translated to {framework}");
                counted(&format!("operator {what}"), &format!("operators {what}"))
            }
            Self::Whole => return None,
        })
    }
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let framework = self.to.framework();
        let kinds = [Kind::Unsupported, Kind::Refused, Kind::Missing, Kind::Unknown];
        let headlines = kinds.into_iter().filter_map(|kind| {
            let count = self.findings.located.iter().filter(|it| Kind::of(it) == kind).count();
            kind.headline(count, framework).filter(|_| count > 0)
        });
        let headlines: Vec<String> = headlines.collect();
        match headlines.as_slice() {
            [] => write!(f, "the program cannot be translated to {framework}")?,
            headlines => f.write_str(&headlines.join(", "))?,
        }
        self.findings.located.iter().try_for_each(|finding| write!(f, "; {finding}"))?;
        match self.findings.more {
            0 => Ok(()),
            more => write!(f, "; {more} more"),
        }
    }
}

impl std::error::Error for LowerError {}

/// Whether and how an operator of the main program can be translated.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OperatorCoverage {
    /// The domain of the operator; empty for the default one.
    pub domain: String,
    /// The kind of the operator.
    pub kind: String,
    /// The index of its block, and its index there.
    pub place: (usize, usize),
    /// The lowest opset version that can express it; `None` if that is unknown, or it is not supported.
    pub opset: Option<i64>,
    /// The reason why it cannot be translated.
    pub finding: Option<Finding>,
}

/// Tries to translate each operator of the main program to ONNX. Returns `None` if there is no translation from its
/// dialect, or it is ONNX already.
///
/// # Errors
/// If the program contradicts itself as a whole.
pub fn coverage(model: &Model) -> Option<Result<Vec<OperatorCoverage>, Finding>> {
    let dialect = model.main()?.dialect;
    LOWERINGS.of(dialect).coverage.map(|coverage| coverage(model))
}

/// Returns the coverage of a program of one graph, which is translated as a whole.
fn coverage_of_whole(model: &Model) -> Result<Vec<OperatorCoverage>, Finding> {
    let mut copy = model.clone();
    let outcome = lower(&mut copy, Dialect::Onnx, &mut Report::default());
    let findings = outcome.and_then(Result::err).map(|error| error.findings.located);
    let findings = findings.unwrap_or_default();
    let main = model.main().and_then(|program| program.blocks.first());
    let ops = main.iter().flat_map(|main| main.ops.iter().enumerate());
    let covered = |(number, op): (usize, &Op)| {
        let place = place_of("the graph", number, op);
        let finding = findings.iter().find(|finding| finding.place == place);
        OperatorCoverage {
            domain: op.domain.clone(),
            kind: op.kind.clone(),
            place: (0, number),
            opset: None,
            finding: finding.map(|located| located.finding.clone()),
        }
    };
    Ok(ops.map(covered).collect())
}

/// Whether programs of a dialect are rewritten when they are translated to ONNX, for the newest opset: [`LowerOptions`]
/// apply, and the result should be simplified. The operators of other programs correspond to those of the result.
pub fn is_rewritten(from: Dialect) -> bool {
    LOWERINGS.of(from).is_rewritten
}

/// The options of a lowering. They apply to programs that are [rewritten](is_rewritten).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LowerOptions {
    /// The domain in which operators without an equivalent are kept, as operators that no runtime has. By default, they
    /// are errors.
    pub custom_domain: Option<String>,
    /// LoD levels of inputs, by the name of the input and in order, outermost first: they become constants of the
    /// program rather than inputs.
    pub lod: Vec<(String, Vec<u64>)>,
}

lodstone_model::with_fields!(LowerOptions {
    with_custom_domain(custom_domain: Option<String>),
    with_lod(lod: Vec<(String, Vec<u64>)>),
});

/// Refuses LoD for programs of a framework that has none.
fn no_lod(options: &LowerOptions) -> Result<(), Findings> {
    let mut findings = Findings::default();
    if !options.lod.is_empty() {
        findings.add("the options", "only programs of PaddlePaddle have LoD");
        return Err(findings);
    }
    Ok(())
}

/// Translates the main program of a model.
type Translation = fn(&Model, &LowerOptions, &mut Report) -> Result<(Model, Origins), Findings>;

/// How programs of a dialect are translated.
struct Lowering {
    /// Returns which operators can be translated to ONNX.
    coverage: Option<Coverage>,
    /// As [`is_rewritten`] has it.
    is_rewritten: bool,
    /// Whether a translation applies the startup program.
    applies_startup: bool,
    translations: &'static [(Dialect, Translation)],
    /// Makes inputs that are numbers constants, in dialects that have such inputs.
    fix_inputs: Option<FixInputs>,
    /// Returns the names of all rules.
    names: fn() -> Vec<RuleName>,
    /// Returns the name of the rule of an operator.
    name: fn(&Op) -> Option<RuleName>,
}

/// Returns which operators can be translated, as [`coverage`] does.
type Coverage = fn(&Model) -> Result<Vec<OperatorCoverage>, Finding>;

/// Makes inputs constants, as [`fix_inputs`] does.
type FixInputs = fn(&mut Model, &[(String, AttributeValue)]) -> Result<(), (String, Finding)>;

/// A dialect whose programs are rewritten for ONNX.
const REWRITTEN: Lowering = Lowering {
    coverage: None,
    is_rewritten: true,
    applies_startup: false,
    translations: &[],
    fix_inputs: None,
    names: Vec::new,
    name: |_| None,
};

static LOWERINGS: ByDialect<Lowering> = ByDialect {
    paddle: Lowering {
        coverage: Some(paddle::coverage),
        names: paddle::names,
        name: paddle::name,
        translations: &[(Dialect::Onnx, paddle::to_onnx)],
        ..REWRITTEN
    },
    pir: Lowering {
        coverage: Some(pir::coverage),
        names: pir::names,
        name: pir::name,
        translations: &[
            (Dialect::Onnx, pir::to_onnx),
            (Dialect::Paddle, |model, _, report| pir::to_paddle(model, report)),
        ],
        ..REWRITTEN
    },
    mxnet: Lowering {
        coverage: Some(mxnet::coverage),
        names: mxnet::names,
        name: mxnet::name,
        translations: &[(Dialect::Onnx, mxnet::to_onnx)],
        ..REWRITTEN
    },
    onnx: Lowering {
        is_rewritten: false,
        names: glow::from_onnx_names,
        name: glow::from_onnx_name,
        translations: &[(Dialect::Glow, |model, _, report| glow::from_onnx(model, report))],
        ..REWRITTEN
    },
    glow: Lowering {
        coverage: Some(coverage_of_whole),
        is_rewritten: false,
        names: glow::to_onnx_names,
        name: glow::to_onnx_name,
        translations: &[(Dialect::Onnx, |model, _, report| glow::to_onnx(model, report))],
        ..REWRITTEN
    },
    caffe2: Lowering {
        coverage: Some(caffe2::coverage),
        names: caffe2::names,
        name: caffe2::name,
        applies_startup: true,
        translations: &[
            (Dialect::Onnx, caffe2::to_onnx),
            (Dialect::Glow, |model, _, report| glow::from_caffe2(model, report)),
        ],
        ..REWRITTEN
    },
    torch: Lowering {
        coverage: Some(torch::coverage),
        names: torch::names,
        name: torch::name,
        translations: &[(Dialect::Onnx, torch::to_onnx)],
        fix_inputs: Some(torch::fix_inputs),
        ..REWRITTEN
    },
};

/// Returns the names of the rules for the operators of a dialect, in the order of their tables.
pub fn rules(dialect: Dialect) -> Vec<RuleName> {
    (LOWERINGS.of(dialect).names)()
}

/// Returns the name of the rule that translates an operator of a dialect; `None` if it has none of its own.
pub fn rule_of(dialect: Dialect, op: &Op) -> Option<RuleName> {
    (LOWERINGS.of(dialect).name)(op)
}

fn translation(from: Dialect, to: Dialect) -> Option<Translation> {
    let all = LOWERINGS.of(from).translations;
    all.iter().find(|(known, _)| *known == to).map(|(_, translation)| *translation)
}

/// Whether programs of one dialect can be translated to another.
pub fn can_lower(from: Dialect, to: Dialect) -> bool {
    from == to || translation(from, to).is_some()
}

/// Translates the main program of a model to the dialect `to`, with its parameters; losses are added to `report`.
/// Returns the origins of the values of its main graph. A model without a program, or with one of `to`, is not changed.
///
/// Returns `None`, and changes nothing, if there is no translation between the dialects.
///
/// # Errors
/// If operators or their operands have no equivalent; the model is then unchanged.
pub fn lower(
    model: &mut Model,
    to: Dialect,
    report: &mut Report,
) -> Option<Result<Origins, LowerError>> {
    lower_with(model, to, &LowerOptions::default(), report)
}

/// Translates like [`lower`], with options.
///
/// # Errors
/// As [`lower`], and if an input that the options name does not exist.
pub fn lower_with(
    model: &mut Model,
    to: Dialect,
    options: &LowerOptions,
    report: &mut Report,
) -> Option<Result<Origins, LowerError>> {
    let dialect = model.main()?.dialect;
    let translation = translation(dialect, to)?;
    let lowered =
        translation(model, options, report).map_err(|findings| LowerError { to, findings });
    Some(lowered.map(|(mut lowered, origins)| {
        for (name, program) in std::mem::take(&mut model.programs) {
            // A lowering may have applied the startup program.
            let is_applied = LOWERINGS.of(dialect).applies_startup && name == Programs::STARTUP;
            if name != Programs::MAIN && !is_applied {
                lowered.programs.insert(&name, program);
            }
        }
        *model = lowered;
        origins
    }))
}

/// Makes inputs of the main program constants: those that are declared as an integer, a fraction or a truth value, as
/// `sr: int` in TorchScript. What depends on them, such as a branch, is then decided when the program is lowered.
///
/// # Errors
/// The name of the first input that does not exist, is no number, or has another type, and the problem; then nothing is
/// changed.
pub fn fix_inputs(
    model: &mut Model,
    values: &[(String, AttributeValue)],
) -> Result<(), (String, Finding)> {
    let Some((first, _)) = values.first() else { return Ok(()) };
    let Some(dialect) = model.main().map(|program| program.dialect) else {
        return Err((first.clone(), "there is no program".into()));
    };
    match LOWERINGS.of(dialect).fix_inputs {
        Some(fix_inputs) => fix_inputs(model, values),
        None => {
            let what = format!("inputs of {} programs are tensors", dialect.framework());
            Err((first.clone(), what.into()))
        }
    }
}

/// Returns the model with its program lowered to ONNX, and the origins of its values; `None` if it is ONNX already, or
/// there is no translation.
///
/// Some programs have operators in ONNX's domain that only Glow's loader knows, such as `AudioSpectrogram`: these are
/// translated as Glow loads them.
///
/// # Errors
/// As [`lower`].
pub fn to_onnx(model: &Model) -> Option<Result<(Model, Origins), LowerError>> {
    let program = model.main()?;
    let mut report = Report::default();
    let mut lowered = model.clone();
    if program.dialect != Dialect::Onnx {
        let origins = lower(&mut lowered, Dialect::Onnx, &mut report)?;
        return Some(origins.map(|origins| (lowered, origins)));
    }
    let is_foreign = |op: &Op| {
        matches!(op.domain.as_str(), "" | "ai.onnx" | "ai.onnx.converters.tensorflow")
            && versions(&op.domain, &op.kind).next().is_none()
            && !program.functions.iter().any(|function| function.name == op.kind)
    };
    if !program.ops().any(is_foreign) {
        return None;
    }
    // If Glow does not know them either, the error about the program itself says more.
    let first = lower(&mut lowered, Dialect::Glow, &mut report)?.ok()?;
    let second = lower(&mut lowered, Dialect::Onnx, &mut report)?.ok()?;
    Some(Ok((lowered, first.then(&second))))
}

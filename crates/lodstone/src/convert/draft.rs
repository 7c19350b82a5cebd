//! A model that is changed operation by operation, and what is known about it.

use std::collections::HashSet;
use std::sync::Arc;

use lodstone_formats::Format;
use lodstone_lowering::{LowerOptions, is_rewritten, lower_with};
use lodstone_model::{DType, Dialect, Loss, Model, Programs, Report, Tensor, some};
use lodstone_schema::onnx::downgrade::Target as OpsetTarget;
use lodstone_schema::onnx::infer::{Inference, Options};
use lodstone_schema::onnx::{self, UpgradeError};
use lodstone_schema::{Finding, Findings, conventions, weights};

use crate::adapt::{Renames, globs, transpose};
use crate::cast::Caster;
use crate::fit::{fit, place};
use crate::infer::{InferredShapes, declare_types};
use crate::simplify::simplify;
use crate::{Error, Result};

/// A model that is changed operation by operation, and what is known about it. An operation that changes the program
/// forgets what was inferred; others use it, so that inference runs once for each change.
pub(crate) struct Draft {
    model: Model,
    report: Report,
    /// What was inferred about the program as it is, for the questions that were asked.
    inferred: Vec<(Question, Arc<Inference>)>,
    /// Whether the types of all values are declared at the end: unknown dims get symbols.
    is_declared: bool,
    /// Whether the program was exported to the newest opset of ONNX.
    is_exported: bool,
    /// The opset version that the program was written for.
    opset: Option<i64>,
}

/// The options of an inference about an ONNX program; those that make no difference to the program are false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Question {
    /// Whether a run may replace initializers that are also inputs.
    overridable: bool,
    /// Whether branches that are never taken get element types.
    dead_branches: bool,
    /// Whether unknown dims get symbols.
    symbols: bool,
}

impl Question {
    /// Returns the question without the options that make no difference to a model.
    fn about(self, model: &Model) -> Self {
        let Some(program) = model.main() else { return Self::default() };
        let has_input_constants = || {
            let main = program.blocks.first();
            let inputs: HashSet<&String> = main.iter().flat_map(|main| &main.inputs).collect();
            model.parameters.iter().any(|parameter| inputs.contains(&parameter.name))
        };
        let has_branches = || program.ops().any(|op| op.kind == "If");
        Self {
            overridable: self.overridable && has_input_constants(),
            dead_branches: self.dead_branches && has_branches(),
            symbols: self.symbols,
        }
    }

    fn options(self) -> Options {
        Options::default()
            .with_overridable(self.overridable)
            .with_dead_branches(self.dead_branches)
            .with_fresh_symbols(self.symbols)
    }
}

/// The opset version that exported programs have, unless their operators need a newer one: the oldest that all current
/// runtimes read.
const EXPORTED_OPSET: i64 = 17;

impl Draft {
    /// Begins with a model. `is_declared` tells whether [`declare_types`](Self::declare_types) comes later.
    pub(crate) fn new(model: Model, is_declared: bool) -> Self {
        let mut report = Report::default();
        report.warnings.clone_from(&model.report.warnings);
        Self { model, report, inferred: Vec::new(), is_declared, is_exported: false, opset: None }
    }

    /// Returns the model, the report, and the opset version that was set.
    pub(crate) fn finish(self) -> (Model, Report, Option<i64>) {
        (self.model, self.report, self.opset)
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the model to change it: what was inferred no longer holds.
    pub(crate) fn edit(&mut self) -> &mut Model {
        self.inferred.clear();
        &mut self.model
    }

    /// Returns whether the program is written.
    pub(crate) fn has_program_for(&self, format: &Format) -> bool {
        self.model.main().is_some() && format.holds.program.is_some()
    }

    /// Keeps the tensors that programs of other formats hold elsewhere.
    pub(crate) fn collect_weights(&mut self) {
        if let Some(program) = self.model.main() {
            self.report.warnings.extend((conventions(program).unused_values)(&self.model));
        }
        self.edit().parameters = weights(&self.model).into_owned();
    }

    /// Removes the program, and keeps the tensors.
    pub(crate) fn drop_program(&mut self) {
        let model = self.edit();
        if std::mem::take(&mut model.programs) != Programs::default() {
            // The original file layout does not apply to these tensors.
            model.residual.clear();
        }
    }

    /// Gives parameters the structured names that are recorded beside them.
    ///
    /// # Errors
    /// If there are none, or two are equal.
    pub(crate) fn use_structured_names(&mut self) -> Result<()> {
        let names = std::mem::take(&mut self.edit().structured_names);
        if names.is_empty() {
            let why = "no structured names are recorded beside the parameters (`X.pdiparams.info`)";
            return Err(Error::InvalidOption { option: "names", why: why.to_owned() });
        }
        let all = self.model.parameters.iter();
        let without = all.filter(|of| !names.contains_key(&of.name));
        let without: Vec<String> = without.map(|of| format!("`{}`", of.name)).collect();
        if !without.is_empty() {
            let names = some(&without);
            let what = "parameters without a structured name keep their name";
            self.report.warn(format!("{what}: {names}"));
        }
        self.rename(&Renames::exact(names)).map(|_| ())
    }

    /// Lowers the program to a dialect; one that is exported to ONNX is simplified, too.
    ///
    /// # Errors
    /// If operators have no counterpart, all of which are reported.
    pub(crate) fn translate(&mut self, to: Dialect, options: &LowerOptions) -> Result<()> {
        self.inferred.clear();
        lower_with(&mut self.model, to, options, &mut self.report).transpose()?;
        Ok(())
    }

    /// Returns whether a translation to a dialect exports the program to the newest opset of ONNX.
    pub(crate) fn exports_to(&self, to: Dialect) -> bool {
        let from = self.model.main().map(|program| program.dialect);
        from.is_some_and(is_rewritten) && to == Dialect::Onnx
    }

    /// Simplifies a program that was exported.
    ///
    /// # Errors
    /// If a subgraph is missing, runs itself, or is nested too deep.
    pub(crate) fn simplify_export(&mut self) -> Result<()> {
        let inference = self.infer(Question::default());
        simplify(self.edit(), &inference)?;
        self.is_exported = true;
        Ok(())
    }

    /// Upgrades or downgrades the program to an opset; one that was exported to the lowest one that is supported, by default.
    ///
    /// # Errors
    /// If operators have no counterpart in the opset, or break its rules.
    pub(crate) fn set_opset(&mut self, opset: Option<i64>) -> Result<()> {
        let target = match opset {
            Some(opset) => OpsetTarget::Exactly(opset),
            None if self.is_exported => OpsetTarget::From(EXPORTED_OPSET),
            None => return Ok(()),
        };
        if let Some(opset) = opset.filter(|_| !self.is_exported) {
            match onnx::upgrade(self.edit(), opset) {
                Err(UpgradeError::Downgrade { .. }) => {
                    onnx::upgrade(&mut self.model, onnx::NEWEST_OPSET)?;
                }
                upgraded => {
                    upgraded?;
                    self.opset = Some(opset);
                    return self.check_opset();
                }
            }
        }
        // A run may replace initializers of other programs that are also inputs.
        let inference =
            self.infer(Question { overridable: !self.is_exported, ..Question::default() });
        self.opset = Some(onnx::downgrade(self.edit(), &inference, target)?);
        self.check_opset()
    }

    /// Fails if the program breaks rules after its opset was changed: an operator that the old version deprecates may exist in
    /// the new one; all other findings remain.
    fn check_opset(&mut self) -> Result<()> {
        let broken = self.findings();
        match broken.breaks_rules() {
            true => Err(UpgradeError::Invalid(broken).into()),
            false => Ok(()),
        }
    }

    /// Casts the values of a program and its parameters.
    ///
    /// # Errors
    /// If it is not an ONNX program, or breaks rules afterwards.
    pub(crate) fn cast_program(&mut self, to: DType, keep_io: bool) -> Result<()> {
        let Some(program) = self.model.main().filter(|program| program.dialect == Dialect::Onnx)
        else {
            return Err(Error::CastProgram);
        };
        let fail = |finding| Error::program("cannot cast", finding);
        if !program.functions.is_empty() {
            let inlined = onnx::inline(program);
            let inlined = inlined.map_err(|located| fail(located.to_string().into()))?;
            self.edit().set_main(inlined);
        }
        let inference = self.infer(Question { dead_branches: true, ..Question::default() });
        let mut caster = Caster::within(to)?;
        let report = &mut self.report;
        let mut change = |name: &str, tensor: &mut Tensor| {
            let is_rounded = caster.cast(tensor);
            if is_rounded.map_err(|error| Finding::from(error.to_string()))? {
                report.lose(Loss::Rounding, format!("`{name}`"));
            }
            Ok(())
        };
        let options = onnx::CastOptions::new(to).with_keep_io(keep_io);
        self.inferred.clear();
        let kept = onnx::cast(&mut self.model, &inference, options, &mut change).map_err(fail)?;
        if !kept.is_empty() {
            let kinds = kept.iter().map(|(kind, count)| format!("`{kind}` ({count})"));
            let what = format!("operators that do not take {to} keep their types");
            self.report.warn(format!("{what}: {}", some(kinds.collect::<Vec<_>>())));
        }
        let findings = self.findings();
        match findings.breaks_rules() {
            true => Err(Error::InvalidCast { to, findings }),
            false => Ok(()),
        }
    }

    /// Declares the types of all values that can be inferred.
    ///
    /// # Errors
    /// If the model has no ONNX program.
    pub(crate) fn declare_types(&mut self) -> Result<()> {
        let inference = self.infer(Question { symbols: true, ..Question::default() });
        let InferredShapes { warnings, .. } = declare_types(self.edit(), &inference)?;
        self.report.warnings.extend(warnings);
        Ok(())
    }

    /// Infers the values of an ONNX program, unless that was done since the last change.
    fn infer(&mut self, question: Question) -> Arc<Inference> {
        let question = question.about(&self.model);
        let known = self.inferred.iter().find(|(known, _)| *known == question);
        if let Some((_, inference)) = known {
            return Arc::clone(inference);
        }
        let inference = Arc::new(onnx::infer::infer(&self.model, &question.options()));
        self.inferred.push((question, Arc::clone(&inference)));
        inference
    }

    /// Returns what contradicts the rules of the program's operators.
    fn findings(&mut self) -> Findings {
        let Some(program) = self.model.main() else { return Findings::default() };
        let conventions = conventions(program);
        let inference = match program.dialect {
            Dialect::Onnx => {
                let symbols = self.is_declared;
                Some(self.infer(Question { dead_branches: true, symbols, overridable: false }))
            }
            _ => (conventions.infer)(&self.model).map(Arc::new),
        };
        let mut findings = (conventions.check)(&self.model, inference.as_deref());
        if let Some(inference) = inference {
            findings.extend(inference.findings.clone());
        }
        findings
    }

    /// Keeps the tensors whose names match a pattern of `include`, or all if there are none, and no pattern of `exclude`.
    ///
    /// # Errors
    /// If a pattern is wrong, or none of the tensors are left.
    pub(crate) fn select(&mut self, include: &[String], exclude: &[String]) -> Result<()> {
        let (included, excluded) = (globs(include)?, globs(exclude)?);
        let parameters = &mut self.edit().parameters;
        let before = parameters.len();
        parameters.retain(|parameter| {
            (included.is_empty() || included.is_match(&parameter.name))
                && !excluded.is_match(&parameter.name)
        });
        if before > 0 && parameters.is_empty() {
            let option = if include.is_empty() { "exclude" } else { "include" };
            let why = format!("the patterns match none of the {before} tensors");
            return Err(Error::InvalidOption { option, why });
        }
        Ok(())
    }

    /// Transposes the matrices whose names match the patterns.
    ///
    /// # Errors
    /// If a pattern is wrong, or none matches a matrix.
    pub(crate) fn transpose(&mut self, patterns: &[String]) -> Result<()> {
        let others = transpose(self.edit(), patterns)?.others;
        if others > 0 {
            self.report
                .warn(format!("tensors not transposed because they are not matrices: {others}"));
        }
        Ok(())
    }

    /// Renames tensors, and what refers to them in the program; returns their number.
    ///
    /// # Errors
    /// If two get the same name.
    pub(crate) fn rename(&mut self, renames: &Renames) -> Result<usize> {
        renames.apply(self.edit())
    }

    /// Removes the lines of the training script from operators, with a warning if a format keeps the rest.
    pub(crate) fn strip_source(&mut self, format: &Format) {
        let Some(program) = self.edit().main_mut() else { return };
        let conventions = conventions(program);
        let count = conventions.count_source(program);
        conventions.strip_source(program);
        if count > 0 && format.holds.program == Some(program.dialect) {
            self.report.warn(format!(
                "source lines of the training script were removed from {count} operators"
            ));
        }
    }

    /// Casts floating-point tensors.
    ///
    /// # Errors
    /// If the type is none to cast to, or elements cannot be read.
    pub(crate) fn cast_tensors(&mut self, to: DType) -> Result<()> {
        let mut caster = Caster::new(to)?;
        self.inferred.clear();
        for (number, parameter) in self.model.parameters.iter_mut().enumerate() {
            if caster.cast(&mut parameter.tensor)? {
                self.report.lose(Loss::Rounding, place(&parameter.name, number));
            }
        }
        Ok(())
    }

    /// Removes what a format cannot hold, and reports it.
    ///
    /// # Errors
    /// If indices cannot be read.
    pub(crate) fn fit(&mut self, format: &Format) -> Result<()> {
        self.inferred.clear();
        fit(&mut self.model, format, &mut self.report)
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, warning: &str) {
        self.report.warn(warning);
    }
}

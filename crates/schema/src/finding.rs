//! Problems with an operator or a program: a message, a code where callers depend on the kind of problem, and the
//! operand concerned.
//!
//! A rule returns a [`Finding`]. The code that walks the program adds the place, which makes it [`Located`], and
//! collects all of them in [`Findings`].
//!
//! A kind of problem has a code only where a caller decides by it. A state that cannot occur is [`Finding::internal`],
//! which panics with debug assertions.

use std::any::Any;
use std::error::Error;
use std::fmt;

/// The kind of problem, as far as a caller decides by it. All problems that callers treat alike share
/// [`Code::Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The operator or the program breaks a rule. This is the default.
    Rule,
    /// Two places declare different shapes of a value. Runtimes report this and run the program nevertheless;
    /// `verify` counts it separately from broken rules.
    Inconsistent,
    /// A program declares another type of a result than its operator has. A run that ignores the declaration is
    /// well-defined.
    Declared,
    /// The dims of an input are not fixed numbers. Declaring its shape helps, which the command line offers as a
    /// hint.
    UnknownDims,
    /// A parameter that the program reads has no value. Naming the file of the parameters helps, which the command line offers
    /// as a hint.
    NoParameter,
    /// The other framework has no equivalent of the operator. With permission, lowering keeps the operator as it is.
    NoEquivalent,
    /// The program needs more memory or more steps than the caller allows, or than the system provides. The same
    /// program may succeed under a higher limit.
    Limit,
    /// A defect of this program, not of the model. Tests with hostile input fail on it.
    Internal,
}

/// The input, output or attribute that a finding concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operand {
    /// An input: its slot, which is empty where inputs have positions only, and its index in the slot.
    Input(String, usize),
    /// An output: its slot, as for inputs, and its index in the slot.
    Output(String, usize),
    /// An attribute, by name.
    Attribute(String),
}

/// A problem with one operator, as its rule reports it.
///
/// A sentence alone becomes a finding with [`Code::Rule`]; any other code is named where the finding is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of problem.
    pub code: Code,
    /// What was expected and what was found.
    pub message: String,
    /// The operand concerned, if it is a single one. Boxed to keep results of rules and kernels small.
    pub operand: Option<Box<Operand>>,
}

/// A finding and its place in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The place: "the graph, operator 3 (`Conv` `conv1`)".
    pub place: String,
    /// The problem there.
    pub finding: Finding,
}

/// The findings of a program, up to a maximum, and the number of those beyond it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The located findings, in program order.
    pub located: Vec<Located>,
    /// The number of further findings that break rules.
    pub more: usize,
    /// The number of further inconsistent shapes.
    pub more_inconsistent: usize,
}

impl Finding {
    /// Creates a finding without an operand.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), operand: None }
    }

    /// Creates a finding for a state that cannot occur unless this program has a defect.
    ///
    /// # Panics
    /// With debug assertions.
    #[track_caller]
    pub fn internal(message: impl fmt::Display) -> Self {
        debug_assert!(false, "{message}");
        Self::new(Code::Internal, format!("internal error: {message}"))
    }

    /// Creates the internal finding of a panic that was caught.
    pub fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::new(Code::Internal, format!("internal error: {}", text.unwrap_or("a panic")))
    }

    /// Returns the finding with an operand.
    #[must_use]
    pub fn about(mut self, operand: Operand) -> Self {
        self.operand = Some(Box::new(operand));
        self
    }

    /// Returns the finding with the input at a position as its operand.
    #[must_use]
    pub fn about_input(self, index: usize) -> Self {
        self.about(Operand::Input(String::new(), index))
    }

    /// Returns the finding with the output at a position as its operand.
    #[must_use]
    pub fn about_output(self, index: usize) -> Self {
        self.about(Operand::Output(String::new(), index))
    }

    /// Returns the finding with an input slot as its operand.
    #[must_use]
    pub fn about_slot(self, slot: &str) -> Self {
        self.about(Operand::Input(slot.to_owned(), 0))
    }

    /// Returns the finding with an attribute as its operand.
    #[must_use]
    pub fn about_attribute(self, name: &str) -> Self {
        self.about(Operand::Attribute(name.to_owned()))
    }

    /// Returns the finding with a context before its message: `` as `Conv`: ... ``. The operand is dropped, since it
    /// belongs to the context.
    #[must_use]
    pub fn within(self, context: impl fmt::Display) -> Self {
        Self::new(self.code, format!("{context}: {}", self.message))
    }

    /// Adds the place.
    pub fn at(self, place: impl Into<String>) -> Located {
        Located { place: place.into(), finding: self }
    }
}

impl From<String> for Finding {
    fn from(message: String) -> Self {
        Self::new(Code::Rule, message)
    }
}

impl From<&str> for Finding {
    fn from(message: &str) -> Self {
        Self::new(Code::Rule, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Finding {}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.finding)
    }
}

impl Error for Located {}

impl Findings {
    /// The maximum number of findings that are kept: a program of a million operators may have a million problems.
    const MAX: usize = 1000;

    /// Adds the problem found at `place`.
    pub fn add(&mut self, place: impl Into<String>, finding: impl Into<Finding>) {
        self.push(finding.into().at(place));
    }

    /// Adds a located finding.
    pub fn push(&mut self, located: Located) {
        if self.located.len() < Self::MAX {
            self.located.push(located);
            return;
        }
        match located.finding.code {
            Code::Inconsistent => self.more_inconsistent += 1,
            _ => self.more += 1,
        }
    }

    /// Whether there are findings other than inconsistent shapes.
    pub fn breaks_rules(&self) -> bool {
        let breaks = |located: &Located| located.finding.code != Code::Inconsistent;
        self.more > 0 || self.located.iter().any(breaks)
    }

    /// Whether a finding has this code.
    pub fn has(&self, code: Code) -> bool {
        self.located.iter().any(|located| located.finding.code == code)
    }

    /// Returns the number of all findings, including those beyond the maximum.
    pub fn count(&self) -> usize {
        self.located.len() + self.more + self.more_inconsistent
    }

    /// Whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.located.is_empty()
    }

    /// Appends other findings, without those that are there already.
    pub fn extend(&mut self, others: Self) {
        for located in others.located {
            if !self.located.contains(&located) {
                self.push(located);
            }
        }
        self.more += others.more;
        self.more_inconsistent += others.more_inconsistent;
    }
}

//! Systems that fail at every step.

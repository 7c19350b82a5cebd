//! Operators as data.

//! Policies in CEL: their compiled form, their parameters, and their evaluation.

mod compile;
mod decision;
mod evaluate;
mod mutations;
mod params;
mod type_warnings;

pub(crate) use compile::{Base, Policy, compile};
pub(crate) use evaluate::validate;
pub(crate) use mutations::{MutatingPolicy, compile as compile_mutating, mutate};
pub use type_warnings::{ExpressionWarning, type_warnings};

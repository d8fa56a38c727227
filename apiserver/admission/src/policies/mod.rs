//! Policies in CEL: their compiled form, their parameters, and their evaluation.

mod compile;
mod decision;
mod evaluate;
mod params;

pub(crate) use compile::{Policy, compile};
pub(crate) use evaluate::validate;

//! Match of a write: rules, selectors and conditions.

mod conditions;
mod criteria;
mod rule;

pub(crate) use conditions::Conditions;
pub(crate) use criteria::{Criteria, Matched, Subject, is_namespace};

//! Webhooks: their compiled form, the call, and the order of the calls.

mod answer;
mod call;
mod clients;
mod hook;
mod mutating;
mod target;
mod validating;

pub(crate) use answer::Answer;
pub(crate) use call::CallError;
pub use clients::Clients;
pub(crate) use hook::{Due, Hook, compile};
pub(crate) use mutating::mutate;
pub(crate) use validating::{refused, validate};

//! Audit log: its policy file, its webhook, and the links between its lines with their checkpoints.

mod checkpoints;
mod command;
mod key;
mod open;
mod policy_file;
mod verifier;
mod webhook;

pub(crate) use checkpoints::Checkpoints;
pub(crate) use command::run;
pub(crate) use open::open;
pub(crate) use policy_file::PolicyFile;
pub(crate) use webhook::{Destination, Webhook};

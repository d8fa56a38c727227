//! Audit log: its policy file, and its webhook.

mod policy_file;
mod webhook;

pub(crate) use policy_file::PolicyFile;
pub(crate) use webhook::{Destination, Webhook};

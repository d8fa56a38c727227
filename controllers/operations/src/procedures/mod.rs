//! Procedures: one file or folder per action, or per way of carrying one out.

pub(crate) mod image;
pub(crate) mod reboot;
pub(crate) mod upgrade;
pub(crate) mod upgrade_rebuild;
pub(crate) mod upgrade_replace;

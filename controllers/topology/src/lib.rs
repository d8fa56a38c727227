//! Managed topology: patches, built-in variables, Go templates and variables of ClusterClasses, as pure functions.
//!
//! Nothing here reads a clock, an API or the environment, and nothing is random.

pub mod builtins;
pub mod go_template;
pub mod patches;
pub mod variables;

//! Access suite: all routes of a real server, by identities of every kind, compared with rules and with a golden table.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

mod caller;
mod certificates;
mod golden;
mod host;
mod identities;
mod machine_scene;
mod machines;
mod matrix;
mod routes;
mod rules;
mod scene;
mod server;

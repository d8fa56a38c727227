//! Tests of MachineHealthChecks with the whole server: marks, short circuit, requests, and replacements.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod crashes;
mod dead_server;
mod dead_server_volumes;
mod external;
mod in_flight;
mod marks;
mod nodes;
mod retries;
mod scene;
mod testbed;

//! Authorization suite: every route of a server with all kinds, over TLS, on the direct endpoint and through the host.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

mod caller;
mod cross_origin;
mod host;
mod lapse;
mod routes;
mod walk;
mod world;

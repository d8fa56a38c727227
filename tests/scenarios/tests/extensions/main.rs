//! Tests of extension servers: their discovery with the whole server, calls of their handlers, and what their hooks hold up.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod discovery;
mod in_place;
mod life;
mod life_testbed;
mod patches;
mod runtimesdk;
mod upgrade_plans;

//! Tests of operations from beginning to end, against an API server and a cloud in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod api;
mod cases;
mod cloud;
mod cut;
mod failures;
mod nova;
mod scissors;
mod world;

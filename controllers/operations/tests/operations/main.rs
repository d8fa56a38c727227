//! Tests of operations from beginning to end, against an API server and a cloud in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod api;
mod cases;
mod cloud;
mod cordon;
mod crash_point;
mod crashes;
mod drain;
mod failures;
mod nova;
mod rejoin;
mod restored;
mod retire;
mod workload;
mod world;

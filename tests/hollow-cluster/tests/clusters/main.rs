//! Tests of hollow clusters, with documents that are written by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(clippy::expect_used, clippy::panic, reason = "helpers of tests, which clippy does not know as such")]
mod cloud;
#[expect(clippy::expect_used, reason = "helpers of tests, which clippy does not know as such")]
mod documents;
mod etcd;
mod faults;
mod forms;
mod nodes;
mod refusals;
mod workload;

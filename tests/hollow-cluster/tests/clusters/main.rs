//! Tests of hollow clusters, with documents that are written by hand.

#[expect(clippy::expect_used, clippy::panic, reason = "helpers of tests, which clippy does not know as such")]
mod cloud;
#[expect(clippy::expect_used, reason = "helpers of tests, which clippy does not know as such")]
mod documents;
mod etcd;
mod nodes;
mod refusals;
mod workload;

//! The program from outside: how it begins, what it does while its storage is away, how it ends.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test says what is wrong by panicking"
)]

mod audit;
mod client;
mod etcd;
mod metrics;
mod outage;
mod process;
mod rolling_restart;

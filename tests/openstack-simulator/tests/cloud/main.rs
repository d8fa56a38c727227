//! Tests of the simulator over HTTP, as its clients use it.

#[expect(clippy::expect_used, clippy::panic, reason = "helpers of tests, which clippy does not know as such")]
mod client;
mod faults;
mod hypervisor;
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod identity;
mod load_balancers;
mod network;
mod network_refusals;
mod obstacles;
mod persistence;
mod quotas;
mod server_refusals;
mod servers;
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod shares;
mod volumes;

//! Test library of the scenarios: a whole Capstan in one process over a simulated OpenStack. Its controllers can crash
//! at any step, as if their process had ended.

mod apply;
mod clock;
mod controllers;
mod crash_point;
mod crashing_cloud;
mod crashing_transport;
mod crashing_workloads;
mod dry_run;
mod extension_server;
mod listener;
mod planner;
mod running;
mod world;

pub use apply::apply;
pub use clock::Clock;
pub use controllers::{Controllers, is_over};
pub use crash_point::{CrashPoint, EachEffect, Side};
pub use dry_run::dry_run;
pub use extension_server::{ExtensionCall, ExtensionServer, Reply};
pub use running::{run, run_until_crash};
pub use world::{World, counts};

/// The server's allocator: with that of glibc, a fifth of the processor time of a scenario went into allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

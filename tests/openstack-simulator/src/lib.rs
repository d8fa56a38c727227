//! Simulated OpenStack cloud in one process, over HTTP: Keystone v3, Nova v2.1, Neutron v2.0, Glance v2,
//! Cinder v3, Octavia v2 and Manila v2. It serves the calls that Capstan uses, with state, delays, quotas, projects and
//! error injection.
//!
//! A real cloud is slow, has one state for all tests, and does not fail on request. This one starts in
//! milliseconds. Its responses, with the error texts, were recorded from a real one (the Zed release). Those of Manila
//! follow its source code. All services share one listener, under `/v3`, `/compute`, `/network`, `/image`, `/volume`,
//! `/load-balancer` and `/share`; `/simulator` has the simulator's own endpoints.
//!
//! There are no background workers. Each call first completes all transitions that are due, so a state loaded
//! from a file has advanced as if the process had never stopped.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use tests_openstack_simulator::{FaultEffect, InjectedFault, Simulator, SimulatorOptions};
//!
//! let simulator = Simulator::start(SimulatorOptions::default()).await?;
//! let clouds_yaml = simulator.clouds_yaml("demo");
//! simulator.inject(InjectedFault {
//!     path: Some("/compute/v2.1/servers".to_owned()),
//!     method: Some("POST".to_owned()),
//!     count: Some(1),
//!     ..InjectedFault::new(FaultEffect::DropAfterEffect)
//! });
//! // ... run the code under test ...
//! assert!(simulator.inventory("demo").is_empty());
//! simulator.shutdown().await
//! # }
//! ```

mod address;
mod admin;
mod changes;
mod cinder;
mod cloud;
mod context;
mod faults;
mod glance;
mod http;
mod hypervisor;
mod inventory;
mod keystone;
mod log;
mod manila;
mod neutron;
mod nova;
mod object;
mod octavia;
mod options;
mod pattern;
mod persistence;
mod seeds;
mod server;
mod simulator;
mod state;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use faults::{CloudService, FaultEffect, InjectedFault};
pub use hypervisor::{GuestChanges, GuestCursor, GuestServer, Hypervisor};
pub use inventory::{Inventory, InventoryItem};
pub use log::LoggedCall;
pub use manila::SeededShare;
pub use options::SimulatorOptions;
pub use simulator::Simulator;

/// Takes a lock. A panic of a handler leaves a state no worse than the crash of a service.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

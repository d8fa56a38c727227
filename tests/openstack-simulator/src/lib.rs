//! An OpenStack cloud in one process, over HTTP: Keystone v3, Nova v2.1, Neutron v2.0, Glance v2 and
//! Cinder v3 as far as Capstan calls them, with state, time, quotas, tenants, and faults on purpose.
//!
//! A real cloud is slow, has one state for all tests and never fails when asked to. This one starts
//! in milliseconds, and its answers, error texts included, were written down from a real one (the
//! Zed release). All services share one listener, under `/v3`, `/compute`, `/network`, `/image` and
//! `/volume`; `/simulator` is the simulator's own.
//!
//! There are no background workers. Each call first does what has come due since the last one, so a
//! state loaded from a file has aged as if the process had never stopped.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use tests_openstack_simulator::{Effect, Fault, Simulator, SimulatorOptions};
//!
//! let simulator = Simulator::start(SimulatorOptions::default()).await?;
//! let clouds_yaml = simulator.clouds_yaml("demo");
//! simulator.inject(Fault {
//!     path: Some("/compute/v2.1/servers".to_owned()),
//!     method: Some("POST".to_owned()),
//!     count: Some(1),
//!     ..Fault::new(Effect::DropAfterEffect)
//! });
//! // ... let the code under test loose on the cloud ...
//! assert!(simulator.inventory("demo").is_empty());
//! simulator.shutdown().await
//! # }
//! ```

mod address;
mod admin;
mod cinder;
mod cloud;
mod context;
mod faults;
mod glance;
mod http;
mod inventory;
mod keystone;
mod log;
mod neutron;
mod nova;
mod object;
mod options;
mod pattern;
mod persistence;
mod seeds;
mod server;
mod simulator;
mod state;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use faults::{Effect, Fault, Service};
pub use inventory::{Inventory, Item};
pub use log::Call;
pub use options::SimulatorOptions;
pub use simulator::Simulator;

/// Takes a lock. A handler that panicked left a state no worse than a crashed service would.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Hollow clusters: the servers of a simulated OpenStack become nodes of Kubernetes clusters.
//!
//! A hollow cluster has no kubelets and containers. Its API is a part of this process, or a real kube-apiserver with
//! a real etcd ([`RealPrograms`]). It still behaves as the nodes of a
//! real one: it reads the user data from the cloud, checks it as cloud-init and kubeadm do, serves a workload
//! API at the control plane endpoint, registers Nodes, and ends with its servers. It uses none of our crates
//! but the simulator, so that an error in ours cannot hide itself here.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use tests_hollow_cluster::{HollowClusters, HollowOptions, loopback_range};
//! use tests_openstack_simulator::{Simulator, SimulatorOptions};
//!
//! let options = SimulatorOptions { external_cidr: loopback_range(), ..SimulatorOptions::default() };
//! let simulator = Simulator::start(options).await?;
//! let hollow = HollowClusters::start(simulator.hypervisor(), HollowOptions::default());
//! // ... create servers with user data, and a floating IP for the endpoint ...
//! assert!(hollow.boot_error("control-plane-0").is_none());
//! # Ok(())
//! # }
//! ```

mod api;
mod boot;
mod calls;
mod cluster;
mod etcd;
mod faults;
mod guests;
mod hollow;
mod json;
mod kubeadm;
mod kubelet;
mod lab;
mod node;
mod options;
mod persistence;
mod pki;
mod real;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use calls::{EndpointFault, WorkloadCall, WorkloadEffect, WorkloadFault};
pub use etcd::EtcdMember;
pub use faults::BootStep;
pub use hollow::HollowClusters;
pub use options::{CloudRoutes, EndpointRoutes, HollowOptions, loopback_range};
pub use real::RealPrograms;

/// Takes a lock. A panic of one task leaves a state no worse than the crash of a node.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

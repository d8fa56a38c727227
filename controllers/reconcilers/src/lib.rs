//! The controllers. They are clients of the API like any other, over a transport inside the
//! process, each with an identity of its own.
//!
//! Each has four parts. *Observe* reads. *Decide* is a pure, total function that returns one step.
//! *Act* makes that step's effect. *Report* computes the whole status, which is written once.

pub mod cluster;
mod drive;
mod finalizers;
mod garbage_collector;
pub mod machine;
mod names;
pub mod namespace;
pub mod open_stack_cluster;
pub mod open_stack_machine;
mod ownership;
mod paused;
mod queries;

pub use garbage_collector::GarbageCollector;

/// Label that everything of a cluster bears.
pub(crate) const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";

//! Bootstrap of machines by kubeadm: pure functions from a KubeadmConfig and its Cluster to the files of a node.
//!
//! Nothing here reads a clock or an API. Only keys and tokens are random, and their caller stores them, so a second
//! pass after a crash renders the same bytes.

pub mod attestation;
pub mod certificates;
pub mod cloud_config;
pub mod core_dns;
mod corefile;
pub mod delivery;
pub mod discovery;
mod failure_report;
pub mod ignition;
pub mod jinja;
pub mod kube_proxy;
pub mod kubeadm;
pub mod proxy;
mod setup;
pub mod template;
pub mod token;

pub use setup::{Command, DocumentError, File, Setup};

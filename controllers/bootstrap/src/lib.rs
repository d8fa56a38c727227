//! Bootstrap of machines by kubeadm: pure functions from a KubeadmConfig and its Cluster to the files of a node.
//!
//! Nothing here reads a clock, a random source or an API, so a second pass after a crash renders the same bytes.

pub mod kubeadm;

//! Unmodified client programs against Capstan.

mod actions;
mod clusterctl;
mod gitops;
mod go;
mod helm;
mod host_controllers;
mod kube_rs;
mod kubectl;
mod python;
mod rolling;

use super::lab::Lab;

pub(super) use actions::{ACTIONS, actions};
pub(super) use clusterctl::{MOVE, describe_directly, describe_through_host, moves};
pub(super) use gitops::{argo_cd_directly, argo_cd_through_host, flux_directly, flux_through_host};
pub(super) use go::{checks_directly, checks_through_host};
pub(super) use helm::{directly as helm_directly, through_host as helm_through_host};
pub(super) use host_controllers::{collects, outage, start as start_host_controllers};
pub(super) use kube_rs::{directly as kube_rs_directly, through_host as kube_rs_through_host};
pub(super) use kubectl::{current, older};
pub(super) use python::{directly as python_directly, through_host as python_through_host};
pub(super) use rolling::restart;

/// Endpoint of Capstan, with the user who sends requests to it.
struct Endpoint {
    /// User whose kubeconfig is used.
    user: &'static str,
    /// True for the direct endpoint, false for requests through the host.
    direct: bool,
}

const HOST: Endpoint = Endpoint { user: "admin", direct: false };

const DIRECT: Endpoint = Endpoint { user: "direct", direct: true };

impl Endpoint {
    /// Creates a namespace, unless it exists.
    fn namespace(&self, lab: &Lab, name: &str) -> anyhow::Result<()> {
        let (made, _, error) = lab.try_kubectl(self.user, &["create", "namespace", name])?;
        anyhow::ensure!(made || error.contains("AlreadyExists"), "namespace {name}: {error}");
        Ok(())
    }

    fn kubeconfig(&self, lab: &Lab) -> String {
        lab.certificates.path(&format!("{}.kubeconfig", self.user))
    }
}

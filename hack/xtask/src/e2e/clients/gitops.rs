//! Scenarios with the apply libraries of Flux and Argo CD: the programs in `hack/tools/gitops`.

use std::process::Command;

use super::{DIRECT, Endpoint, HOST};
use crate::e2e::{lab::Lab, workflows};
use crate::{prerequisites, run};

pub(in crate::e2e) fn flux_through_host(lab: &Lab) -> anyhow::Result<()> {
    check(lab, &HOST, "flux")
}

pub(in crate::e2e) fn flux_directly(lab: &Lab) -> anyhow::Result<()> {
    check(lab, &DIRECT, "flux")
}

pub(in crate::e2e) fn argo_cd_through_host(lab: &Lab) -> anyhow::Result<()> {
    // Argo CD reads the schemas from the host's document once, and continues without those that are missing at that
    // time.
    workflows::documents(lab)?;
    check(lab, &HOST, "argo-cd")
}

pub(in crate::e2e) fn argo_cd_directly(lab: &Lab) -> anyhow::Result<()> {
    check(lab, &DIRECT, "argo-cd")
}

fn check(lab: &Lab, endpoint: &Endpoint, tool: &str) -> anyhow::Result<()> {
    endpoint.namespace(lab, tool)?;
    let mut command = Command::new(prerequisites::go_program(&format!("gitops/{tool}"), tool)?);
    command.args(["--namespace", tool, "--kubeconfig", &endpoint.kubeconfig(lab), "--repository"]);
    command.arg(run::root()?.join("hack/tools/gitops/cluster.yaml"));
    // Argo CD contains kubectl, which caches discovery by address. Ports of earlier runs may be reused.
    run::shown(command.env("KUBECACHEDIR", lab.directory("cache").join(tool).join(endpoint.user)))
}

//! Flux and Argo CD, with the libraries that they apply with: the programs in `hack/tools/gitops`.

use std::process::Command;

use super::{DIRECT, Face, HOST};
use crate::e2e::{lab::Lab, workflows};
use crate::{prerequisites, run};

pub(in crate::e2e) fn flux_through_host(lab: &Lab) -> anyhow::Result<()> {
    keeps(lab, &HOST, "flux")
}

pub(in crate::e2e) fn flux_directly(lab: &Lab) -> anyhow::Result<()> {
    keeps(lab, &DIRECT, "flux")
}

pub(in crate::e2e) fn argo_cd_through_host(lab: &Lab) -> anyhow::Result<()> {
    // It takes the schemas from the host's document once, and goes on without those that are not in it just then.
    workflows::documents(lab)?;
    keeps(lab, &HOST, "argo-cd")
}

pub(in crate::e2e) fn argo_cd_directly(lab: &Lab) -> anyhow::Result<()> {
    keeps(lab, &DIRECT, "argo-cd")
}

fn keeps(lab: &Lab, face: &Face, tool: &str) -> anyhow::Result<()> {
    face.namespace(lab, tool)?;
    let mut command = Command::new(prerequisites::go_program(&format!("gitops/{tool}"), tool)?);
    command.args(["--namespace", tool, "--kubeconfig", &face.kubeconfig(lab), "--repository"]);
    command.arg(run::root()?.join("hack/tools/gitops/cluster.yaml"));
    // Argo CD has kubectl in it, which remembers what is served where: ports come round again.
    run::shown(command.env("KUBECACHEDIR", lab.directory("cache").join(tool).join(face.user)))
}

//! Scenarios with client-go and controller-runtime: the program in `hack/tools/clients`.

use std::process::Command;

use super::{DIRECT, Endpoint, HOST};
use crate::e2e::lab::Lab;
use crate::{prerequisites, run};

pub(in crate::e2e) fn checks_through_host(lab: &Lab) -> anyhow::Result<()> {
    checks(lab, &HOST)
}

pub(in crate::e2e) fn checks_directly(lab: &Lab) -> anyhow::Result<()> {
    checks(lab, &DIRECT)
}

fn checks(lab: &Lab, endpoint: &Endpoint) -> anyhow::Result<()> {
    endpoint.namespace(lab, "clients")?;
    let mut command = Command::new(prerequisites::go_program("clients", "clients")?);
    command.args(["--namespace", "clients", "--kubeconfig", &endpoint.kubeconfig(lab)]);
    if endpoint.direct {
        command.arg("--direct");
    }
    run::shown(&mut command)
}

//! Scenarios with the Python client: the script in `hack/tools/python`.

use std::process::Command;

use super::{DIRECT, Endpoint, HOST};
use crate::e2e::lab::Lab;
use crate::{prerequisites, run};

pub(in crate::e2e) fn through_host(lab: &Lab) -> anyhow::Result<()> {
    script(lab, &HOST)
}

pub(in crate::e2e) fn directly(lab: &Lab) -> anyhow::Result<()> {
    script(lab, &DIRECT)
}

fn script(lab: &Lab, endpoint: &Endpoint) -> anyhow::Result<()> {
    endpoint.namespace(lab, "python")?;
    let mut command = Command::new(prerequisites::python_clients()?);
    command.arg(run::root()?.join("hack/tools/python/clients.py"));
    run::shown(command.args([&endpoint.kubeconfig(lab), "python"]))
}

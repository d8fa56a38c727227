//! Scenarios with the Python client: the script in `hack/tools/python`.

use std::process::Command;

use super::{DIRECT, Endpoint, HOST};
use crate::e2e::lab::Lab;
use crate::{prerequisites, run};

/// Namespace of Capstan's own service accounts. All other namespaces have those of the host.
const ACCOUNTS: &str = "capstan-system";

pub(in crate::e2e) fn through_host(lab: &Lab) -> anyhow::Result<()> {
    // The host publishes its own keys there.
    script(lab, &HOST, &[])
}

pub(in crate::e2e) fn directly(lab: &Lab) -> anyhow::Result<()> {
    script(lab, &DIRECT, &[ACCOUNTS])
}

fn script(lab: &Lab, endpoint: &Endpoint, accounts: &[&str]) -> anyhow::Result<()> {
    endpoint.namespace(lab, "python")?;
    let mut command = Command::new(prerequisites::python_clients()?);
    command.arg(run::root()?.join("hack/tools/python/clients.py"));
    run::shown(command.args([&endpoint.kubeconfig(lab), "python"]).args(accounts))
}

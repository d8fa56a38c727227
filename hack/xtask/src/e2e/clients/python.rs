//! The Python client, with the script in `hack/tools/python`.

use std::process::Command;

use super::{DIRECT, Face, HOST};
use crate::e2e::lab::Lab;
use crate::{prerequisites, run};

pub(in crate::e2e) fn through_host(lab: &Lab) -> anyhow::Result<()> {
    script(lab, &HOST)
}

pub(in crate::e2e) fn directly(lab: &Lab) -> anyhow::Result<()> {
    script(lab, &DIRECT)
}

fn script(lab: &Lab, face: &Face) -> anyhow::Result<()> {
    face.namespace(lab, "python")?;
    let mut command = Command::new(prerequisites::python_clients()?);
    command.arg(run::root()?.join("hack/tools/python/clients.py"));
    run::shown(command.args([&face.kubeconfig(lab), "python"]))
}

//! client-go and controller-runtime: the program in `hack/tools/clients`.

use std::process::Command;

use super::{DIRECT, Face, HOST};
use crate::e2e::lab::Lab;
use crate::{prerequisites, run};

pub(in crate::e2e) fn checks_through_host(lab: &Lab) -> anyhow::Result<()> {
    checks(lab, &HOST)
}

pub(in crate::e2e) fn checks_directly(lab: &Lab) -> anyhow::Result<()> {
    checks(lab, &DIRECT)
}

fn checks(lab: &Lab, face: &Face) -> anyhow::Result<()> {
    face.namespace(lab, "clients")?;
    let mut command = Command::new(prerequisites::go_program("clients", "clients")?);
    command.args(["--namespace", "clients", "--kubeconfig", &face.kubeconfig(lab)]);
    if face.direct {
        command.arg("--direct");
    }
    run::shown(&mut command)
}

//! Scenarios with kube-rs: the program in `tests/kube-rs`.

use std::process::Command;

use super::{DIRECT, Endpoint, HOST};
use crate::e2e::lab::Lab;
use crate::run;

pub(in crate::e2e) fn through_host(lab: &Lab) -> anyhow::Result<()> {
    checks(lab, &HOST)
}

pub(in crate::e2e) fn directly(lab: &Lab) -> anyhow::Result<()> {
    checks(lab, &DIRECT)
}

fn checks(lab: &Lab, endpoint: &Endpoint) -> anyhow::Result<()> {
    endpoint.namespace(lab, "kube-rs")?;
    run::shown(&mut run::linting_cargo(&["build", "--quiet", "--locked", "--package", "tests-kube-rs"])?)?;
    let mut command = Command::new(run::target()?.join("debug/kube-rs"));
    run::shown(command.args(["--namespace", "kube-rs", "--kubeconfig", &endpoint.kubeconfig(lab)]))
}

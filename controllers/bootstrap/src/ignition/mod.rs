//! Boot document for Ignition 2.3, which Flatcar reads.
//!
//! A script runs kubeadm, and a unit of systemd runs the script. There is no Jinja. Ignition unpacks files, but no whole
//! document: the files of a document that is too large for OpenStack are compressed. Old images refuse them.

mod additional;
mod disks;
mod files;
#[cfg(test)]
mod tests;
mod users;

use serde_json::{Map, Value, json};

use files::Form;
pub(crate) use files::source as data_url;

use crate::cloud_config::LIMIT;
use crate::failure_report;
use crate::setup::{DocumentError, File, SENTINEL, Setup};

/// Version of Ignition's configuration, which is the last one of Flatcar's fork.
pub(crate) const VERSION: &str = "2.3.0";

/// Configuration file of kubeadm. Users' own commands change it before kubeadm runs.
const CONFIGURATION: &str = "/etc/kubeadm.yml";

/// Script that runs kubeadm.
const SCRIPT: &str = "/etc/kubeadm.sh";

/// Script that reports a failed bootstrap. Ignition cannot write to `/run`.
const REPORT: &str = "/etc/kubeadm-report.sh";

/// Unit that runs the script. It waits for an address, which `network.target` does not guarantee.
const UNIT: &str = "[Unit]
Description=kubeadm
ConditionPathExists=/etc/kubeadm.yml
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
ExecStart=/bin/bash /etc/kubeadm.sh
";

/// End of the unit.
const INSTALL: &str = "[Install]
WantedBy=multi-user.target
";

/// Returns the Ignition configuration of a machine.
///
/// # Errors
/// A field of the KubeadmConfig has no form in Ignition.
pub fn render(setup: &Setup<'_>) -> Result<String, DocumentError> {
    check(setup)?;
    let plain = document(setup, Form::Plain)?;
    if plain.len() <= LIMIT { Ok(plain) } else { document(setup, Form::Compressed) }
}

fn document(setup: &Setup<'_>, form: Form) -> Result<String, DocumentError> {
    let spec = setup.spec;
    let mut units = vec![json!({"name": "kubeadm.service", "enabled": true, "contents": unit(setup)})];
    if spec.ntp.as_ref().and_then(|ntp| ntp.enabled) == Some(true) {
        units.push(json!({"name": "ntpd.service", "enabled": true}));
    }
    units.extend(disks::mounts(spec)?);
    let mut document = json!({
        "ignition": {"version": VERSION},
        "storage": present([
            ("files", files(setup, form)?),
            ("disks", disks::disks(spec)),
            ("filesystems", disks::filesystems(spec)),
        ]),
        "systemd": {"units": units},
    });
    if !setup.users.is_empty() {
        let users: Vec<Value> = setup.users.iter().map(users::user).collect();
        document["passwd"] = json!({"users": users});
    }
    let config = spec.ignition.as_ref().and_then(|it| it.container_linux_config.as_ref());
    if let Some(text) = config.and_then(|config| config.additional_config.as_deref()) {
        additional::append(&mut document, text)?;
    }
    serde_json::to_string(&document).map_err(|error| DocumentError::Unsupported(error.to_string()))
}

/// Returns the unit. After the script, it reports a failure.
fn unit(setup: &Setup<'_>) -> String {
    let report = setup.report.map(|_| format!("ExecStopPost=/bin/sh {REPORT} kubeadm $EXIT_STATUS\n"));
    format!("{UNIT}{}{INSTALL}", report.unwrap_or_default())
}

/// Returns an object of the lists that are not empty.
fn present<const N: usize>(lists: [(&str, Vec<Value>); N]) -> Value {
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    Value::Object(lists.map(|(name, list)| (name.to_owned(), list.into())).collect::<Map<_, _>>())
}

/// Refuses what Ignition has no form for.
fn check(setup: &Setup<'_>) -> Result<(), DocumentError> {
    let refuse = |field: &str| {
        Err(DocumentError::Unsupported(format!("{field} is not supported with format ignition")))
    };
    if setup.spec.boot_commands.as_ref().is_some_and(|commands| !commands.is_empty()) {
        return refuse("bootCommands");
    }
    if setup.users.iter().any(|user| user.inactive == Some(true)) {
        return refuse("users[].inactive");
    }
    disks::check(setup.spec).map_or(Ok(()), refuse)
}

/// Returns all files, in upstream's order.
fn files(setup: &Setup<'_>, form: Form) -> Result<Vec<Value>, DocumentError> {
    let script = File { owner: None, ..File::of_root(SCRIPT, "0700", script(setup)) };
    let kubeadm = File { owner: None, ..File::of_root(CONFIGURATION, "0600", setup.kubeadm) };
    let report = setup
        .report
        .map(|name| File::of_root(REPORT, "0700", failure_report::script(name, failure_report::UNIT)));
    let all = users::files(setup.users)
        .into_iter()
        .chain(setup.certificates.iter().cloned())
        .chain(setup.files.iter().cloned())
        .chain(setup.discovery.cloned())
        .chain([script, kubeadm])
        .chain(report)
        .chain(files::time_servers(setup.spec));
    all.map(|file| files::file(&file, form)).collect()
}

/// Returns the script. A command that fails ends it, so the sentinel and the user's last commands need a success.
fn script(setup: &Setup<'_>) -> String {
    let spec = setup.spec;
    let verbosity = spec.verbosity.map(|level| format!(" --v {level}")).unwrap_or_default();
    let kubeadm = [
        format!(
            "kubeadm {} --config {CONFIGURATION}{}{verbosity}",
            setup.command.name(),
            setup.command.arguments()
        ),
        format!("mkdir -p /run/cluster-api && echo success > {SENTINEL}"),
        format!("mv {CONFIGURATION} /tmp/"),
    ];
    let lines = ["#!/bin/bash".to_owned(), "set -e".to_owned()]
        .into_iter()
        .chain(spec.pre_kubeadm_commands.iter().flatten().cloned())
        .chain(kubeadm)
        .chain(spec.post_kubeadm_commands.iter().flatten().cloned());
    lines.map(|line| line + "\n").collect()
}

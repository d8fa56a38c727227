//! The etcd of overlay `ha-etcd`: three members on loopback, with the rendered args and certificates.

use std::process::Command;

use anyhow::Context;

use super::answers_ok;
use super::pod::{Pod, replaced};
use super::rendered::Objects;
use crate::e2e::lab::{Lab, ports, until};
use crate::e2e::process::Process;

/// Running members.
pub(super) struct Members {
    _processes: Vec<Process>,
    clients: [u16; 3],
}

impl Members {
    /// Starts the members, and waits until their readiness probes succeed.
    pub(super) fn start(lab: &Lab, objects: &Objects) -> anyhow::Result<Self> {
        let pod = Pod::of(objects, "capstan-etcd")?;
        let all = ports::<9>()?;
        let [clients, peers, metrics] =
            [[all[0], all[1], all[2]], [all[3], all[4], all[5]], [all[6], all[7], all[8]]];
        let mut processes = Vec::new();
        for (index, name) in ["capstan-etcd-0", "capstan-etcd-1", "capstan-etcd-2"].into_iter().enumerate() {
            let root = lab.directory(&format!("pods/{name}"));
            pod.mount(objects, &root, &[], &[])?;
            let own = |port: u16, ports: [u16; 3]| {
                (format!("//0.0.0.0:{port}"), format!("//127.0.0.1:{}", ports[index]))
            };
            let mut replacements = vec![own(2379, clients), own(2380, peers), own(2381, metrics)];
            replacements.extend(addresses("capstan-etcd-", ".capstan-etcd.capstan-system.svc:2380", peers));
            replacements.extend(addresses("capstan-etcd-", ".capstan-etcd.capstan-system.svc:2379", clients));
            let words = pod.arguments(&root, "command", name)?;
            let mut command = Command::new(&lab.tools.etcd);
            command.args(words.iter().skip(1).map(|word| replaced(word, &replacements)));
            processes.push(Process::start(name, &mut command, &root.with_extension("log"))?);
        }
        for port in metrics {
            let url = format!("http://127.0.0.1:{port}{}", pod.probe("readinessProbe")?);
            until("a member is ready", || answers_ok(&url, None, &[]))
                .with_context(|| format!("the logs of the members are beside {}", lab.keep_logs()))?;
        }
        Ok(Self { _processes: processes, clients })
    }

    /// Returns the endpoints in the configs of both shapes on etcd, with those of the members.
    pub(super) fn endpoints(&self) -> Vec<(String, String)> {
        let mut all = addresses("capstan-etcd-", ".capstan-etcd.capstan-system.svc:2379", self.clients);
        all.extend(addresses("etcd-", ".example.org:2379", self.clients));
        all
    }
}

fn addresses(before: &str, after: &str, ports: [u16; 3]) -> Vec<(String, String)> {
    let address =
        |(index, port): (usize, u16)| (format!("{before}{index}{after}"), format!("127.0.0.1:{port}"));
    ports.into_iter().enumerate().map(address).collect()
}

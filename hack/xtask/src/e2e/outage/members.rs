//! Etcd of three members, which stores the objects of all replicas.

use std::process::Command;

use crate::e2e::lab::Lab;
use crate::e2e::process::Process;

/// Number of members.
pub(super) const COUNT: usize = 3;

/// Settings of the members. With etcd's own times, a busy machine would elect another member while a test counts failed requests.
/// The members end with the test, so nothing depends on a disk, which other parts use, too.
const SETTINGS: [&str; 3] = ["--heartbeat-interval=500", "--election-timeout=5000", "--unsafe-no-fsync"];

/// Running members.
pub(super) struct Members {
    _processes: Vec<Process>,
    /// URLs for clients, separated by commas.
    pub(super) endpoints: String,
}

impl Members {
    /// Starts all members, each with a port for clients and one for the others.
    pub(super) fn start(lab: &Lab, ports: [[u16; 2]; COUNT]) -> anyhow::Result<Self> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let all = ports.iter().enumerate().map(|(number, [_, peer])| format!("m{number}={}", url(*peer)));
        let all = all.collect::<Vec<_>>().join(",");
        let mut processes = Vec::new();
        for (number, [client, peer]) in ports.into_iter().enumerate() {
            let name = format!("store-{number}");
            // The search for secrets in logs leaves out data of an etcd by the name of its folder.
            let data = lab.directory(&name).join("etcd");
            let (client, peer) = (url(client), url(peer));
            let mut command = Command::new(&lab.tools.etcd);
            command.arg(format!("--name=m{number}")).arg(format!("--initial-cluster={all}"));
            command.arg(format!("--data-dir={}", data.display())).arg("--log-level=warn").args(SETTINGS);
            for (flag, url) in [("client-urls", &client), ("peer-urls", &peer)] {
                command.arg(format!("--listen-{flag}={url}"));
            }
            command.arg(format!("--advertise-client-urls={client}"));
            command.arg(format!("--initial-advertise-peer-urls={peer}"));
            std::fs::create_dir_all(lab.directory(&name))?;
            let log = lab.directory("log").join(format!("{name}.log"));
            processes.push(Process::start(&name, &mut command, &log)?);
        }
        let endpoints = ports.map(|[client, _]| url(client)).join(",");
        Ok(Self { _processes: processes, endpoints })
    }
}

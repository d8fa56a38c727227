//! Probe of the workload cluster's API server while a scenario changes the cluster.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::cluster::Cluster;

/// Interval between two requests. Each one starts a process.
const INTERVAL: Duration = Duration::from_millis(500);

/// Requests to `/readyz` at the endpoint of the cluster, as a client would see it: one after the other.
pub(super) struct Probe {
    is_done: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// Result of a probe.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Seen {
    /// Requests that got an answer.
    pub(super) answered: u32,
    /// Longest time between two answers.
    pub(super) longest_gap: Duration,
}

impl Probe {
    /// Starts the requests in a thread.
    pub(super) fn start(cluster: &Cluster<'_>) -> anyhow::Result<Self> {
        let (kubectl, kubeconfig) = (cluster.lab.tools.kubectl.clone(), cluster.kubeconfig()?);
        let is_done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_done);
        let thread = std::thread::spawn(move || run(&kubectl, &kubeconfig, &until));
        Ok(Self { is_done, thread })
    }

    /// Ends the requests.
    pub(super) fn end(self) -> anyhow::Result<Seen> {
        self.is_done.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread of the probe has panicked"))
    }
}

fn run(kubectl: &PathBuf, kubeconfig: &PathBuf, is_done: &AtomicBool) -> Seen {
    let (mut seen, mut last) = (Seen::default(), Instant::now());
    while !is_done.load(Ordering::Relaxed) {
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(kubeconfig).args(["--request-timeout=2s", "get", "--raw", "/readyz"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if command.status().is_ok_and(|status| status.success()) {
            seen.answered += 1;
            seen.longest_gap = seen.longest_gap.max(last.elapsed());
            last = Instant::now();
        }
        std::thread::sleep(INTERVAL);
    }
    seen.longest_gap = seen.longest_gap.max(last.elapsed());
    seen
}

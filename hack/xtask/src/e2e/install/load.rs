//! Load on an installation: one write after the other, as a client with retries sends them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

/// Longest time of a write with its retries: the election of a new leader of etcd, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes that were acknowledged.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) names: Vec<String>,
    /// Attempts whose connection ended without a response.
    pub(super) repeated: usize,
    pub(super) slowest: Duration,
}

/// Load that runs until it is ended.
pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    thread: JoinHandle<anyhow::Result<Written>>,
}

impl Load {
    pub(super) fn start(kubectl: &Path, kubeconfig: PathBuf, home: &Path) -> Self {
        let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (kubectl, file) = (kubectl.to_owned(), home.join("load.json"));
        let (over, counter) = (Arc::clone(&is_over), Arc::clone(&count));
        let thread = std::thread::spawn(move || {
            let mut written = Written::default();
            while !over.load(Ordering::Relaxed) {
                let name = format!("load-{}", written.names.len());
                write(&kubectl, &kubeconfig, &file, &name, &mut written)?;
                written.names.push(name);
                counter.store(written.names.len(), Ordering::Relaxed);
            }
            Ok(written)
        });
        Self { is_over, count, thread }
    }

    /// Waits for this number of further writes.
    pub(super) fn await_writes(&self, further: usize) -> anyhow::Result<()> {
        let goal = self.count.load(Ordering::Relaxed) + further;
        let end = Instant::now() + PATIENCE * 2;
        while self.count.load(Ordering::Relaxed) < goal {
            if self.thread.is_finished() || Instant::now() > end {
                bail!("the writes stopped");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(super) fn end(self) -> anyhow::Result<Written> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the load panicked"))?
    }
}

/// Creates one object. A client whose connection ends repeats the request; if the object is there then, the first
/// attempt succeeded.
fn write(
    kubectl: &Path,
    kubeconfig: &Path,
    file: &Path,
    name: &str,
    written: &mut Written,
) -> anyhow::Result<()> {
    let object = format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}}}"#);
    std::fs::write(file, object)?;
    let begun = Instant::now();
    for attempt in 0.. {
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.args(["create", "--raw", "/api/v1/namespaces/default/configmaps", "-f"]).arg(file);
        let output = command.output()?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() || (attempt > 0 && error.contains("already exists")) {
            break;
        }
        if begun.elapsed() > PATIENCE {
            bail!("write {name} fails for {} s: {error}", PATIENCE.as_secs());
        }
        written.repeated += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    written.slowest = written.slowest.max(begun.elapsed());
    Ok(())
}

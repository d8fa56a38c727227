//! Keystone of the lab, stopped by a signal.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, ensure};

use crate::e2e::openstack::OpenStack;

/// Keystone that accepts connections and answers nothing. Dropping this value lets it continue.
///
/// A restart would take half a minute on a busy machine, and the other services of the lab need Keystone.
pub(super) struct StoppedKeystone {
    /// Process that has stopped Keystone. At the end of its input it lets Keystone continue, also if this process is killed.
    guard: Child,
}

impl StoppedKeystone {
    /// Stops all processes of Keystone.
    pub(super) fn begin(openstack: &OpenStack) -> anyhow::Result<Self> {
        let group = process_group(openstack)?;
        let script = format!(
            "kill -s STOP -- -{group} || exit 1; echo stopped; cat >/dev/null; kill -s CONT -- -{group}"
        );
        let mut command = Command::new("bash");
        // An interrupt by the keyboard reaches all processes of its group, and must not end the guard.
        command.args(["-c", &script]).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut stopped = Self { guard: command.spawn().context("bash cannot be run")? };
        let output = stopped.guard.stdout.take().context("the guard has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line == "stopped\n", "process group {group} of Keystone cannot be stopped");
        Ok(stopped)
    }

    /// Lets Keystone continue.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        let status = self.resume()?;
        ensure!(status.success(), "Keystone does not continue: {status}");
        Ok(())
    }

    fn resume(&mut self) -> io::Result<ExitStatus> {
        drop(self.guard.stdin.take());
        self.guard.wait()
    }
}

impl Drop for StoppedKeystone {
    fn drop(&mut self) {
        let _ = self.resume();
    }
}

/// Returns the process group of Keystone. `up.sh` records its leader with the start time, so that no signal goes to another
/// process with the same id.
fn process_group(openstack: &OpenStack) -> anyhow::Result<String> {
    let file = openstack.home().join("run/keystone.pid");
    let record = std::fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let (id, started) = record.trim().split_once(' ').context("keystone.pid has no start time")?;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).context("Keystone does not run")?;
    // The start time is the 22nd field. The second one is the name in parentheses, which may have spaces.
    let found = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(19));
    ensure!(found == Some(started), "process {id} is not the Keystone that up.sh has started");
    Ok(id.to_owned())
}

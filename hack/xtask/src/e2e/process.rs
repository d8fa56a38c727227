//! Program that runs until its handle is dropped.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Longest graceful shutdown of a program. Capstan ends its watches over 10 s.
const GRACE: Duration = Duration::from_secs(30);

/// Running program. Stops when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts a program. Its output goes to `log`.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("{}", log.display()))?;
        let errors = file.try_clone()?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let child = child.with_context(|| format!("{name} cannot be started"))?;
        Ok(Self { name: name.to_owned(), child })
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns an error if the program has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended: {status}", self.name),
            None => Ok(()),
        }
    }

    /// Kills the program, as a crash of its machine does.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().with_context(|| format!("{} cannot be killed", self.name))?;
        self.child.wait().map(|_| ()).with_context(|| format!("{} does not end", self.name))
    }

    /// Terminates the program. Returns its exit status.
    pub(crate) fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        self.stop();
        self.child.wait().with_context(|| format!("{} does not end", self.name))
    }

    /// Terminates the program. Kills it if it does not end in time.
    pub(crate) fn stop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

//! Clock of all replicas, which a test sets forward: the bounds of copies of the host are hours.

use std::path::PathBuf;
use std::time::Duration;

use crate::e2e::lab::Lab;
use crate::prerequisites;

/// Clock of processes that load libfaketime. It reads the difference to the real clock from a file. Timers are not concerned.
pub(super) struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// Creates a clock that is right.
    pub(super) fn new(lab: &Lab) -> anyhow::Result<Self> {
        let clock = Self { library: prerequisites::faketime()?, file: lab.directory("clock") };
        clock.set_forward(Duration::ZERO)?;
        Ok(clock)
    }

    /// Sets the clock forward. The processes notice it within two seconds.
    pub(super) fn set_forward(&self, by: Duration) -> anyhow::Result<()> {
        // No process reads a part of it.
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("+{}\n", by.as_secs()))?;
        Ok(std::fs::rename(next, &self.file)?)
    }

    /// Returns the environment of a process with this clock.
    pub(super) fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_CACHE_DURATION", "2".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }
}

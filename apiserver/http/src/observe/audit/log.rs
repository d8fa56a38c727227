//! Audit log: a thread that writes events, so that no request waits for a disk.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use super::Stage;
use super::file::AuditFile;

/// Capacity of the queue. Unit: lines of about 1 KiB, some seconds of a busy server's requests. A slower disk loses
/// lines, which are counted.
const CAPACITY: usize = 20_000;

/// Longest wait for the disk at the end of the process.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Message {
    Line(String),
    /// Requests a reply once all lines before this are written.
    Written(SyncSender<()>),
}

/// Audit log; clones write to the same one.
#[derive(Debug, Clone)]
pub struct AuditLog {
    sender: SyncSender<Message>,
    omitted: Arc<[Stage]>,
    failed: Arc<AtomicU64>,
}

impl AuditLog {
    /// Creates a log that writes to `file`, without the stages that are `omitted`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn to_file(file: AuditFile, omitted: Vec<Stage>) -> std::io::Result<Self> {
        Self::start(file, omitted)
    }

    /// Creates a log that writes to standard output.
    ///
    /// # Errors
    /// As [`AuditLog::to_file`].
    pub fn to_stdout(omitted: Vec<Stage>) -> std::io::Result<Self> {
        Self::start(BufWriter::new(std::io::stdout()), omitted)
    }

    fn start(to: impl Write + Send + 'static, omitted: Vec<Stage>) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(CAPACITY);
        let failed = Arc::new(AtomicU64::new(0));
        let failures = Arc::clone(&failed);
        let writer = std::thread::Builder::new().name("audit".to_owned());
        // The thread ends with the last sender.
        writer.spawn(move || write_all(&receiver, to, &failures))?;
        Ok(Self { sender, omitted: omitted.into(), failed })
    }

    /// Returns true if events of a stage are written.
    pub(crate) fn takes(&self, stage: Stage) -> bool {
        !self.omitted.contains(&stage)
    }

    /// Queues a line; `false` if it is lost.
    pub(crate) fn write(&self, line: String) -> bool {
        self.sender.try_send(Message::Line(line)).is_ok()
    }

    /// Returns the number of lines that could not be written since the last call.
    pub(crate) fn take_failed(&self) -> u64 {
        self.failed.swap(0, Ordering::Relaxed)
    }

    /// Waits until all queued lines are written, or the disk is too slow.
    pub fn flush(&self) {
        let (sender, written) = sync_channel(1);
        if self.sender.send(Message::Written(sender)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

fn write_all(messages: &Receiver<Message>, mut to: impl Write, failed: &AtomicU64) {
    let mut is_reported = false;
    let mut note = |result: std::io::Result<()>| match result {
        Ok(()) => is_reported = false,
        Err(error) => {
            failed.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut is_reported, true) {
                tracing::error!(%error, "cannot write the audit log; lines are lost");
            }
        }
    };
    while let Ok(first) = messages.recv() {
        let mut next = Ok(first);
        let mut waiting = Vec::new();
        while let Ok(message) = next {
            match message {
                Message::Line(line) => note(to.write_all(line.as_bytes())),
                Message::Written(sender) => waiting.push(sender),
            }
            next = match messages.try_recv() {
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                other => other,
            };
        }
        note(to.flush());
        for sender in waiting {
            let _ = sender.send(());
        }
    }
}

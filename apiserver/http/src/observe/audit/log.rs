//! Audit log: a thread that writes events, so that no request waits for a disk.

use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::Stage;
use super::chain::AuditChain;
use super::file::AuditFile;
use super::flush::is_flushed;
use super::policy::Policy;
use super::queue_room::{QueueRoom, RoomPart};
use super::writer::{Counts, Destination, Message, Writer};

/// Capacity of the queue. Unit: lines of about 1 KiB, some seconds of a busy server's requests. A slower disk loses
/// lines, which are counted.
const CAPACITY: usize = 20_000;

/// Longest wait for the disk at the end of the process.
const PATIENCE: Duration = Duration::from_secs(5);

/// Destination of audit events besides the file, such as a webhook. It has a queue, so that no request waits.
pub trait AuditBackend: Send + Sync + std::fmt::Debug + 'static {
    /// Queues an event, one JSON object; `false` if it is lost.
    fn offer(&self, event: &str) -> bool;

    /// Returns the number of queued events that were lost since the last call.
    fn take_lost(&self) -> u64;

    /// Waits until all queued events are sent, or the destination is too slow.
    fn flush(&self);
}

/// Number of events that were lost, by destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// In the file or on standard output.
    pub(crate) log: u64,
    /// In the other destination.
    pub(crate) webhook: u64,
}

/// Audit log; clones write to the same one.
#[derive(Debug, Clone)]
pub struct AuditLog {
    sender: SyncSender<Message>,
    room: QueueRoom,
    omitted: Arc<[Stage]>,
    counts: Counts,
    policy: Arc<ArcSwap<Policy>>,
    webhook: Option<Arc<dyn AuditBackend>>,
}

impl AuditLog {
    /// Creates a log that writes to `file`, without the stages that are `omitted`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn to_file(file: AuditFile, omitted: Vec<Stage>) -> std::io::Result<Self> {
        Self::start(file, omitted, None)
    }

    /// Creates a log that writes to `file`, and adds a link of the chain to each line. The webhook gets events without
    /// links.
    ///
    /// # Errors
    /// As [`AuditLog::to_file`].
    pub fn to_chained_file(file: AuditFile, omitted: Vec<Stage>, chain: AuditChain) -> std::io::Result<Self> {
        Self::start(file, omitted, Some(chain))
    }

    /// Creates a log that writes to standard output, with a link of the chain in each line if there is one.
    ///
    /// # Errors
    /// As [`AuditLog::to_file`].
    pub fn to_stdout(omitted: Vec<Stage>, chain: Option<AuditChain>) -> std::io::Result<Self> {
        Self::start(BufWriter::new(std::io::stdout()), omitted, chain)
    }

    fn start(to: impl Destination, omitted: Vec<Stage>, chain: Option<AuditChain>) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(CAPACITY);
        let counts = Counts::default();
        let writer = Writer::new(to, counts.clone(), chain);
        let thread = std::thread::Builder::new().name("audit".to_owned());
        // The thread ends with the last sender.
        thread.spawn(move || writer.run(&receiver))?;
        let (policy, room) = (Arc::default(), QueueRoom::default());
        Ok(Self { sender, room, omitted: omitted.into(), counts, policy, webhook: None })
    }

    /// Sends all events to a webhook, too.
    #[must_use]
    pub fn with_webhook(mut self, webhook: Arc<dyn AuditBackend>) -> Self {
        self.webhook = Some(webhook);
        self
    }

    /// Sets the policy of requests that begin from now on. By default, every request has level `Metadata`.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    pub(crate) fn policy(&self) -> arc_swap::Guard<Arc<Policy>> {
        self.policy.load()
    }

    /// Returns true if events of a stage are written.
    pub(crate) fn takes(&self, stage: Stage) -> bool {
        !self.omitted.contains(&stage)
    }

    /// Queues a line. Returns the number of events that were lost since the last call, with this one.
    pub(crate) fn write(&self, line: String) -> Lost {
        let webhook = self.webhook.as_ref().map_or(0, |webhook| {
            let is_queued = webhook.offer(line.trim_end());
            webhook.take_lost() + u64::from(!is_queued)
        });
        let part = self.room.take(&line);
        let is_queued = part.is_some_and(|part| self.queue(line, part));
        Lost { log: self.counts.failed.swap(0, Ordering::Relaxed) + u64::from(!is_queued), webhook }
    }

    /// Queues a line with its room; `false` if the queue is full.
    fn queue(&self, line: String, part: RoomPart) -> bool {
        // Counted before, because the thread may write it at once.
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let is_queued = self.sender.try_send(Message::Line(line, part)).is_ok();
        if !is_queued {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_queued
    }

    /// Waits until all queued lines are written, or a destination is too slow. Each destination has five seconds. After that
    /// an error is logged, with the number of events that it does not have.
    pub fn flush(&self) {
        if let Some(webhook) = &self.webhook {
            webhook.flush();
        }
        if let Some(events) = self.unwritten_after(PATIENCE) {
            tracing::error!(
                events,
                seconds = PATIENCE.as_secs(),
                "the audit log is not flushed: its disk does not answer, and these events are lost when the process ends"
            );
        }
    }

    /// Waits until all queued lines are written. If they are not after this time, returns the number of those that wait.
    fn unwritten_after(&self, patience: Duration) -> Option<u64> {
        let is_full =
            |reply| matches!(self.sender.try_send(Message::Written(reply)), Err(TrySendError::Full(_)));
        (!is_flushed(patience, is_full)).then(|| self.waiting())
    }

    fn waiting(&self) -> u64 {
        self.counts.waiting.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Instant;

    use super::*;

    /// Disk that hangs until the sender is dropped.
    struct Hanging(Receiver<()>);

    impl Write for Hanging {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Destination for Hanging {}

    #[test]
    fn large_lines_that_wait_for_the_disk_are_limited_in_bytes() {
        let (hanging, released) = channel();
        let log = AuditLog::start(Hanging(released), Vec::new(), None).unwrap();
        let line = || "x".repeat(1024 * 1024);
        let lost: u64 = (0..100).map(|_| log.write(line()).log).sum();
        assert_eq!(lost, 36, "64 MiB wait, and are less than the queue's number of lines");
        drop(hanging);
        log.flush();
        assert_eq!(log.write(line()), Lost::default(), "written lines leave their room");
    }

    #[test]
    fn a_flush_ends_while_the_disk_hangs_and_counts_the_events_that_are_not_written() {
        let short = Duration::from_millis(50);
        let (hanging, released) = channel();
        let log = AuditLog::start(Hanging(released), Vec::new(), None).unwrap();
        let write = |_: &usize| log.write("{}\n".to_owned()).log == 0;
        assert_eq!((0..1).filter(write).count(), 1);
        assert_eq!(log.unwritten_after(short), Some(1), "the queue has room for the request");
        let queued = 1 + (0..=CAPACITY).filter(write).count();
        let begun = Instant::now();
        assert_eq!(log.unwritten_after(short), u64::try_from(queued).ok(), "the queue is full");
        assert!(begun.elapsed() < PATIENCE);
        drop(hanging);
        assert_eq!(log.unwritten_after(PATIENCE), None);
        assert_eq!(log.waiting(), 0);
    }
}

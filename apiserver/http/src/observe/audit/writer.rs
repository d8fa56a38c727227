//! Writer of an audit log: the loop of its thread.

use std::io::{BufWriter, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use super::chain::{AuditChain, Chain, ChainLink, CheckpointSink};
use super::queue_room::RoomPart;

/// Lines after which a chained log has a checkpoint: less than a second of a busy server.
const CHECKPOINT_LINES: u64 = 1_000;

/// Longest time that a line waits for a checkpoint.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);

/// Message to the thread.
#[derive(Debug)]
pub(super) enum Message {
    Line(String, RoomPart),
    /// Requests a reply once all lines before this are written.
    Written(SyncSender<()>),
}

/// Numbers of lines, which the log shares with its thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    /// Lines that could not be written, since the log has last read the number.
    pub(super) failed: Arc<AtomicU64>,
    /// Lines in the queue, or in the buffer of the destination.
    pub(super) waiting: Arc<AtomicU64>,
}

/// Destination of the lines.
pub(super) trait Destination: Write + Send + 'static {
    /// Returns true if a line of this length begins another file.
    fn rotates_before(&self, _length: usize) -> bool {
        false
    }

    /// Writes all lines to the disk, if there is one.
    ///
    /// # Errors
    /// If they cannot be written.
    fn sync(&mut self) -> std::io::Result<()> {
        self.flush()
    }
}

impl Destination for BufWriter<Stdout> {}

/// Writer of a log, with the state of its chain.
#[derive(Debug)]
pub(super) struct Writer<D> {
    to: D,
    counts: Counts,
    /// Set once an error was logged, until all lines of a batch are written.
    is_reported: bool,
    /// Set by an error since the last batch.
    has_failed: bool,
    chain: Option<ChainState>,
}

/// Chain of a log, and its lines since the last checkpoint.
#[derive(Debug)]
struct ChainState {
    chain: Chain,
    sink: Arc<dyn CheckpointSink>,
    /// Line with its link. It is kept, so that not each line needs new memory.
    text: String,
    /// Number of lines since the last checkpoint.
    pending: u64,
    /// Time of the first of these lines.
    since: Instant,
    /// Longest time that they wait.
    interval: Duration,
}

impl ChainState {
    /// Returns the time until the next checkpoint, if there are lines since the last one.
    fn due_in(&self) -> Option<Duration> {
        (self.pending > 0).then(|| self.interval.saturating_sub(self.since.elapsed()))
    }

    fn count(&mut self) {
        if self.pending == 0 {
            self.since = Instant::now();
        }
        self.pending = self.pending.saturating_add(1);
    }
}

impl<D: Destination> Writer<D> {
    /// Creates a writer. It counts the lines that it cannot write, and takes those that it has written from the waiting ones.
    pub(super) fn new(to: D, counts: Counts, chain: Option<AuditChain>) -> Self {
        let chain = chain.map(|AuditChain { chain, sink }| ChainState {
            chain,
            sink,
            text: String::new(),
            pending: 0,
            since: Instant::now(),
            interval: CHECKPOINT_INTERVAL,
        });
        Self { to, counts, is_reported: false, has_failed: false, chain }
    }

    /// Writes all lines, until the last sender is gone.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let first = match self.chain.as_ref().and_then(ChainState::due_in) {
                Some(wait) => messages.recv_timeout(wait),
                None => messages.recv().map_err(RecvTimeoutError::from),
            };
            match first {
                Ok(first) => self.write_all(first, messages),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let due_in = self.chain.as_ref().and_then(ChainState::due_in);
            if due_in.is_some_and(|wait| wait.is_zero()) {
                self.checkpoint();
            }
        }
    }

    /// Writes a message and all that wait behind it.
    fn write_all(&mut self, first: Message, messages: &Receiver<Message>) {
        let mut next = Ok(first);
        let (mut lines, mut waiting) = (0, Vec::new());
        while let Ok(message) = next {
            match message {
                Message::Line(line, _part) => {
                    self.write(&line);
                    lines += 1;
                }
                Message::Written(sender) => waiting.push(sender),
            }
            next = match messages.try_recv() {
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                other => other,
            };
        }
        let flushed = self.to.flush();
        self.note(flushed);
        self.counts.waiting.fetch_sub(lines, Ordering::Relaxed);
        // A buffer takes lines for a full disk, too: each of them would be another report.
        self.is_reported &= std::mem::take(&mut self.has_failed);
        if !waiting.is_empty() {
            self.checkpoint();
        }
        for sender in waiting {
            let _ = sender.send(());
        }
    }

    fn write(&mut self, line: &str) {
        let Some(state) = &mut self.chain else {
            let written = self.to.write_all(line.as_bytes());
            self.note(written);
            return;
        };
        let link = state.chain.link(line, &mut state.text);
        // A reader of the next file alone can then check its first line.
        if self.to.rotates_before(state.text.len()) {
            self.checkpoint();
        }
        self.write_chained(link);
    }

    /// Writes the line that the chain has prepared.
    fn write_chained(&mut self, link: ChainLink) {
        let Some(state) = &mut self.chain else { return };
        let written = self.to.write_all(state.text.as_bytes());
        if written.is_ok() {
            state.chain.advance(link);
            state.count();
        }
        let is_due = state.pending >= CHECKPOINT_LINES;
        self.note(written);
        if is_due {
            self.checkpoint();
        }
    }

    /// Writes all lines to the disk, and offers the link of the last one, unless that was offered.
    fn checkpoint(&mut self) {
        let Some(state) = self.chain.as_mut().filter(|state| state.pending > 0) else { return };
        let Some(link) = state.chain.last() else { return };
        let synced = self.to.sync();
        if synced.is_ok() {
            state.pending = 0;
            state.sink.offer(link);
        } else {
            // The next attempt is due after the interval.
            state.pending = 1;
            state.since = Instant::now();
        }
        self.note(synced);
    }

    /// Counts a line that is lost, and logs the first error.
    fn note(&mut self, result: std::io::Result<()>) {
        let Err(error) = result else { return };
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        self.has_failed = true;
        if !std::mem::replace(&mut self.is_reported, true) {
            tracing::error!(%error, "cannot write the audit log; lines are lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel, sync_channel};

    use super::super::queue_room::QueueRoom;
    use super::*;
    use crate::observe::audit::ChainKey;

    /// Sends the checkpoints to the test.
    #[derive(Debug)]
    struct Sent(Mutex<Sender<ChainLink>>);

    impl CheckpointSink for Sent {
        fn offer(&self, link: ChainLink) {
            let _ = self.0.lock().unwrap().send(link);
        }
    }

    /// Disk on which everything can be written, but nothing is safe while `is_full`.
    struct Disk {
        is_full: Arc<Mutex<bool>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Destination for Disk {
        fn sync(&mut self) -> std::io::Result<()> {
            if *self.is_full.lock().unwrap() { Err(std::io::Error::other("full")) } else { Ok(()) }
        }
    }

    #[test]
    fn am_12_a_line_waits_at_most_the_interval_for_a_checkpoint_and_one_that_fails_is_made_later() {
        let ((offer, offered), is_full) = (channel(), Arc::new(Mutex::new(true)));
        let chain = AuditChain::new(ChainKey::new(&[1; 32]), None, Arc::new(Sent(Mutex::new(offer))));
        let counts = Counts::default();
        let failed = Arc::clone(&counts.failed);
        let mut writer = Writer::new(Disk { is_full: Arc::clone(&is_full) }, counts, Some(chain));
        writer.chain.as_mut().unwrap().interval = Duration::from_millis(20);
        let (sender, receiver) = sync_channel(10);
        let thread = std::thread::spawn(move || writer.run(&receiver));
        let line = "{\"number\":1}\n".to_owned();
        let part = QueueRoom::default().take(&line).unwrap();
        sender.send(Message::Line(line, part)).unwrap();
        while failed.load(Ordering::Relaxed) < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(offered.try_recv().is_err(), "the line is not on the disk");
        *is_full.lock().unwrap() = false;
        assert!(offered.recv_timeout(Duration::from_secs(10)).is_ok());
        drop(sender);
        thread.join().unwrap();
        assert!(offered.recv().is_err(), "each line has one checkpoint");
    }

    /// Buffer before a disk that may be full.
    struct Buffer {
        is_full: bool,
    }

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            if self.is_full { Err(std::io::Error::other("full")) } else { Ok(()) }
        }
    }

    impl Destination for Buffer {}

    #[test]
    fn a_full_disk_is_reported_once_until_lines_reach_it_again() {
        let mut writer = Writer::new(Buffer { is_full: true }, Counts::default(), None);
        let (_sender, messages) = sync_channel(1);
        let batch = |writer: &mut Writer<Buffer>| {
            let line = "{}\n".to_owned();
            let part = QueueRoom::default().take(&line).unwrap();
            writer.write_all(Message::Line(line, part), &messages);
        };
        batch(&mut writer);
        writer.write("{}\n");
        assert!(writer.is_reported, "the buffer has taken the line, and the disk has not");
        batch(&mut writer);
        assert!(writer.is_reported);
        writer.to.is_full = false;
        batch(&mut writer);
        assert!(!writer.is_reported, "the next error is reported again");
        assert_eq!(writer.counts.failed.load(Ordering::Relaxed), 2);
    }
}

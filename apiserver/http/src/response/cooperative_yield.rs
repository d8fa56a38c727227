//! Long answers leave the processor to short ones.
//!
//! Who sends a list as fast as the client takes it, or makes its chunks, keeps a processor for as long as the kernel lets
//! it: until its next tick, which may be 4 ms away. A request that comes in meanwhile waits for that in its socket, where
//! nobody in this process has seen it. So a long answer asks the kernel after some of its chunks whether another thread
//! would go on.
//!
//! It does so only while others are answered: a machine's other programs are asked as well, and a long answer that gave
//! way to those for nothing would take several times as long beside a busy one. For the same reason an answer is not
//! taken for long before it is.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// For how long after a short answer there may be another: who asks ten times a second does not wait.
const LATELY: Duration = Duration::from_millis(100);

/// An answer of fewer chunks gives way to nobody. They are of 64 KiB for the most part: a list of 200 Machines, or a
/// document, is sent in a millisecond, and would take as many ticks as it has chunks on a busy machine.
const SHORT: usize = 16;

/// After so many chunks a long answer gives way: sending them takes some 200 µs.
const TURN: usize = 2;

/// Those of the process: it is its threads that give way to each other.
pub(crate) static SHORT_ANSWERS: LazyLock<ShortAnswers> = LazyLock::new(ShortAnswers::new);

/// When the last one was sent, on whatever connection.
#[derive(Debug)]
pub(crate) struct ShortAnswers {
    start: Instant,
    /// Microseconds since then; 0 before the first.
    last: AtomicU64,
}

impl ShortAnswers {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    /// One was sent.
    pub(crate) fn sent(&self) {
        self.last.store(self.microseconds(Instant::now()).max(1), Ordering::Relaxed);
    }

    /// Lets another thread go on, while they are being sent.
    fn give_way(&self) {
        if self.are_sent(Instant::now()) {
            thread::yield_now();
        }
    }

    /// Whether there may be another at about this time.
    pub(crate) fn are_sent(&self, now: Instant) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        last > 0 && u128::from(self.microseconds(now).saturating_sub(last)) <= LATELY.as_micros()
    }

    fn microseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_micros()).unwrap_or(u64::MAX)
    }
}

/// The chunks of an answer, which gives way once it is long.
#[derive(Debug)]
pub(crate) struct GivingWay<I> {
    chunks: I,
    made: usize,
}

impl<I> GivingWay<I> {
    pub(crate) fn new(chunks: I) -> Self {
        Self { chunks, made: 0 }
    }

    pub(crate) fn chunks(&self) -> &I {
        &self.chunks
    }

    /// Those that are left, which give way no more.
    pub(crate) fn into_chunks(self) -> I {
        self.chunks
    }
}

impl<I: Iterator> Iterator for GivingWay<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        if self.made >= SHORT && self.made.is_multiple_of(TURN) {
            SHORT_ANSWERS.give_way();
        }
        self.made += 1;
        self.chunks.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn way_is_given_while_somebody_is_answered_and_not_for_long_after() {
        let answers = ShortAnswers::new();
        assert!(!answers.are_sent(Instant::now()), "nobody was answered yet");
        answers.sent();
        let now = Instant::now();
        assert!(answers.are_sent(now));
        assert!(!answers.are_sent(now + LATELY + Duration::from_millis(1)));
    }
}

//! Flush of a queue of audit events at the end of the process, with a limit in time.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Pause before another attempt to send a request to a full queue.
const PAUSE: Duration = Duration::from_millis(10);

/// Sends a request for a reply to the queue of a destination, and waits for the reply. The destination replies once it has
/// written, sent or lost all events before the request. `is_full` tries to send the request, and returns true if the
/// queue has no room for it. Returns false if there is no reply within this time, or the queue is closed.
pub fn is_flushed(patience: Duration, is_full: impl Fn(SyncSender<()>) -> bool) -> bool {
    let end = Instant::now() + patience;
    let (reply, replied) = sync_channel(1);
    // The queue stays full while the destination hangs.
    while is_full(reply.clone()) {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    // Without this sender, the wait ends with a queue that is closed.
    drop(reply);
    replied.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok()
}

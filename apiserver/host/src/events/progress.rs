//! Progress of the copies: the revision up to which all Events are in the host, or were given up.

use async_trait::async_trait;

/// Record of the progress, which outlives the process, and receiver of what people must know.
#[async_trait]
pub trait EventRecord: Send + Sync + 'static {
    /// Returns the revision up to which all Events were copied; `None` if there is no record. It waits for the store.
    async fn read(&self) -> Option<u64>;

    /// Writes the revision. Returns false if the store does not take it.
    async fn write(&self, copied: u64) -> bool;

    /// Reports that Events are lost. It is called once for each time the queue was full.
    async fn report_loss(&self);
}

/// Record of a process that keeps none.
pub(super) struct NoRecord;

#[async_trait]
impl EventRecord for NoRecord {
    async fn read(&self) -> Option<u64> {
        None
    }

    async fn write(&self, _: u64) -> bool {
        true
    }

    async fn report_loss(&self) {}
}

/// Revisions of the Events that the watch has returned.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// All Events up to this one were returned.
    newest: u64,
    /// The newest one of the list that is being read.
    listed: u64,
    is_complete: bool,
}

impl Watched {
    /// Begins behind the Events that an earlier process has copied.
    pub(super) fn after(copied: u64) -> Self {
        Self { newest: copied, ..Self::default() }
    }

    /// Notes the begin of a list, which has the Events in any order.
    pub(super) fn begin_list(&mut self) {
        (self.listed, self.is_complete) = (self.newest, false);
    }

    /// Notes an Event of a list. Returns false if it was returned before.
    pub(super) fn list(&mut self, revision: u64) -> bool {
        self.listed = self.listed.max(revision);
        revision > self.newest
    }

    /// Notes the end of a list.
    pub(super) fn end_list(&mut self) {
        (self.newest, self.is_complete) = (self.listed, true);
    }

    /// Notes a change.
    pub(super) fn change(&mut self, revision: u64) {
        self.newest = self.newest.max(revision);
    }

    /// Returns the revision up to which all Events were returned; `None` while a list is being read.
    pub(super) fn newest(&self) -> Option<u64> {
        self.is_complete.then_some(self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_breaks_off_hides_no_event_of_the_next_one() {
        let mut watched = Watched::after(5);
        assert_eq!(watched.newest(), None, "nothing was listed");
        watched.begin_list();
        assert!(watched.list(9) && !watched.list(5));
        watched.begin_list();
        assert!(watched.list(7), "its page was not read before");
        watched.end_list();
        assert_eq!(watched.newest(), Some(7));
        watched.change(12);
        assert_eq!(watched.newest(), Some(12));
        watched.begin_list();
        assert!(!watched.list(12) && watched.list(13));
        assert_eq!(watched.newest(), None);
    }
}

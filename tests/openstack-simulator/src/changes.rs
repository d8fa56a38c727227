//! Log of changed resources, for readers that look only at what has changed.

use std::collections::BTreeMap;

/// Ids in the order of their last changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChangeLog {
    /// Number of the last change.
    last: u64,
    /// Ids by the number of their last change.
    ids: BTreeMap<u64, String>,
    /// Number of the last change of each id.
    numbers: BTreeMap<String, u64>,
}

impl ChangeLog {
    /// Records a change.
    pub(crate) fn mark(&mut self, id: &str) {
        self.last += 1;
        if let Some(earlier) = self.numbers.insert(id.to_owned(), self.last) {
            self.ids.remove(&earlier);
        }
        self.ids.insert(self.last, id.to_owned());
    }

    /// Returns the number of the last change.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the ids that have changed after the change with this number, each of them once.
    pub(crate) fn since(&self, number: u64) -> impl Iterator<Item = &str> {
        self.ids.range(number.saturating_add(1)..).map(|(_, id)| id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_each_id_once_and_only_after_a_change() {
        let mut log = ChangeLog::default();
        for id in ["a", "b", "a"] {
            log.mark(id);
        }
        assert_eq!(log.since(0).collect::<Vec<_>>(), ["b", "a"]);
        let seen = log.last();
        assert_eq!(log.since(seen).count(), 0);
        log.mark("b");
        assert_eq!(log.since(seen).collect::<Vec<_>>(), ["b"]);
    }
}

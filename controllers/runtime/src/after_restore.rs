//! Time after a restore of the store from a backup, in which the clouds are newer than the objects.

use jiff::{SignedDuration, Timestamp};

use crate::{ControllerSettings, ReconcileError};

/// Time after a restore in which nothing is removed that the restored objects do not know, unless an operator ends it
/// before: enough to look at all clusters, and to keep what is needed. Unit: minutes.
const HOLD_MINUTES: i64 = 30;

/// The same time, for comparisons.
const HOLD: SignedDuration = SignedDuration::from_mins(HOLD_MINUTES);

/// Reason in conditions while a removal waits after a restore.
pub const AFTER_RESTORE_REASON: &str = "ReconcilingAfterRestore";

impl ControllerSettings {
    /// Checks that a thing may be removed which no object knows, but may have known after the backup was written.
    ///
    /// # Errors
    /// A wait, within half an hour of a restore, or while its record cannot be read. It names the thing.
    pub async fn removes_unknown(&self, thing: &str) -> Result<(), ReconcileError> {
        let Some(why) = self.hold_after_restore().await else { return Ok(()) };
        let message = format!(
            "{thing} stays, because {why}, and no object may know it only for that reason. Compare the clusters with the \
             clouds, for example by `capstan orphans`, and then run `capstan restore --done`"
        );
        Err(ReconcileError::waiting(AFTER_RESTORE_REASON, message))
    }

    /// Returns the reason why nothing may be removed about which the objects may know too little: a restore within the last
    /// half hour, or a record of it that cannot be read. `None` if there is no such reason. For people.
    pub async fn hold_after_restore(&self) -> Option<String> {
        match self.restores.as_ref()?.unfinished().await {
            Ok(restore) if restore.is_none_or(|at| !is_recent(at, Timestamp::now())) => None,
            Ok(_) => {
                Some(format!("the objects were restored from a backup less than {HOLD_MINUTES} minutes ago"))
            }
            Err(error) => Some(format!("the record of the last restore cannot be read: {error}")),
        }
    }

    /// Returns true if an object may be one of a backup, so that the cloud may have resources of it that its journal does
    /// not name. An object counts if it was created before the restore, or in the half hour after it: the clock of the
    /// command may be behind. All objects count while the record of the last restore cannot be read.
    pub async fn may_be_restored(&self, created: Option<Timestamp>) -> bool {
        let Some(record) = &self.restores else { return false };
        match record.last().await {
            Ok(None) => false,
            Ok(Some(restore)) => created.is_none_or(|created| is_recent(restore, created)),
            Err(_) => true,
        }
    }
}

/// Returns true for a restore within the last half hour. The clock of the command may be ahead.
fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < HOLD
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;

    use super::*;
    use crate::RestoreRecord;

    #[derive(Debug)]
    struct Record(Result<Option<Timestamp>, String>);

    #[async_trait]
    impl RestoreRecord for Record {
        async fn last(&self) -> Result<Option<Timestamp>, String> {
            self.0.clone()
        }

        async fn unfinished(&self) -> Result<Option<Timestamp>, String> {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn hv_35_for_half_an_hour_after_a_restore_nothing_unknown_is_removed() {
        let ago = |minutes| Ok(Some(Timestamp::now() - SignedDuration::from_mins(minutes)));
        for (record, expected) in [
            (None, ""),
            (Some(Ok(None)), ""),
            (Some(ago(31)), ""),
            (Some(ago(29)), "server x stays, because the objects were restored"),
            (Some(ago(-5)), "capstan restore --done"),
            (Some(Err("no etcd".to_owned())), "cannot be read: no etcd"),
        ] {
            let restores = record.map(|record| -> Arc<dyn RestoreRecord> { Arc::new(Record(record)) });
            let settings = ControllerSettings { restores, ..ControllerSettings::default() };
            let found = settings.removes_unknown("server x").await;
            let found = found.err().map(|error| (error.reason(), error.to_string()));
            assert_eq!(found.is_some(), !expected.is_empty(), "{found:?}");
            if let Some((reason, message)) = found {
                assert!(reason == AFTER_RESTORE_REASON && message.contains(expected), "{message}");
            }
        }
    }

    #[tokio::test]
    async fn hv_35_objects_from_before_the_end_of_a_restore_may_lack_their_journals() {
        let now = Timestamp::now();
        let before = |minutes| Some(now - SignedDuration::from_mins(minutes));
        for (record, created, expected) in [
            (None, before(0), false),
            (Some(Ok(None)), before(0), false),
            (Some(Ok(before(60))), before(600), true),
            (Some(Ok(before(60))), before(31), true),
            (Some(Ok(before(60))), before(29), false),
            (Some(Ok(before(60))), None, true),
            (Some(Err("no etcd".to_owned())), before(0), true),
        ] {
            let case = format!("{record:?} {created:?}");
            let restores = record.map(|record| -> Arc<dyn RestoreRecord> { Arc::new(Record(record)) });
            let settings = ControllerSettings { restores, ..ControllerSettings::default() };
            assert_eq!(settings.may_be_restored(created).await, expected, "{case}");
        }
    }
}

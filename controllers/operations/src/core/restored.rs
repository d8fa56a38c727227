//! Operations from before a restore of the store. The cloud may be newer than they are: what they still have to do may have
//! been done already, so they change nothing any more.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{MachineOperation, OperationPhase};
use controllers_runtime::RestoreRecord;
use jiff::Timestamp;

use crate::core::decision::Outcome;

/// Pause before the record of the last restore is read again.
const PAUSE: Duration = Duration::from_secs(1);

/// Reason of an operation that ends because of a restore.
const REASON: &str = "Restored";

/// Returns true if an operation is older than the last restore.
pub(crate) fn is_older(operation: &MachineOperation, restore: Option<Timestamp>) -> bool {
    let created = operation.metadata.creation_timestamp.as_ref().map(|created| created.0);
    restore.is_some_and(|restore| created.is_some_and(|created| created < restore))
}

/// Returns the time of the last restore, once it can be read.
pub(crate) async fn last(record: Option<Arc<dyn RestoreRecord>>) -> Option<Timestamp> {
    let record = record?;
    let mut reported = None;
    loop {
        match record.last().await {
            Ok(last) => return last,
            Err(error) => {
                if reported.as_ref() != Some(&error) {
                    tracing::warn!(error, "cannot read the last restore; no operation begins before");
                    reported = Some(error);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Returns the end of an operation that had not begun when the backup was written.
pub(crate) fn not_begun() -> Outcome {
    failed(
        "the objects were restored from a backup in which this operation had not begun. It may have been carried out since. \
         Look at the server, and create the operation again if it is still needed"
            .to_owned(),
    )
}

/// Returns the end of an operation that would have made a change in this step.
pub(crate) fn undecided(step: &str) -> Outcome {
    failed(format!(
        "the objects were restored from a backup in which this operation was running, and the cloud does not prove its end \
         (step {step}). Nothing more is done. Look at the server, and create the operation again if it is still needed"
    ))
}

fn failed(message: String) -> Outcome {
    Outcome { phase: OperationPhase::Failed, reason: REASON, ..Outcome::cancelled(message) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn hv_35_only_operations_from_before_the_restore_are_older() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut operation = MachineOperation::default();
        assert!(!is_older(&operation, Some(at(5))), "the server sets the time of each object");
        operation.metadata.creation_timestamp = Some(Time(at(4)));
        assert!(is_older(&operation, Some(at(5))) && !is_older(&operation, Some(at(4))));
        assert!(!is_older(&operation, None));
    }
}

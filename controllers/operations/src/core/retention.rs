//! Retention of finished operations: deletes the old ones.

use std::time::Duration;

use apiserver_types::MachineOperation;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::core::report::{elapsed, is_finished, moment};

/// Number of finished operations that are kept per Machine: enough for recent history, few enough to read and to store
/// for thousands of machines.
const COUNT: usize = 10;

/// Age up to which a finished operation is kept: over a weekend, and until the next one.
const AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Returns the finished operations of a Machine that are to be deleted, and the time until the next one
/// is.
pub(crate) fn surplus(
    machine: &str,
    all: Vec<MachineOperation>,
    now: Timestamp,
) -> (Vec<MachineOperation>, Duration) {
    let ended = |operation: &MachineOperation| {
        operation.status.as_ref().and_then(|status| status.completion_time.as_ref()).and_then(moment)
    };
    let age = |operation: &MachineOperation| ended(operation).map_or(Duration::ZERO, |at| elapsed(at, now));
    let of_machine = |operation: &MachineOperation| operation.spec.machine_name == machine;
    let mut finished: Vec<_> =
        all.into_iter().filter(|operation| of_machine(operation) && is_finished(operation)).collect();
    finished.sort_by_key(|operation| (age(operation), operation.name_any()));
    let young = finished.iter().filter(|operation| age(operation) < AGE).count();
    let gone = finished.split_off(young.min(COUNT));
    let oldest = finished.last().map(age).unwrap_or_default();
    (gone, AGE.saturating_sub(oldest))
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineOperationSpec, MachineOperationStatus, OperationPhase};

    use super::*;
    use crate::core::report::stamp;

    fn finished(name: &str, at: i64) -> MachineOperation {
        let spec = MachineOperationSpec { machine_name: "m1".to_owned(), ..MachineOperationSpec::default() };
        let mut operation = MachineOperation::new(name, spec);
        operation.status = Some(MachineOperationStatus {
            phase: Some(OperationPhase::Complete),
            completion_time: Some(stamp(Timestamp::from_second(at).unwrap())),
            ..MachineOperationStatus::default()
        });
        operation
    }

    fn names(gone: &[MachineOperation]) -> Vec<String> {
        gone.iter().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn the_ten_newest_of_the_last_week_are_kept() {
        let week = i64::try_from(AGE.as_secs()).unwrap();
        let now = Timestamp::from_second(week * 2).unwrap();
        let many: Vec<_> =
            (0..12).map(|index| finished(&format!("op-{index:02}"), week * 2 - index)).collect();
        assert_eq!(names(&surplus("m1", many.clone(), now).0), ["op-10", "op-11"]);
        assert_eq!(names(&surplus("m2", many, now).0), Vec::<String>::new());
        let (gone, again) = surplus("m1", vec![finished("old", week), finished("young", week + 60)], now);
        assert_eq!(names(&gone), ["old"]);
        assert_eq!(again, Duration::from_secs(60));
        let mut running = finished("running", 0);
        running.status.as_mut().unwrap().phase = Some(OperationPhase::Running);
        assert_eq!(names(&surplus("m1", vec![running], now).0), Vec::<String>::new());
    }
}

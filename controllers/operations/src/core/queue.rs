//! Queue of operations: one per Machine at a time.

use apiserver_types::MachineOperation;
use kube::ResourceExt;

use crate::core::report::{is_finished, is_running};

/// Returns the operation that is before `this`; `None` if it is first.
///
/// An operation that has begun is first. Otherwise the oldest one is first. Of several operations of the same second,
/// the one whose name sorts first is.
pub(crate) fn ahead<'a>(
    this: &MachineOperation,
    all: &'a [MachineOperation],
) -> Option<&'a MachineOperation> {
    let rank = |operation: &MachineOperation| {
        (!is_running(operation), operation.creation_timestamp(), operation.name_any())
    };
    let others = all.iter().filter(|other| {
        other.spec.machine_name == this.spec.machine_name && other.uid() != this.uid() && !is_finished(other)
    });
    others.filter(|other| rank(other) < rank(this)).min_by_key(|other| rank(other))
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineOperationSpec, MachineOperationStatus, OperationPhase};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn operation(name: &str, machine: &str, second: i64, phase: Option<OperationPhase>) -> MachineOperation {
        let spec =
            MachineOperationSpec { machine_name: machine.to_owned(), ..MachineOperationSpec::default() };
        let mut operation = MachineOperation::new(name, spec);
        operation.metadata.uid = Some(name.to_owned());
        operation.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(second).unwrap()));
        operation.status = Some(MachineOperationStatus { phase, ..MachineOperationStatus::default() });
        operation
    }

    #[test]
    fn a_running_operation_comes_first_and_then_the_oldest() {
        let pending = Some(OperationPhase::Pending);
        let running = Some(OperationPhase::Running);
        let this = operation("m", "m1", 10, pending);
        let table = [
            ("alone", vec![], None),
            ("itself", vec![this.clone()], None),
            ("an older one", vec![operation("z", "m1", 9, pending)], Some("z")),
            ("a younger one", vec![operation("a", "m1", 11, pending)], None),
            ("of the same second, by name", vec![operation("a", "m1", 10, None)], Some("a")),
            ("of the same second, after it by name", vec![operation("n", "m1", 10, None)], None),
            ("a younger one that has begun", vec![operation("n", "m1", 11, running)], Some("n")),
            ("another machine's", vec![operation("a", "m2", 1, running)], None),
            ("one that is over", vec![operation("a", "m1", 1, Some(OperationPhase::Failed))], None),
            (
                "two older ones",
                vec![operation("y", "m1", 9, pending), operation("z", "m1", 8, pending)],
                Some("z"),
            ),
        ];
        for (case, all, expected) in table {
            assert_eq!(ahead(&this, &all).map(ResourceExt::name_any).as_deref(), expected, "{case}");
        }
    }
}

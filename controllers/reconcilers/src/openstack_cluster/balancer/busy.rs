//! Refusals of a load balancer that Octavia changes already.

use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::ReconcileError;

use super::PENDING;

/// Turns the refusal of a load balancer that Octavia changes already into a wait: it is no failure.
pub(in super::super) fn busy(error: ReconcileError) -> ReconcileError {
    match &error {
        ReconcileError::Cloud(refused) if is_busy(refused) => {
            ReconcileError::waiting(PENDING, error.to_string())
        }
        _ => error,
    }
}

/// Returns true if Octavia refuses a change until it has finished another one. In ERROR, it waits for none.
fn is_busy(error: &CloudError) -> bool {
    let words = &error.message;
    let is_pending =
        words.contains("immutable") || words.contains("PENDING_") || words.contains("Project busy");
    error.class == ErrorClass::Conflict && is_pending && !words.contains("state ERROR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r8_8_a_load_balancer_that_is_changed_already_is_awaited() {
        let table = [
            ("Load Balancer 1 is immutable and cannot be updated.", true),
            ("Invalid state PENDING_UPDATE of loadbalancer resource 1", true),
            ("Project busy.  Unable to lock the project.  Please try again.", true),
            ("Invalid state ERROR of loadbalancer resource 1", false),
            ("Another member on this pool is already using ip 10.6.0.5 on protocol_port 6443", false),
        ];
        for (words, expected) in table {
            let error = CloudError::new(ErrorClass::Conflict, "create listener", words);
            let error = busy(error.into());
            assert_eq!(matches!(error, ReconcileError::Waiting { reason: PENDING, .. }), expected, "{words}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

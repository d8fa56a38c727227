//! Condition of the login to the cloud, of every object that has credentials.

use apiserver_types::{Condition, ConditionStatus, Time};
use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::ReconcileError;

/// Condition of a login, and its reason if it succeeded.
const AUTHENTICATED: &str = "OpenStackAuthenticationSucceeded";

/// Reason of a refused login.
const FAILED: &str = "OpenStackAuthenticationFailed";

/// Result of the login of a pass.
pub(crate) enum Login<'a> {
    /// The credentials were accepted.
    Done,
    /// They were refused with this error, and earlier ones are in use.
    Earlier(&'a CloudError),
    /// There is no login, and the pass ended with this error.
    Failed(Option<&'a ReconcileError>),
}

impl<'a> Login<'a> {
    /// Returns the result of a login that gave a cloud: `refused` is the error of the present credentials if earlier ones
    /// are in use.
    pub(crate) fn of(refused: Option<&'a CloudError>) -> Self {
        refused.map_or(Self::Done, Self::Earlier)
    }

    /// Returns the condition; `None` for a failure that says nothing about the credentials.
    pub(crate) fn condition(&self, now: &Time) -> Option<Condition> {
        let refused = |reason, message: &str| {
            Condition::new(AUTHENTICATED, ConditionStatus::False, reason, message, now.clone())
        };
        Some(match self {
            Self::Done => {
                Condition::new(AUTHENTICATED, ConditionStatus::True, AUTHENTICATED, "", now.clone())
            }
            Self::Earlier(error) => {
                let message = format!("{error}. The earlier credentials are in use until their token ends");
                refused(reason(error.class).unwrap_or(FAILED), &message)
            }
            Self::Failed(Some(ReconcileError::Cloud(error))) => {
                refused(reason(error.class)?, &error.to_string())
            }
            Self::Failed(_) => return None,
        })
    }
}

/// Returns the reason of a failed login; `None` for a failure that says nothing about the credentials.
fn reason(class: ErrorClass) -> Option<&'static str> {
    match class {
        ErrorClass::Unauthorized => Some(FAILED),
        ErrorClass::Credentials | ErrorClass::IdentityNotFound | ErrorClass::IdentityAccessDenied => {
            Some(class.reason())
        }
        _ => None,
    }
}

/// Returns true if an object has a condition, whatever its times are.
pub(crate) fn is_known(known: Option<&Condition>, condition: &Condition) -> bool {
    known.is_some_and(|known| {
        (&known.status, &known.reason, &known.message)
            == (&condition.status, &condition.reason, &condition.message)
    })
}

#[cfg(test)]
mod tests {
    use controllers_runtime::now;

    use super::*;

    #[test]
    fn r4_2_each_failure_of_a_login_has_its_reason_and_an_outage_has_none() {
        let error = |class| ReconcileError::Cloud(CloudError::new(class, "log in", "why"));
        let reason = |class| {
            let condition = Login::Failed(Some(&error(class))).condition(&now());
            condition.map(|condition| condition.reason)
        };
        let table = [
            (ErrorClass::Credentials, Some("CredentialsInvalid")),
            (ErrorClass::IdentityNotFound, Some("IdentityNotFound")),
            (ErrorClass::IdentityAccessDenied, Some("IdentityAccessDenied")),
            (ErrorClass::Unauthorized, Some("OpenStackAuthenticationFailed")),
            (ErrorClass::Unreachable, None),
            (ErrorClass::Broken, None),
        ];
        for (class, expected) in table {
            assert_eq!(reason(class).as_deref(), expected, "{class:?}");
        }
        assert!(Login::of(None).condition(&now()).unwrap().holds());
        let refused = CloudError::new(ErrorClass::Unauthorized, "log in", "wrong password");
        let earlier = Login::of(Some(&refused)).condition(&now()).unwrap();
        assert!(!earlier.holds() && earlier.message.contains("earlier credentials are in use"));
        assert!(is_known(Some(&earlier), &Login::of(Some(&refused)).condition(&now()).unwrap()));
        assert!(!is_known(None, &earlier));
    }
}

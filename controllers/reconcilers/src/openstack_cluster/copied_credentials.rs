//! Condition on credentials of which only an old copy can be read. The cluster works with the copy.

use std::time::Duration;

use apiserver_types::{Condition, ConditionStatus, OpenStackCluster, Time, remove_condition, set_condition};

/// Condition, and its reason.
const FROM_COPY: &str = "CredentialsFromCopy";

/// Length of an hour. Unit: seconds.
const HOUR: u64 = 3600;

/// Age of a copy at which the condition is set. While the host cluster answers, a copy is not older than ten minutes.
const NOTICE: Duration = Duration::from_secs(HOUR);

/// Age that is certainly none: the time of the copy is unknown, because a clock was set back.
const UNKNOWN: Duration = Duration::from_secs(20 * 365 * 24 * HOUR);

/// Writes into the status if the credentials are an old copy. The message changes once an hour.
pub(super) fn report(object: &mut OpenStackCluster, age: Duration, now: &Time) {
    let generation = object.metadata.generation;
    let message = message(&object.spec.identity_ref.name, age);
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    if age < NOTICE {
        remove_condition(conditions, FROM_COPY);
        return;
    }
    let found = Condition::new(FROM_COPY, ConditionStatus::True, FROM_COPY, &message, now.clone());
    set_condition(conditions, found.at_generation(generation));
}

fn message(identity: &str, age: Duration) -> String {
    let age = match age.as_secs() / HOUR {
        _ if age > UNKNOWN => "an unknown time".to_owned(),
        1 => "1 hour".to_owned(),
        hours => format!("{hours} hours"),
    };
    format!(
        "the host cluster has not returned the Secret of spec.identityRef {identity:?} for {age}; its copy is used. Changes of \
         the Secret have no effect until the host cluster answers: see `capstan host status`"
    )
}

#[cfg(test)]
mod tests {
    use controllers_runtime::now;

    use super::*;

    #[test]
    fn ho_21_a_copy_is_reported_from_the_age_of_an_hour_and_once_an_hour() {
        let spec = serde_json::json!({"identityRef": {"name": "s", "cloudName": "c"}});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        let mut at = |seconds: u64| {
            report(&mut object, Duration::from_secs(seconds), &now());
            object.condition(FROM_COPY).map(|it| (it.holds(), it.message.clone()))
        };
        assert_eq!(at(3599), None);
        let (holds, first) = at(3600).unwrap();
        assert!(holds && first.contains("\"s\" for 1 hour; its copy is used"), "{first}");
        assert_eq!(at(7199).unwrap().1, first, "the same hour");
        assert!(at(7200).unwrap().1.contains("for 2 hours;"));
        assert!(at(u64::MAX).unwrap().1.contains("for an unknown time;"));
        assert_eq!(at(0), None, "the host is back");
    }
}

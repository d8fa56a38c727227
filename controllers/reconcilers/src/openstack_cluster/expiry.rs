//! Condition on credentials that end soon. The cluster stays ready until they have ended.

use apiserver_types::{
    Condition, ConditionStatus, OpenStackCluster, Time, condition, remove_condition, set_condition,
};
use jiff::{SignedDuration, Timestamp};

/// Condition, and reason of its Events.
pub(super) const EXPIRING: &str = "CredentialsExpiring";

/// Time before the end at which the condition is set: enough to replace them even over a holiday.
const NOTICE: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Length of a day. Unit: seconds.
const DAY: i64 = 24 * 60 * 60;

/// Writes into the status if the credentials end soon. Returns the message if it is another one than before, which
/// happens daily.
pub(super) fn report(
    object: &mut OpenStackCluster,
    expires_at: Option<&str>,
    at: Timestamp,
    now: &Time,
) -> Option<String> {
    let identity = object.spec.identity_ref.name.clone();
    let generation = object.metadata.generation;
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    let end = expires_at.and_then(|text| text.parse::<Timestamp>().ok());
    let Some(end) = end.filter(|end| end.duration_since(at) < NOTICE) else {
        remove_condition(conditions, EXPIRING);
        return None;
    };
    let days = end.duration_since(at).as_secs().max(0) / DAY;
    let message = format!(
        "the credentials of spec.identityRef {identity:?} expire at {end}, in {days} days. Create others, and write them \
         into the Secret"
    );
    let known = condition(conditions, EXPIRING).map(|known| known.message.clone());
    let found = Condition::new(EXPIRING, ConditionStatus::True, "ExpiresSoon", &message, now.clone());
    set_condition(conditions, found.at_generation(generation));
    (known.as_ref() != Some(&message)).then_some(message)
}

#[cfg(test)]
mod tests {
    use controllers_runtime::now;

    use super::*;

    #[test]
    fn r4_8_credentials_that_end_within_two_weeks_are_reported_once_a_day() {
        let spec = serde_json::json!({"identityRef": {"name": "s", "cloudName": "c"}});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        let mut at = |expires_at: Option<&str>, time: &str| {
            let told = report(&mut object, expires_at, time.parse().unwrap(), &now());
            (told.is_some(), object.condition(EXPIRING).map(|it| it.message.clone()))
        };
        let end = Some("2026-12-31T00:00:00Z");
        assert_eq!(at(end, "2026-12-16T23:00:00Z"), (false, None), "more than 14 days");
        let (told, message) = at(end, "2026-12-17T01:00:00Z");
        assert!(told && message.unwrap().contains("\"s\" expire at 2026-12-31T00:00:00Z, in 13 days"));
        assert!(!at(end, "2026-12-17T02:00:00Z").0, "the same day");
        assert!(at(end, "2026-12-18T02:00:00Z").0, "the next day");
        assert!(at(end, "2027-01-01T00:00:00Z").1.unwrap().contains("in 0 days"));
        assert_eq!(at(Some("2027-12-31T00:00:00Z"), "2027-01-01T00:00:00Z"), (false, None), "replaced");
        assert_eq!(at(Some("never"), "2027-01-01T00:00:00Z"), (false, None));
    }
}

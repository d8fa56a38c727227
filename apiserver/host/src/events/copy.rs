//! Copy of an Event for the host, and the verdict on the host's response.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::namespace_errors::{is_missing, is_terminating};

/// Age above which an Event is not sent after a start: our own store keeps one that waits for the host for a day.
const RECENT: Duration = Duration::from_secs(24 * 3600);

/// Returns the Event without the metadata of our own store.
pub(super) fn copy(event: &Event) -> Event {
    let metadata = ObjectMeta {
        name: event.metadata.name.clone(),
        namespace: event.metadata.namespace.clone(),
        labels: event.metadata.labels.clone(),
        annotations: event.metadata.annotations.clone(),
        ..ObjectMeta::default()
    };
    Event { metadata, ..event.clone() }
}

/// Returns our store's revision of an Event; revisions grow.
pub(super) fn revision(event: &Event) -> u64 {
    event.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns true if the Event last occurred within the last day.
pub(super) fn is_recent(event: &Event, now: Timestamp) -> bool {
    let times = [
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event.metadata.creation_timestamp.as_ref().map(|time| time.0),
    ];
    let Some(last) = times.into_iter().flatten().max() else { return false };
    now.duration_since(last).unsigned_abs() < RECENT || last > now
}

/// Verdict on a failed copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Retry later: the host does not answer, or refuses the Event for now.
    Retry,
    /// Drop this Event: the host will never take it.
    Drop,
}

/// Returns the verdict on an error.
pub(super) fn verdict(error: &kube::Error) -> Verdict {
    let kube::Error::Api(status) = error else { return Verdict::Retry };
    match status.code {
        403 | 404 if is_terminating(status) || is_missing(status, "events") => Verdict::Drop,
        400 | 405 | 413 | 415 | 422 => Verdict::Drop,
        // Missing permission, conflict, too many requests, error of the host.
        _ => Verdict::Retry,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

    fn error(code: u16, details: Value) -> kube::Error {
        let mut status: Status = serde_json::from_value(json!({"message": "m", "code": code})).unwrap();
        status.details = serde_json::from_value(details).unwrap();
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn an_event_is_dropped_only_after_a_permanent_error() {
        let terminating = json!({"causes": [{"reason": "NamespaceTerminating", "message": "", "field": ""}]});
        let table = [
            ("no permission", error(403, Value::Null), Verdict::Retry),
            ("a namespace going", error(403, terminating), Verdict::Drop),
            ("no namespace", error(404, json!({"kind": "namespaces"})), Verdict::Drop),
            ("expired while we patched it", error(404, json!({"kind": "events"})), Verdict::Retry),
            ("invalid", error(422, Value::Null), Verdict::Drop),
            ("throttled", error(429, Value::Null), Verdict::Retry),
            ("broken", error(500, Value::Null), Verdict::Retry),
        ];
        for (case, error, expected) in table {
            assert_eq!(verdict(&error), expected, "{case}");
        }
    }

    #[test]
    fn the_last_timestamp_decides_whether_an_event_is_recent() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut event = Event::default();
        assert!(!is_recent(&event, now));
        event.event_time = Some(MicroTime(at("2026-11-20T11:59:59Z")));
        assert!(!is_recent(&event, now));
        event.last_timestamp = Some(Time(at("2026-11-20T12:00:01Z")));
        assert!(is_recent(&event, now));
        event.last_timestamp = Some(Time(at("2026-11-21T15:30:00Z")));
        assert!(is_recent(&event, now), "a clock that was ahead loses nothing");
    }

    #[test]
    fn a_copy_has_no_uid_revision_or_creation_time() {
        let event: Event = serde_json::from_value(json!({"message": "m", "count": 3, "involvedObject": {},
            "metadata": {"name": "e", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-11-21T12:00:00Z", "labels": {"a": "b"}}}))
        .unwrap();
        let found = serde_json::to_value(copy(&event)).unwrap();
        assert_eq!(found["metadata"], json!({"name": "e", "namespace": "n", "labels": {"a": "b"}}));
        assert_eq!((found["count"].clone(), revision(&event)), (json!(3), 7));
    }
}

//! What of an Event goes to the host, and what an answer of the host means.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Status;

/// Events older than this are not sent after a start: a host forgets its own after an hour, too.
const RECENT: Duration = Duration::from_secs(3600);

/// What the host is given: what happened, without what our store says of its own copy.
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

/// Our store's revision of an Event: they grow.
pub(super) fn revision(event: &Event) -> u64 {
    event.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Whether it last happened in the last hour.
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

/// What is to be done about an answer that is no success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The host does not answer, or may not yet: try again later.
    Again,
    /// It has no place for this one Event.
    Drop,
}

/// What an error means.
pub(super) fn judge(error: &kube::Error) -> Verdict {
    let kube::Error::Api(status) = error else { return Verdict::Again };
    match status.code {
        // Its namespace is on its way out, or is one of ours alone.
        403 if has_cause(status, "NamespaceTerminating") => Verdict::Drop,
        404 if kind(status) != "events" => Verdict::Drop,
        400 | 405 | 413 | 415 | 422 => Verdict::Drop,
        // No permission yet, a conflict, too many requests, an error of the host.
        _ => Verdict::Again,
    }
}

fn has_cause(status: &Status, reason: &str) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
}

fn kind(status: &Status) -> &str {
    status.details.as_ref().map(|details| details.kind.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
    use serde_json::{Value, json};

    use super::*;

    fn error(code: u16, details: Value) -> kube::Error {
        let mut status: Status = serde_json::from_value(json!({"message": "m", "code": code})).unwrap();
        status.details = serde_json::from_value(details).unwrap();
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn only_what_no_retry_can_mend_is_dropped() {
        let terminating = json!({"causes": [{"reason": "NamespaceTerminating", "message": "", "field": ""}]});
        let table = [
            ("no permission", error(403, Value::Null), Verdict::Again),
            ("a namespace going", error(403, terminating), Verdict::Drop),
            ("no namespace", error(404, json!({"kind": "namespaces"})), Verdict::Drop),
            ("expired while we patched it", error(404, json!({"kind": "events"})), Verdict::Again),
            ("invalid", error(422, Value::Null), Verdict::Drop),
            ("throttled", error(429, Value::Null), Verdict::Again),
            ("broken", error(500, Value::Null), Verdict::Again),
        ];
        for (case, error, expected) in table {
            assert_eq!(judge(&error), expected, "{case}");
        }
    }

    #[test]
    fn the_last_time_counts() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut event = Event::default();
        assert!(!is_recent(&event, now));
        event.event_time = Some(MicroTime(at("2026-11-21T10:00:00Z")));
        assert!(!is_recent(&event, now));
        event.last_timestamp = Some(Time(at("2026-11-21T11:30:00Z")));
        assert!(is_recent(&event, now));
        event.last_timestamp = Some(Time(at("2026-11-21T15:30:00Z")));
        assert!(is_recent(&event, now), "a clock that was ahead loses nothing");
    }

    #[test]
    fn our_stores_own_marks_stay_here() {
        let event: Event = serde_json::from_value(json!({"message": "m", "count": 3, "involvedObject": {},
            "metadata": {"name": "e", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-11-21T12:00:00Z", "labels": {"a": "b"}}}))
        .unwrap();
        let found = serde_json::to_value(copy(&event)).unwrap();
        assert_eq!(found["metadata"], json!({"name": "e", "namespace": "n", "labels": {"a": "b"}}));
        assert_eq!((found["count"].clone(), revision(&event)), (json!(3), 7));
    }
}

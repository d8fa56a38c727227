//! Event expiry: deletes old Events, which would otherwise stay for ever. An Event that a host cluster is to get stays
//! until it is copied.

use std::sync::Arc;
use std::time::Duration;

use controllers_runtime::{ControllerSpec, EventHolds, PolicyRule};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

/// Age after its last occurrence at which an Event expires: kube-apiserver's default.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// Age at which an Event expires although it is not copied: an outage of the host cluster for a night, and no more.
const LONGEST_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Interval of the search: an Event stays at most a tenth longer than its lifetime.
const PERIOD: Duration = Duration::from_mins(6);

/// Events in one page of a list.
const PAGE: u32 = 500;

/// Specification of this controller.
pub(crate) const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "event-expiry",
    rules: &[PolicyRule { groups: &[""], resources: &["events"], verbs: &["list", "delete"] }],
    run: |context, shutdown| Box::pin(run(context.client, context.event_holds, shutdown)),
};

/// Deletes old Events until `shutdown`.
async fn run(client: Client, holds: Arc<dyn EventHolds>, shutdown: CancellationToken) {
    loop {
        if let Err(error) = expire(&client, holds.as_ref(), Timestamp::now()).await {
            tracing::warn!(%error, "cannot delete expired events; retrying");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Deletes the old Events.
async fn expire(client: &Client, holds: &dyn EventHolds, now: Timestamp) -> Result<(), kube::Error> {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = Api::<Event>::all(client.clone()).list(&params).await?;
        for event in page.items.iter().filter(|event| has_expired(event, holds, now)) {
            let api: Api<Event> = Api::namespaced(client.clone(), &event.namespace().unwrap_or_default());
            // One that happens again in between is not old any more.
            let preconditions =
                Preconditions { uid: event.uid(), resource_version: event.resource_version() };
            let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&event.name_any(), &delete).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                result => {
                    result?;
                }
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Returns true if an Event is too old, or is old and not held.
fn has_expired(event: &Event, holds: &dyn EventHolds, now: Timestamp) -> bool {
    let age = age(event, now).unwrap_or_default();
    age > LONGEST_LIFETIME || (age > LIFETIME && !holds.holds(event))
}

/// Returns the time since the last occurrence of an Event. An Event without times is as old as its object.
fn age(event: &Event, now: Timestamp) -> Option<SignedDuration> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let last =
        last.or_else(|| series.map(|time| time.0)).or_else(|| event.event_time.as_ref().map(|time| time.0));
    let last = last.or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0));
    last.map(|last| now.duration_since(last))
}

#[cfg(test)]
mod tests {
    use controllers_runtime::NoEventHolds;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    struct Held;

    impl EventHolds for Held {
        fn holds(&self, _: &Event) -> bool {
            true
        }
    }

    fn is_old(event: &Event, now: Timestamp) -> bool {
        has_expired(event, &NoEventHolds, now)
    }

    #[test]
    fn ho_33_an_event_that_is_not_copied_stays_for_a_day() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(100);
        let ago = |minutes| Event {
            last_timestamp: Some(Time(now - SignedDuration::from_mins(minutes))),
            ..Event::default()
        };
        for (minutes, is_held, expected) in [
            (59, false, false),
            (61, false, true),
            (61, true, false),
            (1439, true, false),
            (1441, true, true),
        ] {
            let holds: &dyn EventHolds = if is_held { &Held } else { &NoEventHolds };
            assert_eq!(has_expired(&ago(minutes), holds, now), expected, "{minutes} {is_held}");
        }
    }

    #[test]
    fn the_age_of_an_event_follows_its_last_timestamp() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(10);
        let ago = |minutes| Some(Time(now - SignedDuration::from_mins(minutes)));
        let mut event = Event { last_timestamp: ago(61), ..Event::default() };
        assert!(is_old(&event, now));
        event.last_timestamp = ago(59);
        event.first_timestamp = ago(600);
        assert!(!is_old(&event, now));
        event.last_timestamp = None;
        event.metadata.creation_timestamp = ago(61);
        assert!(is_old(&event, now));
    }
}

//! Event expiry: deletes old Events, which would otherwise stay for ever.

use std::time::Duration;

use controllers_runtime::{ControllerSpec, PolicyRule};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

/// Age after its last occurrence at which an Event expires: kube-apiserver's default.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// Interval of the search: an Event stays at most a tenth longer than its lifetime.
const PERIOD: Duration = Duration::from_mins(6);

/// Events in one page of a list.
const PAGE: u32 = 500;

/// Specification of this controller.
pub(crate) const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "event-expiry",
    rules: &[PolicyRule { groups: &[""], resources: &["events"], verbs: &["list", "delete"] }],
    standalone_only: false,
    run: |context, shutdown| Box::pin(run(context.client, shutdown)),
};

/// Deletes old Events until `shutdown`.
async fn run(client: Client, shutdown: CancellationToken) {
    loop {
        if let Err(error) = expire(&client, Timestamp::now()).await {
            tracing::warn!(%error, "cannot delete expired events; retrying");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Deletes the old Events.
async fn expire(client: &Client, now: Timestamp) -> Result<(), kube::Error> {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = Api::<Event>::all(client.clone()).list(&params).await?;
        for event in page.items.iter().filter(|event| is_old(event, now)) {
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

/// Returns true if the last occurrence of an Event is too long ago. An Event without times is as old as
/// its object.
fn is_old(event: &Event, now: Timestamp) -> bool {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let last =
        last.or_else(|| series.map(|time| time.0)).or_else(|| event.event_time.as_ref().map(|time| time.0));
    let last = last.or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0));
    last.is_some_and(|last| now.duration_since(last) > LIFETIME)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

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

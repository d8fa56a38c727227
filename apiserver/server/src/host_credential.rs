//! Event about the end of Capstan's credential in the host cluster. The leader records it.

use std::time::Duration;

use apiserver_host::CredentialNotices;
use controllers_runtime::{Recorder, Severity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

/// Interval at which the end is read. The notices are a week and a day before it.
const INTERVAL: Duration = Duration::from_secs(60);

/// Reason of the Event.
const REASON: &str = "HostCredentialEnds";

/// Returns the object of Events about the host. An Event is in the namespace of its object, and HostStatus has none.
pub(crate) fn host_status() -> ObjectReference {
    ObjectReference {
        api_version: Some("capstan.dev/v1alpha1".to_owned()),
        kind: Some("HostStatus".to_owned()),
        name: Some("host".to_owned()),
        namespace: Some("capstan-system".to_owned()),
        ..ObjectReference::default()
    }
}

/// Records an Event a week and a day before the end of a credential. `end` returns the present one. Never returns.
pub(crate) async fn follow(end: impl Fn() -> Option<Timestamp>, events: &Recorder) {
    let mut notices = CredentialNotices::default();
    loop {
        if let Some(end) = notices.due(end(), Timestamp::now()) {
            let message = format!(
                "The client certificate of Capstan in the host cluster ends at {end}. Renew it in host.kubeconfig: \
                 Capstan reads the file again without a restart"
            );
            events.record_about(&host_status(), Severity::Warning, REASON, &message).await;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    /// Returns a client that accepts all, and the bodies that it was sent.
    fn client() -> (kube::Client, Arc<Mutex<Vec<Value>>>) {
        let sent: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&sent);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let kept = Arc::clone(&kept);
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                kept.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                let response =
                    http::Response::builder().status(201).header("content-type", "application/json");
                Ok::<_, std::convert::Infallible>(response.body(Body::from(body)).unwrap())
            }
        });
        (kube::Client::new(service, "default"), sent)
    }

    #[tokio::test(start_paused = true)]
    async fn c2_the_end_of_the_credential_is_an_event_once_in_the_last_week() {
        let (client, sent) = client();
        let recorder = Recorder::new(client, "host-events");
        let end = Timestamp::now() + Duration::from_secs(3 * 86_400);
        let following = follow(|| Some(end), &recorder);
        let waiting = tokio::time::sleep(INTERVAL * 5);
        tokio::select! { () = following => {}, () = waiting => {} }
        let sent = sent.lock().unwrap();
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert_eq!(sent[0]["reason"], REASON);
        assert_eq!(sent[0]["involvedObject"]["name"], "host");
        assert_eq!(sent[0]["metadata"]["namespace"], "capstan-system");
        let message = sent[0]["message"].as_str().unwrap();
        assert!(message.contains(&end.to_string()), "{message}");
    }
}

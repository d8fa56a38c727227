//! Events of the audit log: those of each request, normalized, in place of its response.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Request;
use http::header::HOST;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::case::Area;
use crate::client::{Client, ReceivedResponse};
use crate::normalizer::Normalizer;
use crate::runner::{PlayedCase, ServerUnderTest};
use crate::transcript::{Exchange, Transcript, Transcripts};

/// Header with the id of a request, which its events have, too.
const AUDIT_ID: &str = "audit-id";

/// Request after all others. Once its last event is in the log, theirs are, too. `policy.yaml` has a rule for it.
const LAST: &str = "/api/v1/namespaces/audit-end";

/// Longest wait for that event.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Wait after that event. A server writes the last event of a request after its response, and does not wait for others.
const SETTLED: Duration = Duration::from_millis(500);

/// Fields that differ for each request.
const CHANGING: [&str; 3] = ["auditID", "requestReceivedTimestamp", "stageTimestamp"];

/// Extra of a user with a hash of the credential.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Start of the annotations and extras that Capstan adds to upstream's: the authorizer that decided, and the realm of the
/// user.
const OWN: &str = "capstan.dev/";

/// Start of the annotations that upstream adds to the events of slow requests.
const LATENCY: &str = "apiserver.latency.k8s.io/";

/// Events by the id of their request, in the order of the log.
type Events = BTreeMap<String, Vec<Value>>;

impl ServerUnderTest {
    /// Runs every case whose `area/name` contains `filter`, and returns the events of each request in place of the
    /// body of its response. `log` is the audit log of the server.
    ///
    /// # Errors
    /// Returns an error if the server does not respond, a case's preparation fails, or the log does not get the events.
    pub async fn run_audited(&self, areas: &[Area], filter: &str, log: &Path) -> anyhow::Result<Transcripts> {
        let played = self.play(areas, filter).await?;
        let events = settled(&self.client, log).await?;
        Ok(played.iter().map(|played| (played.id.clone(), self.audited(played, &events))).collect())
    }

    fn audited(&self, played: &PlayedCase<'_>, events: &Events) -> Transcript {
        let case = played.case;
        let mut normalizer = Normalizer::new(&self.namespace(case), true, self.through_host);
        let steps = case.steps.iter().zip(&played.responses);
        let exchange = |(step, response): (&crate::case::RequestStep, &ReceivedResponse)| Exchange {
            request: step.request.clone(),
            status: response.status,
            headers: BTreeMap::new(),
            body: id_of(response)
                .and_then(|id| events.get(&id))
                .map(|events| by_stage(events, &mut normalizer))
                .unwrap_or_default(),
        };
        steps.map(exchange).collect()
    }
}

/// Returns the events of one request by their stage. A difference then names the stage.
fn by_stage(events: &[Value], normalizer: &mut Normalizer) -> Value {
    let mut stages = json!({});
    for event in events {
        let mut event = event.clone();
        if let Some(fields) = event.as_object_mut() {
            fields.retain(|name, _| !CHANGING.contains(&name.as_str()));
        }
        for additions in ["/annotations", "/user/extra", "/impersonatedUser/extra"] {
            let Some(fields) = event.pointer_mut(additions).and_then(Value::as_object_mut) else { continue };
            fields.retain(|name, _| !name.starts_with(OWN) && !name.starts_with(LATENCY));
            if let Some(credential) = fields.get_mut(CREDENTIAL) {
                *credential = json!("<present>");
            }
        }
        for user in ["user", "impersonatedUser"] {
            if event.pointer(&format!("/{user}/extra")) == Some(&json!({}))
                && let Some(user) = event[user].as_object_mut()
            {
                user.remove("extra");
            }
        }
        if event.get("annotations") == Some(&json!({}))
            && let Some(event) = event.as_object_mut()
        {
            event.remove("annotations");
        }
        let stage = event["stage"].as_str().unwrap_or("without a stage").to_owned();
        stages[stage] = normalizer.document(event);
    }
    stages
}

fn id_of(response: &ReceivedResponse) -> Option<String> {
    response.headers.get(AUDIT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned)
}

/// Returns all events of the log, once it has those of all requests.
async fn settled(client: &Client, log: &Path) -> anyhow::Result<Events> {
    let request = Request::get(LAST).header(HOST, "127.0.0.1").body(Full::new(Bytes::new()))?;
    let response = client.send(request, None).await?;
    let last = id_of(&response).context("the response has no audit id")?;
    let end = Instant::now() + TIMEOUT;
    let is_complete = |event: &Value| event["stage"] == "ResponseComplete";
    while !read(log)?.get(&last).is_some_and(|events| events.iter().any(is_complete)) {
        if Instant::now() > end {
            bail!("{} has no event of {LAST} after {} s", log.display(), TIMEOUT.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(SETTLED).await;
    read(log)
}

fn read(log: &Path) -> anyhow::Result<Events> {
    let text = std::fs::read_to_string(log).with_context(|| format!("{}", log.display()))?;
    let mut events = Events::new();
    // The last line may not be complete yet.
    for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let id = event["auditID"].as_str().unwrap_or_default().to_owned();
        events.entry(id).or_default().push(event);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_by_stage_without_what_differs_for_each_request() {
        let event = |stage: &str| {
            json!({"auditID": "1", "stage": stage, "stageTimestamp": "t", "requestReceivedTimestamp": "t",
                "level": "Metadata", "objectRef": {"namespace": "case"}, "annotations": {"capstan.dev/realm": "own"},
                "user": {"username": "a", "extra": {CREDENTIAL: ["X509SHA256=ab"], "capstan.dev/realm": ["Own"]}}})
        };
        let found = by_stage(
            &[event("RequestReceived"), event("ResponseComplete")],
            &mut Normalizer::new("case", true, false),
        );
        assert_eq!(found.as_object().map(serde_json::Map::len), Some(2));
        assert_eq!(
            found["ResponseComplete"],
            json!({"stage": "ResponseComplete", "level": "Metadata", "objectRef": {"namespace": "{ns}"},
                "user": {"username": "a", "extra": {CREDENTIAL: "<present>"}}})
        );
    }
}

//! Events about a host cluster that denies what its roles allow.

use std::sync::Arc;

use apiserver_access::User;
use apiserver_host::Disagreement;
use apiserver_http::{ApiServer, InProcess};
use aws_lc_rs::digest::{SHA256, digest};
use controllers_runtime::PolicyRule;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// Identity that records the Events.
pub(crate) const IDENTITY: &str = "host-mirror";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[PolicyRule::EVENTS];

/// Namespace of the Events. They are about a user, who has none.
const NAMESPACE: &str = "default";

/// Number of bytes of a hash that name an Event.
const NAME_LENGTH: usize = 8;

/// Records an Event for each disagreement that this process confirms, until `shutdown`.
pub(super) async fn follow(
    mut confirmed: Receiver<Disagreement>,
    server: Arc<ApiServer>,
    shutdown: CancellationToken,
) {
    let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), NAMESPACE);
    let api: Api<Event> = Api::namespaced(client, NAMESPACE);
    while let Some(received) = shutdown.run_until_cancelled(confirmed.recv()).await {
        match received {
            Ok(found) => announce(&api, &found).await,
            // The log has all of them.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return shutdown.cancelled().await,
        }
    }
}

/// Records the Event. Its name follows from the user and the class, so other requests of them record no second one.
async fn announce(api: &Api<Event>, found: &Disagreement) {
    match api.create(&PostParams::default(), &event(found, Timestamp::now())).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => tracing::warn!(%error, "the Event about a denial of the host cluster is not recorded"),
    }
}

fn event(found: &Disagreement, now: Timestamp) -> Event {
    let Disagreement { user, class, question, .. } = found;
    let hash = digest(&SHA256, format!("{class} {user}").as_bytes());
    let id: String = hash.as_ref().iter().take(NAME_LENGTH).map(|byte| format!("{byte:02x}")).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("host-mirror.{id}")),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("rbac.authorization.k8s.io/v1".to_owned()),
            kind: Some("User".to_owned()),
            name: Some(user.clone()),
            ..ObjectReference::default()
        },
        reason: Some("MirrorWiderThanHost".to_owned()),
        message: Some(format!(
            "The host cluster denies what its roles allow ({question}), so it has another authorizer. The copy of its \
             roles does not decide about this user and the class {class} for 24 hours: see host.mirror in \
             docs/configuration.md"
        )),
        type_: Some("Warning".to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some(IDENTITY.to_owned()), host: None }),
        reporting_component: Some(IDENTITY.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_name_for_a_user_and_a_class() {
        let name = |user: &str, class: &str, question: &str| {
            let [user, class, question] = [user, class, question].map(str::to_owned);
            event(&Disagreement { user, class, question, at: 0 }, Timestamp::UNIX_EPOCH).metadata.name
        };
        let first = name("system:serviceaccount:a:b", "read", "get machines");
        assert_eq!(first, name("system:serviceaccount:a:b", "read", "list machines"));
        assert_ne!(first, name("system:serviceaccount:a:b", "write", "get machines"));
        assert_ne!(first, name("alice", "read", "get machines"));
    }
}

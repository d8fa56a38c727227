//! Writers of what the host cluster is owed: Events, Secrets of clusters, provisional namespaces, CA bundles, and the
//! metadata in CRD objects. They run while this replica is the leader.

use std::sync::Arc;

use apiserver_host::{
    EventRecord, HostConnection, HostEvents, OwnObjects, ProvisionalNamespaces, Refusal, SecretWriteBack,
    WriteBackHost, WriteBackReport, WriteLimit,
};
use apiserver_types::{
    Cluster, Condition, ConditionStatus, Time, condition, remove_condition, set_condition,
};
use async_trait::async_trait;
use controllers_infrastructure::CallPermit;
use controllers_runtime::{EventHolds, PolicyRule, Recorder, Severity, now};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::host_copies::{Originals, StoredOutbox};
use crate::host_credential;
use crate::host_own_objects::KeptInHost;

/// Identity that copies Events to a host cluster, and its permissions.
pub(crate) const EVENTS: (&str, &[PolicyRule]) =
    ("host-events", &[PolicyRule { groups: &[""], resources: &["events"], verbs: PolicyRule::READ }]);

/// Identity that copies Secrets of clusters to a host cluster, and its permissions.
pub(crate) const SECRETS: (&str, &[PolicyRule]) = (
    "host-secrets",
    &[
        PolicyRule { groups: &[""], resources: &["secrets"], verbs: PolicyRule::READ },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters"], verbs: &["get"] },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters/status"], verbs: &["update"] },
    ],
);

/// Identity that ends Capstan's own Namespaces when the host cluster has them, and its permissions.
const NAMESPACES: (&str, &[PolicyRule]) = (
    "host-namespaces",
    &[
        PolicyRule { groups: &[""], resources: &["namespaces"], verbs: &["get", "list", "watch", "delete"] },
        PolicyRule {
            groups: &[""],
            resources: &["namespaces/finalize", "namespaces/status"],
            verbs: &["update"],
        },
    ],
);

/// Identities of the writers, in the order of their clients.
pub(crate) const IDENTITIES: [(&str, &[PolicyRule]); 3] = [EVENTS, SECRETS, NAMESPACES];

/// Conditions of a Cluster whose Secrets are not copied. Each is also the reason of its Event.
const CONDITIONS: [&str; 2] = ["WriteBackRefused", "WriteBackForbidden"];

/// Attempts to write the conditions. The controllers of the Cluster write its status, too.
const ATTEMPTS: usize = 5;

/// Writers of one term.
pub(crate) struct HostOutbox {
    events: Arc<HostEvents>,
    secrets: SecretWriteBack,
    namespaces: ProvisionalNamespaces,
    /// Writer of Capstan's own objects in the host, with those that it keeps.
    own_objects: Option<(OwnObjects, KeptInHost)>,
    connection: HostConnection,
    /// Recorder of the Events about the host itself.
    notices: Recorder,
}

impl HostOutbox {
    /// Creates the writers. Each has a client of its [identity](IDENTITIES); `permit` is the term's. `kept`: Capstan's own
    /// objects in the host.
    pub(crate) fn new(
        [events, secrets, namespaces]: [Client; 3],
        host: &Host,
        permit: Arc<dyn CallPermit>,
        kept: Option<KeptInHost>,
    ) -> Self {
        let records = StoredOutbox::new(host.copies());
        let limit = WriteLimit::with_permit(move || {
            let permit = Arc::clone(&permit);
            async move { permit.granted().await }.boxed()
        });
        let Originals { health, pin, .. } = host.originals();
        let connection = host.connection();
        let client = || connection.client();
        let notices = Recorder::new(events.clone(), EVENTS.0);
        let record = KeptEvents { records: records.clone(), losses: notices.clone() };
        let events = HostEvents::new(events, client()).with_health(health.clone()).with_limit(limit.clone());
        let report =
            ClusterConditions { own: secrets.clone(), events: Recorder::new(secrets.clone(), SECRETS.0) };
        let namespaces = ProvisionalNamespaces::new(namespaces, client(), health.clone(), limit.clone());
        let own_objects = kept.map(|kept| (OwnObjects::new(client(), limit.clone()), kept));
        let target = WriteBackHost { health, pin, limit };
        Self {
            events: Arc::new(events.with_record(Arc::new(record))),
            secrets: SecretWriteBack::new(secrets, (client(), target), Arc::new(records), Arc::new(report)),
            namespaces,
            own_objects,
            connection,
            notices,
        }
    }

    /// Returns the holds on the Events that wait for the host.
    pub(crate) fn event_holds(&self) -> Arc<dyn EventHolds> {
        Arc::new(WaitingEvents(Arc::clone(&self.events)))
    }

    /// Writes until the term ends.
    pub(crate) async fn run(self, end: CancellationToken) {
        let Self { events, secrets, namespaces, own_objects, connection, notices } = self;
        let health = connection.health();
        let credential = host_credential::follow(|| connection.credential_end(), &notices);
        let credential = end.run_until_cancelled(credential);
        let keeping = end.run_until_cancelled(async {
            if let Some((objects, kept)) = own_objects {
                kept.follow(&objects, &health, &notices).await;
            }
        });
        let (events, secrets) = (events.run(end.clone()), secrets.run(end.clone()));
        tokio::join!(events, secrets, namespaces.run(end.clone()), credential, keeping);
    }
}

/// Events that wait for the host.
struct WaitingEvents(Arc<HostEvents>);

impl EventHolds for WaitingEvents {
    fn holds(&self, event: &Event) -> bool {
        self.0.holds(event)
    }
}

/// Record of the copied Events in the store, and the Event about lost ones.
struct KeptEvents {
    records: StoredOutbox,
    losses: Recorder,
}

#[async_trait]
impl EventRecord for KeptEvents {
    async fn read(&self) -> Option<u64> {
        self.records.copied_events().await
    }

    async fn write(&self, copied: u64) -> bool {
        self.records.keep_copied_events(copied).await
    }

    async fn report_loss(&self) {
        let about = host_credential::host_status();
        let message = "The queue of Events for the host cluster is full: the oldest Events of the largest namespaces \
                       are not copied. The metric capstan_host_events_dropped_total counts them";
        self.losses.record_about(&about, Severity::Warning, "HostEventsDropped", message).await;
    }
}

/// Conditions and Events of Clusters whose Secrets are not copied.
struct ClusterConditions {
    own: Client,
    events: Recorder,
}

#[async_trait]
impl WriteBackReport for ClusterConditions {
    async fn report(&self, cluster: &DynamicObject, refusals: &[Refusal], is_complete: bool) {
        let Ok(mut cluster) = cluster.clone().try_parse::<Cluster>() else { return };
        let api: Api<Cluster> = Api::namespaced(self.own.clone(), &cluster.namespace().unwrap_or_default());
        let (name, uid) = (cluster.name_any(), cluster.uid());
        for _ in 0..ATTEMPTS {
            let Some((changed, reported)) = shown(&cluster, refusals, is_complete, &now()) else { return };
            match api.replace_status(&name, &PostParams::default(), &changed).await {
                Ok(_) => {
                    for Refusal { reason, message } in reported {
                        self.events.record(&changed, Severity::Warning, reason, &message).await;
                    }
                    return;
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => {
                    tracing::debug!(%error, cluster = name, "the conditions of a cluster cannot be written");
                    return;
                }
            }
            match api.get_opt(&name).await {
                Ok(Some(newest)) if newest.uid() == uid => cluster = newest,
                _ => return,
            }
        }
    }
}

/// Returns the Cluster with the conditions of these refusals, and those that are new on it; `None` if it has them already.
/// A condition ends only if the refusals are complete.
fn shown(
    cluster: &Cluster,
    refusals: &[Refusal],
    is_complete: bool,
    now: &Time,
) -> Option<(Cluster, Vec<Refusal>)> {
    let before = cluster.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let (mut after, mut reported) = (before.clone(), Vec::new());
    for reason in CONDITIONS {
        let messages: Vec<&str> =
            refusals.iter().filter(|it| it.reason == reason).map(|it| it.message.as_str()).collect();
        let known = condition(&before, reason);
        if messages.is_empty() {
            if is_complete {
                remove_condition(&mut after, reason);
            }
        } else if is_complete || known.is_none() {
            let message = messages.join(". ");
            let shown = Condition::new(reason, ConditionStatus::True, reason, &message, now.clone());
            if known.is_none_or(|known| known.message != shown.message) {
                reported.push(Refusal { reason, message });
            }
            set_condition(&mut after, shown.at_generation(cluster.metadata.generation));
        }
    }
    if before == after {
        return None;
    }
    let mut changed = cluster.clone();
    changed.status.get_or_insert_default().conditions = Some(after);
    Some((changed, reported))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: &'static str, message: &str) -> Refusal {
        Refusal { reason, message: message.to_owned() }
    }

    fn conditions(cluster: &Cluster) -> Vec<(String, String)> {
        let all = cluster.status.iter().flat_map(|status| status.conditions.iter().flatten());
        all.map(|it| (it.kind.clone(), it.message.clone())).collect()
    }

    #[test]
    fn ho_32_a_cluster_shows_its_refusals_once_until_they_have_ended() {
        let now = now();
        let all = [
            refusal("WriteBackRefused", "a"),
            refusal("WriteBackForbidden", "b"),
            refusal("WriteBackRefused", "c"),
        ];
        let (first, reported) = shown(&Cluster::default(), &all[..1], false, &now).unwrap();
        assert_eq!(conditions(&first), [("WriteBackRefused".to_owned(), "a".to_owned())]);
        assert_eq!(reported, all[..1]);
        assert!(shown(&first, &all[..1], true, &now).is_none(), "it is known");
        assert!(shown(&first, &[], false, &now).is_none(), "the next leader has not compared all");
        assert!(shown(&Cluster::default(), &[], true, &now).is_none());
        let (second, reported) = shown(&first, &all, true, &now).unwrap();
        let expected = [("WriteBackRefused", "a. c"), ("WriteBackForbidden", "b")];
        assert_eq!(conditions(&second), expected.map(|(kind, text)| (kind.to_owned(), text.to_owned())));
        assert_eq!(reported.len(), 2);
        let (third, reported) = shown(&second, &all[1..2], true, &now).unwrap();
        assert_eq!((conditions(&third).len(), reported.len()), (1, 0), "an end is no Event");
        let (fourth, _) = shown(&third, &[], true, &now).unwrap();
        assert!(conditions(&fourth).is_empty());
    }
}

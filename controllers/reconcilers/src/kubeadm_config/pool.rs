//! MachinePools that own a KubeadmConfig. All servers of a pool join with the same data, also those that the cloud creates
//! later. So the token in it is replaced before it expires, and the data is rendered again.

use apiserver_types::{KubeadmConfig, Machine, MachinePool};
use controllers_bootstrap::discovery;
use controllers_bootstrap::token::Token;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::json;

use super::act::Actor;
use super::attested;
use super::data_secret;
use super::observe::Observed;
use super::stop::Failure;
use super::tokens;

/// Returns a Machine with the name of a MachinePool and the spec of its template. It is never one of the control plane.
pub(super) fn machine_of(pool: &MachinePool) -> Machine {
    let mut machine = Machine::new(&pool.name_any(), pool.spec.template.spec.clone());
    machine.metadata = ObjectMeta {
        name: pool.metadata.name.clone(),
        namespace: pool.metadata.namespace.clone(),
        uid: pool.metadata.uid.clone(),
        deletion_timestamp: pool.metadata.deletion_timestamp.clone(),
        ..ObjectMeta::default()
    };
    machine.spec.cluster_name.clone_from(&pool.spec.cluster_name);
    // The template may name a Secret of the user. It says nothing about the data that was rendered here.
    machine.spec.bootstrap.data_secret_name = None;
    machine
}

/// Returns true if each server of a pool has joined.
pub(super) fn is_complete(pool: &MachinePool) -> bool {
    let joined = pool.status.as_ref().and_then(|status| status.node_refs.as_ref()).map_or(0, Vec::len);
    usize::try_from(pool.spec.replicas.unwrap_or(1)) == Ok(joined)
}

/// Returns the message that the data of a pool is there.
pub(super) fn available(pool: &MachinePool, secret: &str) -> String {
    format!(
        "bootstrap data of MachinePool {} is in Secret {secret}. Capstan creates no servers of a MachinePool; another \
         controller has to. Otherwise use a MachineDeployment",
        pool.name_any()
    )
}

impl Actor<'_> {
    /// Looks after the token of a MachinePool, and after the data with it. Returns true if that has to be repeated.
    pub(super) async fn care_for_pool(
        &self,
        pool: &MachinePool,
        config: &mut KubeadmConfig,
        observed: &Observed,
    ) -> Result<bool, Failure> {
        if tokens::is_over(self.machine) {
            return self.care_for_token(config).await;
        }
        let token = config.spec.join_configuration.as_ref().and_then(discovery::token);
        let Some(token) = token.and_then(|token| Token::parse(token).ok()) else { return Ok(false) };
        let client = match self.context.workloads.client(&self.key()) {
            Ok(client) => client,
            Err(error) => {
                tracing::debug!(%error, config = config.name_any(), "the bootstrap token waits");
                return Ok(true);
            }
        };
        if tokens::care_for_pool(&client, &token, is_complete(pool), &self.terms()).await? {
            let token = Token::generate().map_err(Failure::data)?.text();
            let discovery = json!({"bootstrapToken": {"token": token}});
            self.change(config, &json!({"joinConfiguration": {"discovery": discovery}})).await?;
        } else if observed.unreadable.is_some() || has(observed.secret.as_ref(), &token) {
            return Ok(true);
        }
        self.join(config).await.map(|()| true)
    }

    /// Refuses a MachinePool in a Cluster with attested joins: one token is for many Nodes, whose names are not known.
    pub(super) fn refuse_attested_pool(&self) -> Result<(), Failure> {
        match self.pool.filter(|_| attested::group(self.cluster).is_some()) {
            None => Ok(()),
            Some(pool) => Err(Failure::data(format!(
                "annotation {} of the Cluster: the servers of MachinePool {} join with one token, so that Capstan cannot \
                 tell whose it is. Use a MachineDeployment, or remove the annotation",
                attested::OPT_IN,
                pool.name_any()
            ))),
        }
    }
}

/// Reports whether the data of a Secret has a token. A pass may have ended after it stored the token.
fn has(secret: Option<&Secret>, token: &Token) -> bool {
    let document = secret.and_then(data_secret::document).unwrap_or_default();
    let text = token.text();
    document.windows(text.len()).any(|part| part == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(replicas: Option<i32>, joined: usize) -> MachinePool {
        let nodes = vec![json!({"kind": "Node", "name": "n"}); joined];
        serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "status": {"nodeRefs": nodes},
            "spec": {"clusterName": "c", "replicas": replicas, "template": {
                "metadata": {"labels": {"cluster.x-k8s.io/control-plane": ""}},
                "spec": {"clusterName": "c", "version": "v1.33.0", "bootstrap": {"dataSecretName": "old"},
                    "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "i"}}}}}))
        .unwrap()
    }

    #[test]
    fn a_pool_is_complete_with_as_many_nodes_as_replicas() {
        for (replicas, joined, expected) in
            [(None, 1, true), (None, 0, false), (Some(2), 1, false), (Some(0), 0, true), (Some(1), 2, false)]
        {
            assert_eq!(is_complete(&pool(replicas, joined)), expected, "{replicas:?} {joined}");
        }
    }

    #[test]
    fn the_machine_of_a_pool_is_a_worker_without_a_secret() {
        let machine = machine_of(&pool(None, 0));
        assert_eq!((machine.name_any().as_str(), machine.uid().as_deref()), ("p", Some("u")));
        assert_eq!(machine.spec.version.as_deref(), Some("v1.33.0"));
        assert!(machine.spec.bootstrap.data_secret_name.is_none() && machine.labels().is_empty());
    }
}

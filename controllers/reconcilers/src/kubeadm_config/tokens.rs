//! Secrets of bootstrap tokens in the workload cluster.

use std::time::Duration;

use apiserver_types::Machine;
use controllers_bootstrap::token::{self, Care, PoolCare, Stored, Token};
use controllers_workload::{describe, found};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::stop::Failure;

/// Terms on which a token is valid.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// Kind of the object whose servers join: Machine or MachinePool.
    pub kind: &'static str,
    /// Group of the joining node.
    pub group: String,
    /// Time that the token has from each extension on.
    pub lifetime: Duration,
}

impl Terms {
    /// Returns the interval in which the token of a Machine that has not joined is looked at. Upstream's share.
    pub(super) fn interval(&self) -> Duration {
        self.lifetime / 3
    }
}

/// Annotation of a Machine whose node joins again with its old user data, because an operation takes its disk.
const REJOIN: &str = "capstan.dev/rejoin";

/// Returns true if a Machine needs no token any more: it has joined, or is being deleted.
pub(super) fn is_over(machine: &Machine) -> bool {
    has_joined(machine) || machine.metadata.deletion_timestamp.is_some()
}

/// Returns true if a Machine has joined, and does not join again.
pub(super) fn has_joined(machine: &Machine) -> bool {
    let joined = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    joined && !rejoins(machine)
}

/// Returns true if the node of a Machine joins again.
pub(super) fn rejoins(machine: &Machine) -> bool {
    machine.annotations().contains_key(REJOIN)
}

/// Makes the Secret of a token what the Machine needs now. The id and the secret of a token never change, because the
/// Machine has them in its user data.
pub(super) async fn care(
    client: &Client,
    token: &Token,
    machine: &Machine,
    terms: &Terms,
) -> Result<(), Failure> {
    let api: Api<Secret> = Api::namespaced(client.clone(), token::NAMESPACE);
    let name = token.secret_name();
    let known = read(&api, &name).await?;
    if known.as_ref().is_some_and(|known| !token.is_in(known)) {
        let message =
            format!("Secret {name} of the workload cluster belongs to another token. Delete it there");
        return if is_over(machine) { Ok(()) } else { Err(Failure::data(message)) };
    }
    match token::care(is_over(machine), stored(known.as_ref()), terms.lifetime, Timestamp::now()) {
        Care::Nothing => Ok(()),
        Care::Extend(until) => extend(&api, &name, until).await,
        Care::Recreate(until) => {
            let (namespace, machine_name) = (machine.namespace().unwrap_or_default(), machine.name_any());
            let uid = machine.uid().unwrap_or_default();
            let holder = format!("{namespace}/{machine_name} (uid {uid})");
            let secret = token.secret((terms.kind, &holder), &terms.group, until);
            api.create(&PostParams::default(), &secret).await.map(drop).map_err(|error| failed(&error))
        }
        Care::Delete if !is_ours(known.as_ref(), terms.kind, machine) => Ok(()),
        Care::Delete => {
            let uid = known.and_then(|known| known.uid());
            let preconditions = Some(Preconditions { uid, resource_version: None });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            let deleted = found(api.delete(&name, &params).await).map(drop);
            deleted.map_err(|error| Failure::data(format!("the bootstrap token {name} stays: {error}")))
        }
    }
}

/// Extends the token of a MachinePool, if it needs that. Returns true if another token has to replace it.
pub(super) async fn care_for_pool(
    client: &Client,
    token: &Token,
    is_complete: bool,
    terms: &Terms,
) -> Result<bool, Failure> {
    let api: Api<Secret> = Api::namespaced(client.clone(), token::NAMESPACE);
    let name = token.secret_name();
    // No server can join with a Secret of another token.
    let known = read(&api, &name).await?.filter(|known| token.is_in(known));
    match token::care_for_pool(is_complete, stored(known.as_ref()), terms.lifetime, Timestamp::now()) {
        PoolCare::Nothing => Ok(false),
        PoolCare::Extend(until) => extend(&api, &name, until).await.map(|()| false),
        PoolCare::Replace => Ok(true),
    }
}

async fn read(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, Failure> {
    api.get_opt(name).await.map_err(|error| failed(&error))
}

fn stored(secret: Option<&Secret>) -> Stored {
    secret.map_or(Stored::Missing, |known| Stored::Until(token::expiration(known)))
}

async fn extend(api: &Api<Secret>, name: &str, until: Timestamp) -> Result<(), Failure> {
    let change = json!({"data": token::with_expiration(until)});
    let patch = api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await;
    patch.map(drop).map_err(|error| failed(&error))
}

/// Reports whether the Secret of a token was made here for a Machine. Another one may still be needed.
fn is_ours(secret: Option<&Secret>, kind: &str, machine: &Machine) -> bool {
    let name = format!("{}/{}", machine.namespace().unwrap_or_default(), machine.name_any());
    secret.is_some_and(|secret| Token::is_made_for(secret, kind, &name))
}

/// Returns the time at which a token expires, if it can be read.
pub(super) async fn end(client: &Client, token: &Token) -> Option<Timestamp> {
    let api: Api<Secret> = Api::namespaced(client.clone(), token::NAMESPACE);
    let known = api.get_opt(&token.secret_name()).await.ok().flatten()?;
    token::expiration(&known)
}

/// Returns the failure of a call to the workload cluster, whose API is not ours.
fn failed(error: &kube::Error) -> Failure {
    let reason = describe(error);
    Failure::data(format!("the workload cluster does not accept the bootstrap token: {reason}"))
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_that_joins_again_needs_its_token_until_it_is_deleted() {
        let mut machine = Machine::new("m", MachineSpec::default());
        assert!(!is_over(&machine), "it has not joined");
        machine.status = serde_json::from_value(json!({"nodeRef": {"name": "n"}})).unwrap();
        assert!(is_over(&machine), "it has joined");
        machine.annotations_mut().insert(REJOIN.to_owned(), "operation".to_owned());
        assert!(!is_over(&machine), "it joins again");
        machine.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-26T10:00:00Z")).unwrap();
        assert!(is_over(&machine), "it is being deleted");
    }
}

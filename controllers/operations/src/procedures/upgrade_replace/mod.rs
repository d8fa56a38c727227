//! Upgrade by replacement: the old server goes, and a new one takes its ports, and with them its
//! addresses.
//!
//! The old one goes first, since a port has one server. So what the new one is to be is written on
//! the operation before ([`blueprint`]); from the deletion on there is no way back, and a request
//! to stop comes too late. Only a Machine that is itself deleted needs no new server any more.
//!
//! What is made carries two marks: the owner's, and the operation's. By the second a pass knows
//! the new from the old, which have the same name, and what another process has made already.

mod act;
mod blueprint;
mod decide;

use std::collections::BTreeMap;

use apiserver_types::OperationStep;
use async_trait::async_trait;
use controllers_infrastructure::{CloudError, Server, Volume};
use controllers_runtime::{OwnershipTag, ReconcileError};

use crate::core::claim::{self, UpgradeTarget};
use crate::core::decision::{Call, Change, Decision, Outcome};
use crate::core::procedure::Procedure;
use crate::core::target::{Stop, Target};
use crate::procedures::upgrade::{self, Way};
use blueprint::{Blueprint, OPERATION_KEY, operation_tag, owner_tag};

const SNAPSHOT: &str = "SnapshotServer";
const DELETE: &str = "DeleteServer";
const VOLUMES: &str = "CreateVolumes";
const CREATE: &str = "CreateServer";
const AWAIT: &str = "AwaitServer";
const RECORD: &str = "RecordServer";

/// The steps.
pub(crate) fn plan() -> Vec<&'static str> {
    vec![claim::STEP, SNAPSHOT, DELETE, VOLUMES, CREATE, AWAIT, RECORD]
}

/// An upgrade by replacement.
#[derive(Debug)]
pub(crate) struct Replace;

/// What can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Keep the server's reconciler away.
    Claim,
    /// Write down what the new server is to be.
    Snapshot,
    /// Delete a server: the old one, or a new one that could not be built.
    DeleteServer(String),
    /// Delete a volume: an old server's, or a new one that could not be made.
    DeleteVolume(String),
    /// Make the volume of this name.
    CreateVolume(String),
    /// Make the new server, with these volumes: ids by name.
    CreateServer(BTreeMap<String, String>),
    /// Write what the server is now.
    Record(String),
}

/// What a decision is made from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    steps: Vec<OperationStep>,
    blueprint: Option<Blueprint>,
    old: Option<Server>,
    /// The old server carries its owner's mark.
    ours: bool,
    /// Servers with this operation's mark.
    new: Vec<Server>,
    volumes: Vec<Slot>,
    claimed: bool,
    /// There is user data for the new server.
    bootstrapped: bool,
    /// A creation that has left no trace was not made.
    settled: bool,
    /// A server was created so lately that it is too soon for another.
    created_lately: bool,
    /// The old server's deletion was asked for lately.
    deleted_lately: bool,
    /// A deletion of the old server that has left no trace was not asked for.
    delete_settled: bool,
    recorded: bool,
    done: String,
    stop: Option<Stop>,
}

/// A volume of the new server, and what there is under its name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot {
    name: String,
    /// The old server's.
    stale: Vec<Volume>,
    /// This operation's.
    new: Vec<Volume>,
    settled: bool,
    created_lately: bool,
}

#[async_trait]
impl Procedure for Replace {
    type Observed = Observed;
    type Effect = Effect;

    async fn observe(&self, subject: &Target) -> Result<Observed, ReconcileError> {
        let blueprint = Blueprint::read(subject);
        let id = blueprint.as_ref().map(|blueprint| blueprint.old.as_str()).or_else(|| subject.server_id());
        let old = subject.server(id.unwrap_or_default()).await?;
        let mut seen = Observed {
            steps: subject.steps().to_vec(),
            ours: old.as_ref().is_some_and(|old| old.tags.contains(&owner_tag(subject))),
            old,
            claimed: claim::is_claimed(subject),
            settled: subject.is_settled(CREATE, ""),
            created_lately: subject.tried_lately(CREATE, ""),
            deleted_lately: subject.tried_lately(DELETE, ""),
            delete_settled: subject.is_settled(DELETE, ""),
            done: upgrade::done(subject, Way::Replace),
            stop: subject.stop(),
            ..Observed::default()
        };
        seen.bootstrapped = match subject.user_data().await {
            Ok(_) => true,
            Err(ReconcileError::Waiting { .. }) => false,
            Err(other) => return Err(other),
        };
        if let Some(blueprint) = blueprint {
            look(subject, &blueprint, &mut seen).await?;
            seen.blueprint = Some(blueprint);
        }
        Ok(seen)
    }

    fn decide(&self, seen: &Observed) -> Decision<Effect> {
        decide::decide(seen)
    }

    async fn act(&self, subject: &Target, effect: &Effect) -> Result<Change, ReconcileError> {
        act::act(subject, effect).await
    }

    fn refused(&self, seen: &Observed, call: &Call<Effect>, error: &CloudError) -> Decision<Effect> {
        let left =
            if seen.old.is_none() { "; the old server is gone, so the Machine has none now" } else { "" };
        Decision::End(Outcome::failed(call.step, error.class.reason(), format!("{error}{left}")))
    }
}

/// Looks for what this operation has made, and for what is left of the old server.
async fn look(subject: &Target, blueprint: &Blueprint, seen: &mut Observed) -> Result<(), ReconcileError> {
    let (owner, operation) = (owner_tag(subject), operation_tag(subject));
    seen.new = subject.cloud.servers_named(&blueprint.name).await?;
    seen.new.retain(|server| server.tags.contains(&operation) && server.status != "DELETED");
    seen.new.sort_by(|one, other| (&one.created_at, &one.id).cmp(&(&other.created_at, &other.id)));
    for disk in blueprint.volumes() {
        let mut ours = subject.cloud.volumes_named(&disk.name).await?;
        ours.retain(|volume| volume.metadata.get(OwnershipTag::METADATA_KEY) == Some(&owner));
        ours.sort_by(|one, other| one.id.cmp(&other.id));
        let is_new = |volume: &Volume| volume.metadata.get(OPERATION_KEY) == Some(&operation);
        let (new, stale) = ours.into_iter().partition(is_new);
        seen.volumes.push(Slot {
            new,
            stale,
            settled: subject.is_settled(VOLUMES, &disk.name),
            created_lately: subject.tried_lately(VOLUMES, &disk.name),
            name: disk.name.clone(),
        });
    }
    if let Some(new) = seen.new.first() {
        seen.recorded = claim::is_recorded(subject, &target(subject, &new.id));
    }
    Ok(())
}

fn target(subject: &Target, server: &str) -> UpgradeTarget {
    UpgradeTarget { server: Some(server.to_owned()), ..upgrade::target(subject) }
}

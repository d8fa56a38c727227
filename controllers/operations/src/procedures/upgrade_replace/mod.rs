//! Upgrade by replacement: the old server is deleted, and a new one gets its ports, and with them its
//! addresses.
//!
//! The old one is deleted first, because a port has one server. So the new one is described on the
//! operation before ([`blueprint`]). After the deletion there is no way back, and a request to stop is
//! too late. Only a Machine that is itself deleted needs no new server any more.
//!
//! Every created resource carries two ownership tags: the owner's and the operation's. By the second
//! one a pass distinguishes new from old, which have the same name, and finds what another process has
//! created.

mod act;
mod blueprint;
mod decide;

use std::collections::BTreeMap;

use apiserver_types::OperationStep;
use async_trait::async_trait;
use controllers_infrastructure::{CloudError, Server, Volume};
use controllers_runtime::{OwnershipTag, ReconcileError};

use crate::core::claim::{self, UpgradeGoal};
use crate::core::decision::{Call, Change, Decision, Outcome};
use crate::core::procedure::Procedure;
use crate::core::rejoin::{self, Rejoin};
use crate::core::target::{Stop, Target};
use crate::procedures::upgrade::{self, Way};
use blueprint::{Blueprint, OPERATION_KEY, operation_tag, owner_tag};

const SNAPSHOT: &str = "SnapshotServer";
const DELETE: &str = "DeleteServer";
const VOLUMES: &str = "CreateVolumes";
const CREATE: &str = "CreateServer";
const AWAIT: &str = "AwaitServer";
const RECORD: &str = "RecordServer";

/// Returns the steps.
pub(crate) fn plan() -> Vec<&'static str> {
    vec![claim::STEP, SNAPSHOT, DELETE, VOLUMES, CREATE, AWAIT, RECORD]
}

/// Upgrade by replacement.
#[derive(Debug)]
pub(crate) struct Replace;

/// Effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Claim the server.
    Claim,
    /// Write the description of the new server.
    Snapshot,
    /// Delete a server: the old one, or a new one that could not be built.
    DeleteServer(String),
    /// Delete a volume: an old server's, or a new one that could not be created.
    DeleteVolume(String),
    /// Create the volume of this name.
    CreateVolume(String),
    /// Create the new server with these volumes: ids by name.
    CreateServer(BTreeMap<String, String>),
    /// Record the new server.
    Record(String),
    /// Prepare the second join of the node.
    Rejoin(rejoin::Effect),
}

/// Everything a decision is made from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    steps: Vec<OperationStep>,
    blueprint: Option<Blueprint>,
    old: Option<Server>,
    /// The old server carries its owner's tag.
    ours: bool,
    /// Servers with this operation's tag.
    new: Vec<Server>,
    volumes: Vec<Slot>,
    claimed: bool,
    rejoin: Rejoin,
    /// The user data of the new server exist.
    bootstrapped: bool,
    /// A create call without a trace was never made.
    settled: bool,
    /// A server was created so recently that it is too soon for another.
    created_lately: bool,
    /// The old server's deletion was requested recently.
    deleted_lately: bool,
    /// A delete call for the old server without a trace was never made.
    delete_settled: bool,
    recorded: bool,
    done: String,
    stop: Option<Stop>,
}

/// Volume of the new server, and the volumes that exist under its name.
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

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        let blueprint = Blueprint::read(target);
        let id = blueprint.as_ref().map(|blueprint| blueprint.old.as_str()).or_else(|| target.server_id());
        let old = target.server(id.unwrap_or_default()).await?;
        let mut observed = Observed {
            steps: target.steps().to_vec(),
            ours: old.as_ref().is_some_and(|old| old.tags.contains(&owner_tag(target))),
            old,
            claimed: claim::is_claimed(target),
            rejoin: rejoin::observe(target).await?,
            settled: target.is_settled(CREATE, ""),
            created_lately: target.tried_lately(CREATE, ""),
            deleted_lately: target.tried_lately(DELETE, ""),
            delete_settled: target.is_settled(DELETE, ""),
            done: upgrade::done(target, Way::Replace),
            stop: target.stop(),
            ..Observed::default()
        };
        observed.bootstrapped = match target.user_data().await {
            Ok(_) => true,
            Err(ReconcileError::Waiting { .. }) => false,
            Err(other) => return Err(other),
        };
        if let Some(blueprint) = blueprint {
            find_parts(target, &blueprint, &mut observed).await?;
            observed.blueprint = Some(blueprint);
        }
        Ok(observed)
    }

    fn decide(&self, observed: &Observed) -> Decision<Effect> {
        decide::decide(observed)
    }

    async fn act(&self, target: &Target, effect: &Effect) -> Result<Change, ReconcileError> {
        act::act(target, effect).await
    }

    fn refused(&self, observed: &Observed, call: &Call<Effect>, error: &CloudError) -> Decision<Effect> {
        let left =
            if observed.old.is_none() { "; the old server is gone, so the Machine has none now" } else { "" };
        Decision::End(Outcome::failed(call.step, error.class.reason(), format!("{error}{left}")))
    }
}

/// Finds the resources that this operation has created, and the parts of the old server that still exist.
async fn find_parts(
    target: &Target,
    blueprint: &Blueprint,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let (owner, operation) = (owner_tag(target), operation_tag(target));
    observed.new = target.cloud.servers_named(&blueprint.name).await?;
    observed.new.retain(|server| server.tags.contains(&operation) && server.status != "DELETED");
    observed.new.sort_by(|one, other| (&one.created_at, &one.id).cmp(&(&other.created_at, &other.id)));
    for disk in blueprint.volumes() {
        let mut ours = target.cloud.volumes_named(&disk.name).await?;
        ours.retain(|volume| volume.metadata.get(OwnershipTag::METADATA_KEY) == Some(&owner));
        ours.sort_by(|one, other| one.id.cmp(&other.id));
        let is_new = |volume: &Volume| volume.metadata.get(OPERATION_KEY) == Some(&operation);
        let (new, stale) = ours.into_iter().partition(is_new);
        observed.volumes.push(Slot {
            new,
            stale,
            settled: target.is_settled(VOLUMES, &disk.name),
            created_lately: target.tried_lately(VOLUMES, &disk.name),
            name: disk.name.clone(),
        });
    }
    if let Some(new) = observed.new.first() {
        observed.recorded = claim::is_recorded(target, &goal(target, &new.id));
    }
    Ok(())
}

fn goal(target: &Target, server: &str) -> UpgradeGoal {
    UpgradeGoal { server: Some(server.to_owned()), ..upgrade::goal(target) }
}

//! Effects of a replacement.

use apiserver_types::OperationResult;
use controllers_infrastructure::CloudResult;
use controllers_runtime::ReconcileError;

use super::blueprint::Blueprint;
use super::{CREATE, Effect, RECORD, SNAPSHOT, goal};
use crate::core::claim;
use crate::core::decision::{Change, StepUpdate};
use crate::core::rejoin;
use crate::core::target::{Target, missing};
use crate::procedures::upgrade;

/// Makes one effect.
pub(super) async fn act(target: &Target, effect: &Effect) -> Result<Change, ReconcileError> {
    match effect {
        Effect::Claim => {
            claim::claim(target).await?;
            Ok(Change::of([StepUpdate::done(
                claim::STEP,
                "claimed the server; its reconciler does not change it",
            )]))
        }
        Effect::Snapshot => snapshot(target).await,
        Effect::DeleteServer(id) => gone(target.cloud.delete_server(id).await),
        Effect::DeleteVolume(id) => gone(target.cloud.delete_volume(id).await),
        Effect::CreateVolume(name) => create_volume(target, name).await,
        Effect::CreateServer(volumes) => {
            let call =
                blueprint(target)?.server(&upgrade::goal(target).image, target.user_data().await?, volumes);
            let id = target.cloud.create_server(&call).await?;
            let result = OperationResult { server_id: Some(id.clone()), ..OperationResult::default() };
            let update = StepUpdate::running(CREATE, format!("Nova is building server {id}"));
            Ok(Change::of([update]).with(result))
        }
        Effect::Record(server) => {
            claim::record(target, &goal(target, server)).await?;
            Ok(Change::of([StepUpdate::running(RECORD, "the Machine has its new server and version")]))
        }
        Effect::Rejoin(effect) => rejoin::act(target, effect).await,
    }
}

fn blueprint(target: &Target) -> Result<Blueprint, ReconcileError> {
    Blueprint::read(target).ok_or_else(|| missing("the operation's journal is gone".to_owned()))
}

/// The status is written by the next pass: writing the journal makes this one's revision old.
async fn snapshot(target: &Target) -> Result<Change, ReconcileError> {
    let old = target.server(target.server_id().unwrap_or_default()).await?;
    let old = old.ok_or_else(|| missing(format!("{SNAPSHOT}: the server does not exist any more")))?;
    Blueprint::draw(target, &old).await?.write(target).await?;
    Ok(Change::default())
}

async fn create_volume(target: &Target, name: &str) -> Result<Change, ReconcileError> {
    let blueprint = blueprint(target)?;
    if let Some(disk) = blueprint.volumes().find(|disk| disk.name == name) {
        let image = &upgrade::goal(target).image;
        target.cloud.create_volume(&disk.volume(target, image, blueprint.cluster_tag())).await?;
    }
    Ok(Change::default())
}

fn gone(result: CloudResult<()>) -> Result<Change, ReconcileError> {
    match result {
        Ok(()) => Ok(Change::default()),
        Err(error) if error.is_not_found() => Ok(Change::default()),
        Err(error) => Err(error.into()),
    }
}

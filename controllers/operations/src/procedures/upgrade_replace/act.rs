//! The effects of a replacement.

use apiserver_types::OperationResult;
use controllers_infrastructure::CloudResult;
use controllers_runtime::ReconcileError;

use super::blueprint::Blueprint;
use super::{CREATE, Effect, RECORD, SNAPSHOT, target};
use crate::core::claim;
use crate::core::decision::{Change, StepUpdate};
use crate::core::target::{Target, missing};
use crate::procedures::upgrade;

/// Makes one effect.
pub(super) async fn act(subject: &Target, effect: &Effect) -> Result<Change, ReconcileError> {
    match effect {
        Effect::Claim => {
            claim::claim(subject).await?;
            Ok(Change::of([StepUpdate::done(claim::STEP, "the server's reconciler leaves it alone")]))
        }
        Effect::Snapshot => snapshot(subject).await,
        Effect::DeleteServer(id) => gone(subject.cloud.delete_server(id).await),
        Effect::DeleteVolume(id) => gone(subject.cloud.delete_volume(id).await),
        Effect::CreateVolume(name) => create_volume(subject, name).await,
        Effect::CreateServer(volumes) => {
            let call = blueprint(subject)?.server(
                &upgrade::target(subject).image,
                subject.user_data().await?,
                volumes,
            );
            let id = subject.cloud.create_server(&call).await?;
            let result = OperationResult { server_id: Some(id.clone()), ..OperationResult::default() };
            let mark = StepUpdate::running(CREATE, format!("Nova is building server {id}"));
            Ok(Change::of([mark]).with(result))
        }
        Effect::Record(server) => {
            claim::record(subject, &target(subject, server)).await?;
            Ok(Change::of([StepUpdate::running(RECORD, "the Machine has its new server and version")]))
        }
    }
}

fn blueprint(subject: &Target) -> Result<Blueprint, ReconcileError> {
    Blueprint::read(subject).ok_or_else(|| missing("the operation's journal is gone".to_owned()))
}

/// The status is written by the next pass: writing the journal makes this one's revision old.
async fn snapshot(subject: &Target) -> Result<Change, ReconcileError> {
    let old = subject.server(subject.server_id().unwrap_or_default()).await?;
    let old = old.ok_or_else(|| missing(format!("{SNAPSHOT}: the server has just gone")))?;
    Blueprint::draw(subject, &old).await?.write(subject).await?;
    Ok(Change::default())
}

async fn create_volume(subject: &Target, name: &str) -> Result<Change, ReconcileError> {
    let blueprint = blueprint(subject)?;
    if let Some(disk) = blueprint.volumes().find(|disk| disk.name == name) {
        subject.cloud.create_volume(&disk.volume(subject, &upgrade::target(subject).image)).await?;
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

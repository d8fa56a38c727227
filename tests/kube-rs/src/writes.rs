//! Checks of apply, replace, status and deletion.

use anyhow::{Context, bail, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::{CheckContext, remove};

pub(crate) async fn applies(context: &CheckContext) -> anyhow::Result<()> {
    let pools = context.pools();
    remove(&pools, "applied").await?;
    let desired = |version: &str| {
        let mut pool = context.pool("applied");
        pool.data["spec"]["template"]["spec"]["version"] = json!(version);
        pool
    };
    let (first, second) = (PatchParams::apply("first"), PatchParams::apply("second"));
    pools.patch("applied", &first, &Patch::Apply(&desired("v1.33.0"))).await?;
    let refused = pools.patch("applied", &second, &Patch::Apply(&desired("v1.34.0"))).await;
    ensure!(is_conflict(&refused), "a change of another manager's field returned {refused:?}");
    let forced = pools.patch("applied", &second.force(), &Patch::Apply(&desired("v1.34.0"))).await?;
    ensure!(version(&forced) == Some("v1.34.0"), "the version is {:?}", version(&forced));
    ensure!(forced.managed_fields().len() == 2, "managers: {:?}", forced.managed_fields());
    remove(&pools, "applied").await
}

pub(crate) async fn replaces(context: &CheckContext) -> anyhow::Result<()> {
    let pools = context.pools();
    remove(&pools, "replaced").await?;
    let mut mine = pools.create(&PostParams::default(), &context.pool("replaced")).await?;
    let mut theirs = mine.clone();
    theirs.data["spec"]["template"]["spec"]["version"] = json!("v1.34.0");
    pools.replace("replaced", &PostParams::default(), &theirs).await?;
    mine.labels_mut().insert("late".to_owned(), "yes".to_owned());
    let refused = pools.replace("replaced", &PostParams::default(), &mine).await;
    ensure!(is_conflict(&refused), "an outdated object was accepted: {refused:?}");
    let mut entry = pools.entry("replaced").await?.or_insert(|| context.pool("replaced"));
    entry.get_mut().labels_mut().insert("late".to_owned(), "yes".to_owned());
    entry.commit(&PostParams::default()).await?;
    let read = pools.get("replaced").await?;
    ensure!(
        version(&read) == Some("v1.34.0") && read.labels().contains_key("late"),
        "a change was lost: {read:?}"
    );
    remove(&pools, "replaced").await
}

pub(crate) async fn status(context: &CheckContext) -> anyhow::Result<()> {
    let pools = context.pools();
    remove(&pools, "with-status").await?;
    pools.create(&PostParams::default(), &context.pool("with-status")).await?;
    let both = json!({"spec": {"replicas": 7}, "status": {"phase": "Provisioning"}});
    let merge = Patch::Merge(&both);
    let patched = pools.patch_status("with-status", &PatchParams::default(), &merge).await?;
    ensure!(patched.data["status"]["phase"] == "Provisioning", "status is {}", patched.data["status"]);
    ensure!(patched.data["spec"]["replicas"] != 7, "the status subresource changed the replicas");
    remove(&pools, "with-status").await
}

pub(crate) async fn deletes(context: &CheckContext) -> anyhow::Result<()> {
    let pools = context.pools();
    let mut pool = context.pool("held");
    pool.finalizers_mut().push("capstan.dev/check".to_owned());
    let made = pools.create(&PostParams::default(), &pool).await?;
    let another = Preconditions { uid: Some("another".to_owned()), resource_version: None };
    let refused = pools.delete("held", &DeleteParams::default().preconditions(another)).await;
    ensure!(is_conflict(&refused), "a precondition with another uid returned {refused:?}");
    let uid = Preconditions { uid: made.uid(), resource_version: None };
    let deleted = pools.delete("held", &DeleteParams::foreground().preconditions(uid)).await?;
    let held = deleted.left().context("an object with a finalizer was deleted at once")?;
    ensure!(held.metadata.deletion_timestamp.is_some(), "it has no deletionTimestamp");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pools.patch("held", &PatchParams::default(), &free).await?;
    match pools.get_opt("held").await? {
        None => Ok(()),
        Some(left) => bail!("{left:?} is still there"),
    }
}

fn version(pool: &DynamicObject) -> Option<&str> {
    pool.data["spec"]["template"]["spec"].get("version").and_then(Value::as_str)
}

fn is_conflict<T>(result: &kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.is_conflict())
}

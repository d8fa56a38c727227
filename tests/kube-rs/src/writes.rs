//! Apply, replace, status and deletion.

use anyhow::{Context, bail, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::{Lab, remove};

pub(crate) async fn applies(lab: &Lab) -> anyhow::Result<()> {
    let pools = lab.pools();
    remove(&pools, "applied").await?;
    let wanted = |version: &str| {
        let mut pool = lab.pool("applied");
        pool.data["spec"]["template"]["spec"]["version"] = json!(version);
        pool
    };
    let (first, second) = (PatchParams::apply("first"), PatchParams::apply("second"));
    pools.patch("applied", &first, &Patch::Apply(&wanted("v1.33.0"))).await?;
    let refused = pools.patch("applied", &second, &Patch::Apply(&wanted("v1.34.0"))).await;
    ensure!(is_conflict(&refused), "another owner's field was met with {refused:?}");
    let forced = pools.patch("applied", &second.force(), &Patch::Apply(&wanted("v1.34.0"))).await?;
    ensure!(version(&forced) == Some("v1.34.0"), "the version is {:?}", version(&forced));
    ensure!(forced.managed_fields().len() == 2, "managers: {:?}", forced.managed_fields());
    remove(&pools, "applied").await
}

pub(crate) async fn replaces(lab: &Lab) -> anyhow::Result<()> {
    let pools = lab.pools();
    remove(&pools, "replaced").await?;
    let mut mine = pools.create(&PostParams::default(), &lab.pool("replaced")).await?;
    let mut theirs = mine.clone();
    theirs.data["spec"]["template"]["spec"]["version"] = json!("v1.34.0");
    pools.replace("replaced", &PostParams::default(), &theirs).await?;
    mine.labels_mut().insert("late".to_owned(), "yes".to_owned());
    let refused = pools.replace("replaced", &PostParams::default(), &mine).await;
    ensure!(is_conflict(&refused), "an old object was taken: {refused:?}");
    let mut entry = pools.entry("replaced").await?.or_insert(|| lab.pool("replaced"));
    entry.get_mut().labels_mut().insert("late".to_owned(), "yes".to_owned());
    entry.commit(&PostParams::default()).await?;
    let read = pools.get("replaced").await?;
    ensure!(version(&read) == Some("v1.34.0") && read.labels().contains_key("late"), "lost: {read:?}");
    remove(&pools, "replaced").await
}

pub(crate) async fn status(lab: &Lab) -> anyhow::Result<()> {
    let pools = lab.pools();
    remove(&pools, "with-status").await?;
    pools.create(&PostParams::default(), &lab.pool("with-status")).await?;
    let both = json!({"spec": {"replicas": 7}, "status": {"phase": "Provisioning"}});
    let merge = Patch::Merge(&both);
    let patched = pools.patch_status("with-status", &PatchParams::default(), &merge).await?;
    ensure!(patched.data["status"]["phase"] == "Provisioning", "status is {}", patched.data["status"]);
    ensure!(patched.data["spec"]["replicas"] != 7, "status wrote the replicas");
    remove(&pools, "with-status").await
}

pub(crate) async fn deletes(lab: &Lab) -> anyhow::Result<()> {
    let pools = lab.pools();
    let mut pool = lab.pool("held");
    pool.finalizers_mut().push("capstan.dev/check".to_owned());
    let made = pools.create(&PostParams::default(), &pool).await?;
    let another = Preconditions { uid: Some("another".to_owned()), resource_version: None };
    let refused = pools.delete("held", &DeleteParams::default().preconditions(another)).await;
    ensure!(is_conflict(&refused), "another object's uid was met with {refused:?}");
    let uid = Preconditions { uid: made.uid(), resource_version: None };
    let deleted = pools.delete("held", &DeleteParams::foreground().preconditions(uid)).await?;
    let held = deleted.left().context("an object with a finalizer was gone at once")?;
    ensure!(held.metadata.deletion_timestamp.is_some(), "nothing says that it is to go");
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

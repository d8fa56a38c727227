//! Watchers and reflectors.

use std::fmt::Debug;
use std::pin::pin;

use anyhow::{Context, bail, ensure};
use futures::{Stream, StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;

use crate::{Lab, remove};

/// More objects than fit into a page.
const OBJECTS: usize = 5;

pub(crate) async fn listing(lab: &Lab) -> anyhow::Result<()> {
    let config = watcher::Config::default().labels("by=listing").page_size(2);
    Box::pin(follow(lab, "listing", watcher(lab.pools(), config))).await
}

pub(crate) async fn streaming(lab: &Lab) -> anyhow::Result<()> {
    let config = watcher::Config::default().labels("by=streaming").streaming_lists();
    Box::pin(follow(lab, "streaming", watcher(lab.pools(), config))).await
}

pub(crate) async fn metadata(lab: &Lab) -> anyhow::Result<()> {
    let config = watcher::Config::default().labels("by=metadata");
    let pools: Api<PartialObjectMeta<DynamicObject>> =
        Api::namespaced_with(lab.client.clone(), &lab.namespace, &lab.kind);
    Box::pin(follow(lab, "metadata", watcher(pools, config))).await
}

/// There are objects at first, one of them changes, one goes: the watcher says all of that in this order.
async fn follow<K: ResourceExt + Debug>(
    lab: &Lab,
    by: &str,
    watching: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
) -> anyhow::Result<()> {
    let pools = lab.pools();
    make(lab, by).await?;
    let mut watching = pin!(watching);
    ensure!(matches!(next(&mut watching).await?, watcher::Event::Init), "a watch begins otherwise");
    for _ in 0..OBJECTS {
        let event = next(&mut watching).await?;
        ensure!(matches!(event, watcher::Event::InitApply(_)), "among the first: {event:?}");
    }
    ensure!(matches!(next(&mut watching).await?, watcher::Event::InitDone), "there are more than there are");
    let (changed, gone) = (format!("{by}-1"), format!("{by}-2"));
    let change = json!({"metadata": {"annotations": {"changed": "yes"}}});
    pools.patch(&changed, &PatchParams::default(), &Patch::Merge(change)).await?;
    match next(&mut watching).await? {
        watcher::Event::Apply(object) if object.name_any() == changed => {
            ensure!(object.annotations().contains_key("changed"), "the change is not in {object:?}");
        }
        other => bail!("instead of a change: {other:?}"),
    }
    pools.delete(&gone, &DeleteParams::default()).await?;
    match next(&mut watching).await? {
        watcher::Event::Delete(object) if object.name_any() == gone => {}
        other => bail!("instead of a deletion: {other:?}"),
    }
    clear(lab, by).await
}

async fn next<K>(
    watching: &mut (impl Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin),
) -> anyhow::Result<watcher::Event<K>> {
    Ok(watching.next().await.context("the watch ended")??)
}

pub(crate) async fn reflected(lab: &Lab) -> anyhow::Result<()> {
    make(lab, "reflected").await?;
    let writer = reflector::store::Writer::new(lab.kind.clone());
    let reader = writer.as_reader();
    let config = watcher::Config::default().labels("by=reflected");
    let mut stream = pin!(reflector(writer, watcher(lab.pools(), config)).applied_objects());
    // The store is ready with the event that ends the first list, which is no object.
    let objects = stream.by_ref().take(OBJECTS).try_collect::<Vec<_>>().await?;
    lab.pools()
        .patch(
            "reflected-3",
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": {"annotations": {"changed": "yes"}}})),
        )
        .await?;
    let changed = stream.try_next().await?.context("the watch ended")?;
    ensure!(changed.name_any() == "reflected-3", "{} changed", changed.name_any());
    ensure!(
        objects.len() == OBJECTS && reader.state().len() == OBJECTS,
        "the store has {}",
        reader.state().len()
    );
    clear(lab, "reflected").await
}

async fn make(lab: &Lab, by: &str) -> anyhow::Result<()> {
    clear(lab, by).await?;
    for number in 0..OBJECTS {
        let mut pool = lab.pool(&format!("{by}-{number}"));
        pool.labels_mut().insert("by".to_owned(), by.to_owned());
        lab.pools().create(&PostParams::default(), &pool).await?;
    }
    Ok(())
}

async fn clear(lab: &Lab, by: &str) -> anyhow::Result<()> {
    for number in 0..OBJECTS {
        remove(&lab.pools(), &format!("{by}-{number}")).await?;
    }
    Ok(())
}

//! Checks of watchers and reflectors.

use std::fmt::Debug;
use std::pin::pin;

use anyhow::{Context, bail, ensure};
use futures::{Stream, StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;

use crate::{CheckContext, remove};

/// Number of objects: more than fit into one page.
const OBJECTS: usize = 5;

pub(crate) async fn listing(context: &CheckContext) -> anyhow::Result<()> {
    let config = watcher::Config::default().labels("by=listing").page_size(2);
    Box::pin(follow(context, "listing", watcher(context.pools(), config))).await
}

pub(crate) async fn streaming(context: &CheckContext) -> anyhow::Result<()> {
    let config = watcher::Config::default().labels("by=streaming").streaming_lists();
    Box::pin(follow(context, "streaming", watcher(context.pools(), config))).await
}

pub(crate) async fn metadata(context: &CheckContext) -> anyhow::Result<()> {
    let config = watcher::Config::default().labels("by=metadata");
    let pools: Api<PartialObjectMeta<DynamicObject>> =
        Api::namespaced_with(context.client.clone(), &context.namespace, &context.kind);
    Box::pin(follow(context, "metadata", watcher(pools, config))).await
}

/// Creates objects, changes one and deletes one. The watcher must report all of this in this order.
async fn follow<K: ResourceExt + Debug>(
    context: &CheckContext,
    by: &str,
    watching: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
) -> anyhow::Result<()> {
    let pools = context.pools();
    make(context, by).await?;
    let mut watching = pin!(watching);
    ensure!(matches!(next(&mut watching).await?, watcher::Event::Init), "the watch does not begin with Init");
    for _ in 0..OBJECTS {
        let event = next(&mut watching).await?;
        ensure!(matches!(event, watcher::Event::InitApply(_)), "in the first list: {event:?}");
    }
    ensure!(
        matches!(next(&mut watching).await?, watcher::Event::InitDone),
        "the first list has too many objects"
    );
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
    clear(context, by).await
}

async fn next<K>(
    watching: &mut (impl Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin),
) -> anyhow::Result<watcher::Event<K>> {
    Ok(watching.next().await.context("the watch ended")??)
}

pub(crate) async fn reflected(context: &CheckContext) -> anyhow::Result<()> {
    make(context, "reflected").await?;
    let writer = reflector::store::Writer::new(context.kind.clone());
    let reader = writer.as_reader();
    let config = watcher::Config::default().labels("by=reflected");
    let mut stream = pin!(reflector(writer, watcher(context.pools(), config)).applied_objects());
    // The store is ready with the event that ends the first list, and that event has no object.
    let objects = stream.by_ref().take(OBJECTS).try_collect::<Vec<_>>().await?;
    context
        .pools()
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
    clear(context, "reflected").await
}

async fn make(context: &CheckContext, by: &str) -> anyhow::Result<()> {
    clear(context, by).await?;
    for number in 0..OBJECTS {
        let mut pool = context.pool(&format!("{by}-{number}"));
        pool.labels_mut().insert("by".to_owned(), by.to_owned());
        context.pools().create(&PostParams::default(), &pool).await?;
    }
    Ok(())
}

async fn clear(context: &CheckContext, by: &str) -> anyhow::Result<()> {
    for number in 0..OBJECTS {
        remove(&context.pools(), &format!("{by}-{number}")).await?;
    }
    Ok(())
}

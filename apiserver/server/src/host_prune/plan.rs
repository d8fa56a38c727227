//! Plan of the command: its namespaces, and the objects in them that are deleted now. Pure functions.

use std::collections::BTreeSet;

use anyhow::ensure;
use apiserver_cli::columns;
use apiserver_machinery::resource::Registry;
use jiff::{SignedDuration, Timestamp};
use kube::api::ApiResource;
use serde_json::Value;

use crate::controllers::api_resource;

/// Time in the state `Up` after which the comparison of the namespaces is newer than an outage. While a namespace is gone,
/// the server compares them each minute.
const SETTLED: SignedDuration = SignedDuration::from_mins(2);

/// Last stage whose objects without owners are deleted together with earlier stages: a Cluster may wait for them, and does
/// not delete them itself.
const ALONGSIDE: u8 = 1;

/// Kind that the host cluster serves through Capstan.
#[derive(Debug)]
pub(super) struct HostedKind {
    pub(super) resource: ApiResource,
    /// Stage of the deletion.
    stage: u8,
}

impl HostedKind {
    /// Returns all namespaced kinds whose objects can be deleted, in the order of the deletion.
    pub(super) fn all(registry: &Registry) -> Vec<Self> {
        let hosted = registry.stored().iter().filter(|kind| kind.hosted && kind.namespaced);
        let stored = hosted.filter(|kind| !kind.strategy.is_read_only());
        let mut all: Vec<Self> = stored
            .map(|kind| Self { resource: api_resource(kind), stage: stage(&kind.group, &kind.kind) })
            .collect();
        all.sort_by_key(|kind| kind.stage);
        all
    }
}

/// Returns the stage of a kind's deletion. Clusters come first, because they take their Machines and networks along. The
/// server refuses to delete a ClusterClass before them.
fn stage(group: &str, kind: &str) -> u8 {
    match (group, kind) {
        ("cluster.x-k8s.io", "Cluster") => 0,
        ("cluster.x-k8s.io", "ClusterClass") => 2,
        (group, _) if group.ends_with("cluster.x-k8s.io") => 1,
        _ => 2,
    }
}

/// Object in a namespace that the host cluster does not have.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) kind: &'a HostedKind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) has_owner: bool,
    pub(super) is_being_deleted: bool,
}

/// Next step for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It can be deleted now.
    Delete,
    /// Its controller is deleting it.
    Await,
    /// It is deleted after others, which may need it.
    Later,
    /// The server has refused its deletion.
    Refused,
}

/// Returns the step for each object of one namespace.
pub(super) fn steps(objects: Vec<Found<'_>>) -> Vec<(Found<'_>, Step)> {
    let earliest = objects.iter().map(|it| it.kind.stage).min().unwrap_or_default();
    let step = |it: &Found<'_>| {
        let is_due = it.kind.stage == earliest || (it.kind.stage <= ALONGSIDE && !it.has_owner);
        if it.is_being_deleted {
            Step::Await
        } else if is_due {
            Step::Delete
        } else {
            Step::Later
        }
    };
    objects
        .into_iter()
        .map(|it| {
            let step = step(&it);
            (it, step)
        })
        .collect()
}

/// Returns the namespaces to prune: those that the host cluster does not have, or the `requested` ones of them. `object` is
/// HostStatus.
///
/// # Errors
/// It is not known now which namespaces the host has, or it has a requested one.
pub(super) fn namespaces(
    object: &Value,
    requested: &[String],
    now: Timestamp,
) -> anyhow::Result<BTreeSet<String>> {
    let status = &object["status"];
    let state = status["state"].as_str().unwrap_or("unknown");
    ensure!(
        state == "Up",
        "HostStatus has the state {state}, so it is not certain which namespaces the host cluster has. Repeat the command in \
         the state Up: see `capstan host status`"
    );
    let since = status["since"].as_str().and_then(|since| since.parse::<Timestamp>().ok());
    ensure!(
        since.is_some_and(|since| now.duration_since(since) >= SETTLED),
        "HostStatus has the state Up since less than two minutes, so its namespaces may not be compared yet. Repeat the \
         command in two minutes"
    );
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let is_compared =
        |it: &Value| it["type"] == "NamespacesGone" && (it["status"] == "True" || it["status"] == "False");
    ensure!(
        conditions.any(is_compared),
        "the condition NamespacesGone of HostStatus is not known yet. Repeat the command in a minute"
    );
    let gone = status["namespacesGone"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let gone: BTreeSet<String> = gone.map(str::to_owned).collect();
    for name in requested {
        ensure!(
            gone.contains(name),
            "namespace {name} is not in status.namespacesGone of HostStatus: the host cluster has it, or it has no objects of \
             Capstan. Nothing in it was deleted. `capstan host status` lists the namespaces that are gone"
        );
    }
    Ok(if requested.is_empty() { gone } else { requested.iter().cloned().collect() })
}

/// Returns the output. `has_deleted`: the deletion of the objects that can be deleted now was requested.
pub(super) fn text(objects: &[(Found<'_>, Step)], has_deleted: bool) -> String {
    if objects.is_empty() {
        return "no object is in a namespace that the host cluster does not have\n".to_owned();
    }
    let titles = ["NAMESPACE", "KIND", "NAME", "STATE"].map(str::to_owned);
    let rows = objects.iter().map(|(it, step)| {
        let state = match step {
            Step::Delete if has_deleted => "deletion requested",
            Step::Delete => "to be deleted",
            Step::Await => "being deleted",
            Step::Later => "to be deleted later",
            Step::Refused => "refused",
        };
        [it.namespace.clone(), it.kind.resource.kind.clone(), it.name.clone(), state.to_owned()]
    });
    let rows: Vec<[String; 4]> = std::iter::once(titles).chain(rows).collect();
    let next = if has_deleted {
        "Run the command again until it finds no object."
    } else {
        "Nothing was deleted. With --yes these objects are deleted, and with them the servers, networks and volumes of their \
         clusters."
    };
    format!("{}\n{next}\n", columns(&rows))
}

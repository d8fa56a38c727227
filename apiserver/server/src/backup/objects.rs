//! Objects of one namespace, or of one cluster, as YAML files for a move to another installation. This is no backup: it has
//! no revision, and Secrets are plain.
//!
//! The directory has the form that `clusterctl move --from-directory` reads: one file per object, with its uid and its
//! owners.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, bail};
use apiserver_machinery::encryption::Encryption;
use serde_json::Value;
use storage_backup::{ROOT, Scan};
use storage_contract::Store;

use super::{Setup, block_on};
use crate::cli::BackupArguments;
use crate::{output, pki};

/// Label with the name of the cluster of an object.
const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";

/// Group of a Cluster.
const CLUSTER_GROUP: &str = "cluster.x-k8s.io";

/// Kinds that describe what has happened in one installation, and not what is wanted.
const LEFT_OUT: [&str; 4] = ["Event", "Lease", "MachineOperation", "ResourceQuota"];

/// Fields of `metadata` that the other installation sets itself.
const SET_BY_THE_SERVER: [&str; 5] =
    ["resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];

/// Object as it is stored.
#[derive(Debug)]
struct Object {
    value: Value,
}

/// Runs `capstan backup --namespace`.
///
/// # Errors
/// A store that cannot be read; a Secret that cannot be opened; a Cluster that does not exist; a directory that has files.
pub(super) fn run(arguments: &BackupArguments, namespace: &str) -> anyhow::Result<()> {
    let connection = &arguments.connection;
    if connection.kubeconfig.is_some() || connection.context.is_some() {
        bail!(
            "--namespace: objects are read from the store; give --config or --data-dir, and no --kubeconfig"
        );
    }
    let to = arguments.to.as_deref().unwrap_or_default();
    let setup = Setup::load(&arguments.store)?;
    let (_, encryption) = setup.encryption()?;
    let encryption = encryption.unwrap_or_default();
    let all = block_on(async {
        let store = setup.open().await?;
        read(store.as_ref(), &encryption, namespace).await
    })?;
    let selected = match &arguments.cluster {
        None if all.is_empty() => bail!("the namespace {namespace} has no objects; nothing was written"),
        None => all,
        Some(cluster) => of_cluster(all, cluster)
            .with_context(|| format!("the namespace {namespace} has no Cluster {cluster}"))?,
    };
    let count = write(Path::new(to), namespace, selected)?;
    Ok(output::print(&format!(
        "wrote {count} objects of {namespace} to {to}. Secrets in it are plain: only its owner can read the directory, and \
         you should remove it after the move\n"
    ))?)
}

/// Reads the objects of a namespace.
async fn read(store: &dyn Store, encryption: &Encryption, namespace: &str) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    let mut scan = Scan::begin(store, ROOT).await?;
    while let Some(entry) = scan.next().await? {
        let key = entry.key.as_str();
        let parts: Vec<&str> = key.strip_prefix(ROOT).unwrap_or_default().split('/').collect();
        let [group, plural, of, _name] = parts[..] else { continue };
        if of != namespace {
            continue;
        }
        let resource = if group == "core" { plural.to_owned() } else { format!("{plural}.{group}") };
        let opened = encryption.open(&resource, key, &entry.value)?;
        // The error of the decoder may quote the value.
        let Ok(value) = serde_json::from_slice::<Value>(&opened) else { continue };
        let is_object = value["kind"].is_string() && value["apiVersion"].is_string();
        let is_left_out = LEFT_OUT.iter().any(|kind| value["kind"] == *kind);
        if is_object && !is_left_out {
            objects.push(Object { value });
        }
    }
    Ok(objects)
}

/// Selects the objects of a cluster: the Cluster itself, all that it owns, all with its label, and the Secrets with the
/// credentials of these. `None` if there is no such Cluster.
fn of_cluster(all: Vec<Object>, cluster: &str) -> Option<Vec<Object>> {
    let is_the_cluster = |object: &Object| {
        object.group() == CLUSTER_GROUP && object.value["kind"] == "Cluster" && object.name() == cluster
    };
    let root = all.iter().find(|object| is_the_cluster(object))?;
    let mut uids = BTreeSet::from([root.uid().to_owned()]);
    let has_label = |object: &Object| object.value["metadata"]["labels"][CLUSTER] == cluster;
    loop {
        let found =
            all.iter().filter(|object| has_label(object) || object.owners().any(|it| uids.contains(it)));
        let found: BTreeSet<String> = found.map(|object| object.uid().to_owned()).collect();
        let before = uids.len();
        uids.extend(found);
        if uids.len() == before {
            break;
        }
    }
    let selected = all.iter().filter(|object| uids.contains(object.uid()));
    let credentials: BTreeSet<String> = selected.filter_map(Object::credentials).map(str::to_owned).collect();
    let is_credentials = |object: &Object| {
        object.value["kind"] == "Secret" && object.group().is_empty() && credentials.contains(object.name())
    };
    Some(all.into_iter().filter(|it| uids.contains(it.uid()) || is_credentials(it)).collect())
}

/// Writes one file per object to a new or empty directory. Returns their number.
fn write(directory: &Path, namespace: &str, objects: Vec<Object>) -> anyhow::Result<usize> {
    pki::private_directory(directory)?;
    let named = || format!("{}: cannot be used", directory.display());
    if std::fs::read_dir(directory).with_context(named)?.next().is_some() {
        bail!("{}: has files already; give a new directory", directory.display());
    }
    let count = objects.len();
    for object in objects {
        let kind = object.value["kind"].as_str().unwrap_or_default();
        let path = directory.join(format!("{kind}_{namespace}_{}.yaml", object.name()));
        pki::write_private(&path, &serde_saphyr::to_string(&object.portable())?)?;
    }
    Ok(count)
}

impl Object {
    fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    fn group(&self) -> &str {
        self.text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group)
    }

    fn owners(&self) -> impl Iterator<Item = &str> {
        let owners = self.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str())
    }

    /// Returns the name of the Secret with the credentials of the cloud.
    fn credentials(&self) -> Option<&str> {
        Some(self.text("/spec/identityRef/name")).filter(|name| !name.is_empty())
    }

    /// Returns the object without what the other installation sets itself. A Cluster is paused, so that nothing is created
    /// before all of its objects are there.
    fn portable(mut self) -> Value {
        if let Some(metadata) = self.value["metadata"].as_object_mut() {
            metadata.retain(|field, _| !SET_BY_THE_SERVER.contains(&field.as_str()));
        }
        if self.group() == CLUSTER_GROUP && self.value["kind"] == "Cluster" {
            self.value["spec"]["paused"] = true.into();
        }
        self.value
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;
    use storage_contract::Key;
    use storage_embedded::EmbeddedStore;

    use super::*;

    async fn add(store: &EmbeddedStore, (group, plural): (&str, &str), value: Value) {
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or("team").to_owned();
        let key = Key::new(format!("/capstan/{group}/{plural}/{namespace}/{name}")).unwrap();
        store.create(&key, Bytes::from(value.to_string())).await.unwrap();
    }

    fn object(kind: &str, name: &str, owner: &str, spec: &Value) -> Value {
        let version = if kind == "Secret" { "v1" } else { "cluster.x-k8s.io/v1beta2" };
        let owners =
            if owner.is_empty() { json!([]) } else { json!([{"kind": "X", "name": "x", "uid": owner}]) };
        json!({"apiVersion": version, "kind": kind, "spec": spec, "metadata": {"name": name, "namespace": "team",
            "uid": format!("uid-{name}"), "resourceVersion": "7", "managedFields": [1], "ownerReferences": owners}})
    }

    #[tokio::test]
    async fn bk_07_a_cluster_is_written_with_all_that_belongs_to_it_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(&directory.path().join("store")).unwrap();
        let own = "cluster.x-k8s.io";
        add(&store, (own, "clusters"), object("Cluster", "prod", "", &json!({}))).await;
        add(&store, (own, "clusters"), object("Cluster", "other", "", &json!({}))).await;
        add(&store, (own, "machinesets"), object("MachineSet", "set", "uid-prod", &json!({}))).await;
        add(&store, (own, "machines"), object("Machine", "m", "uid-set", &json!({}))).await;
        add(&store, (own, "machines"), object("Machine", "n", "uid-other", &json!({}))).await;
        let mut labelled = object("OpenStackCluster", "prod", "", &json!({"identityRef": {"name": "cloud"}}));
        labelled["metadata"]["uid"] = json!("uid-infra");
        labelled["metadata"]["labels"] = json!({CLUSTER: "prod"});
        add(&store, ("infrastructure.cluster.x-k8s.io", "openstackclusters"), labelled).await;
        for name in ["cloud", "unrelated"] {
            add(&store, ("core", "secrets"), object("Secret", name, "", &json!({}))).await;
        }
        add(&store, ("core", "events"), object("Event", "e", "uid-prod", &json!({}))).await;
        let mut elsewhere = object("Cluster", "prod", "", &json!({}));
        elsewhere["metadata"]["namespace"] = json!("team2");
        add(&store, (own, "clusters"), elsewhere).await;

        let all = read(&store, &Encryption::default(), "team").await.unwrap();
        assert_eq!(all.len(), 8, "all but the Event: {all:?}");
        assert!(of_cluster(read(&store, &Encryption::default(), "team").await.unwrap(), "none").is_none());
        let target = directory.path().join("prod");
        assert_eq!(write(&target, "team", of_cluster(all, "prod").unwrap()).unwrap(), 5);
        let mut files: Vec<String> = std::fs::read_dir(&target)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let expected = [
            "Cluster_team_prod.yaml",
            "MachineSet_team_set.yaml",
            "Machine_team_m.yaml",
            "OpenStackCluster_team_prod.yaml",
            "Secret_team_cloud.yaml",
        ];
        assert_eq!(files, expected);
        let text = std::fs::read_to_string(target.join("Cluster_team_prod.yaml")).unwrap();
        let cluster: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(cluster["spec"]["paused"], true);
        assert_eq!(
            cluster["metadata"],
            json!({"name": "prod", "namespace": "team", "uid": "uid-prod",
            "ownerReferences": []})
        );
        let again = write(&target, "team", Vec::new()).unwrap_err().to_string();
        assert!(again.contains("has files already"), "{again}");
    }
}

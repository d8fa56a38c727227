//! Class of a Cluster with its templates, and what the patched templates name.

use std::collections::BTreeMap;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_types::{
    Cluster, ClusterClass, DESCRIPTORS, Descriptor, RemediationTemplateRef, TemplateMeta, Topology,
};
use controllers_topology::builtins;
use controllers_topology::patches::{self, GroupTemplates, Item, Templates};
use controllers_topology::variables::{Definitions, by_name, default_and_validate};
use serde_json::{Value, json};

use super::GENERATED;
use crate::conversion;
use crate::kinds::cluster_class;
use crate::rules::class_templates;
use crate::rules::json_fields::{get, items, text};

/// Most worker groups: validation refuses more.
const MOST_GROUPS: usize = 2000;

/// Parts of a Cluster that each patch gets for each template.
const VALUES: [&str; 3] = ["spec.topology.variables", "metadata.labels", "metadata.annotations"];

/// Largest size of these parts for all worker groups together. A hundred groups can have half a MiB each. Unit: bytes.
const MOST_VALUES: usize = 64 * 1024 * 1024;

/// Class with its templates, in the versions that the class names.
pub(super) struct Blueprint {
    object: Value,
    class: ClusterClass,
    infrastructure: Value,
    control_plane: Value,
    control_plane_machine: Option<Value>,
    /// By the name of the class of workers.
    workers: BTreeMap<String, WorkerTemplates>,
}

struct WorkerTemplates {
    metadata: Option<TemplateMeta>,
    bootstrap: Value,
    infrastructure: Value,
}

impl Blueprint {
    /// Reads the templates of a class. `None` if one of them does not exist, so that no topology can be made from it.
    ///
    /// # Errors
    /// 503 if the store does not answer.
    pub(super) async fn read(
        object: Value,
        namespace: &str,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<Self>> {
        let Ok(class) = serde_json::from_value::<ClusterClass>(object.clone()) else { return Ok(None) };
        let spec = &class.spec;
        let infrastructure = template(&spec.infrastructure.template_ref, namespace, others).await?;
        let control_plane = template(&spec.control_plane.template_ref, namespace, others).await?;
        let (Some(infrastructure), Some(control_plane)) = (infrastructure, control_plane) else {
            return Ok(None);
        };
        let mut control_plane_machine = None;
        if let Some(holder) = &spec.control_plane.machine_infrastructure {
            control_plane_machine = template(&holder.template_ref, namespace, others).await?;
            if control_plane_machine.is_none() {
                return Ok(None);
            }
        }
        let mut workers = BTreeMap::new();
        let of_workers = spec.workers.as_ref().and_then(|it| it.machine_deployments.as_deref());
        for of in of_workers.unwrap_or_default() {
            let bootstrap = template(&of.bootstrap.template_ref, namespace, others).await?;
            let infrastructure = template(&of.infrastructure.template_ref, namespace, others).await?;
            let (Some(bootstrap), Some(infrastructure)) = (bootstrap, infrastructure) else {
                return Ok(None);
            };
            let metadata = of.metadata.clone();
            workers.insert(of.class.clone(), WorkerTemplates { metadata, bootstrap, infrastructure });
        }
        Ok(Some(Self { object, class, infrastructure, control_plane, control_plane_machine, workers }))
    }

    /// Returns what the templates name after the patches for a Cluster. `None` if a patch fails, or if the Cluster is too large.
    /// Patches of extension servers are left out: no server is called here, and the administrator who registers a server
    /// answers for what it names.
    pub(super) fn used(&self, cluster: &Value) -> Option<Vec<UsedObject>> {
        if is_too_large(cluster) {
            return None;
        }
        let mut cluster = cluster.clone();
        if object::name(&cluster).is_empty() {
            object::set_meta(&mut cluster, "name", GENERATED);
        }
        let definitions = match Definitions::of_spec(&self.object) {
            // The controller of the class knows the variables of extension servers.
            Definitions::Unknown => Definitions::of(&self.object),
            known => known,
        };
        // Validation reports the errors.
        drop(default_and_validate(&mut cluster, None, &definitions));
        let namespace = object::namespace(&cluster).to_owned();
        let cluster: Cluster = serde_json::from_value(cluster).ok()?;
        let topology = cluster.spec.topology.as_ref()?;
        let items = self.items(&cluster, topology);
        let (variables, builtin) = (by_name(topology.variables.as_deref()), builtins::cluster(&cluster));
        let items = patches::apply_definitions(&self.class, &variables, &builtin, items).ok()?;
        Some(items.into_iter().flat_map(|item| used(item.template, &namespace)).collect())
    }

    /// Returns what the class names for a Cluster, whatever values the Cluster has: in its templates, in literal values of
    /// patches, and by defaults of variables. A name with a part that the Cluster gives is not among them.
    pub(super) fn named_by_class(&self, cluster: &Value) -> Vec<UsedObject> {
        let namespace = object::namespace(cluster);
        let of_cluster = [&self.infrastructure, &self.control_plane].into_iter();
        let of_workers = self.workers.values().flat_map(|it| [&it.bootstrap, &it.infrastructure]);
        let templates = of_cluster.chain(&self.control_plane_machine).chain(of_workers);
        let mut named: Vec<UsedObject> =
            templates.flat_map(|template| used(template.clone(), namespace)).collect();
        named.extend(cluster_class::literals(&self.object, namespace));
        named.extend(self.used(&self.neutral(cluster)).unwrap_or_default());
        named.retain(|used| !used.name.contains(GENERATED));
        named
    }

    /// Returns a Cluster of the class and with the same workers, but without values that the writer of a Cluster chooses.
    fn neutral(&self, cluster: &Value) -> Value {
        let without_default = |variable: &Value| {
            let schema = get(variable, "schema.openAPIV3Schema")?;
            let value = placeholder(text(schema, "type").unwrap_or_default());
            let has_default = schema.get("default").is_some();
            (!has_default).then(|| json!({"name": variable.get("name"), "value": value}))
        };
        let variables = items(&self.object, "spec.variables");
        let variables: Vec<Value> = variables.filter_map(|(_, variable)| without_default(variable)).collect();
        let pools = items(cluster, "spec.topology.workers.machineDeployments");
        let pools = pools.map(|(_, pool)| json!({"class": pool.get("class"), "name": GENERATED}));
        let topology = json!({
            "classRef": get(cluster, "spec.topology.classRef"),
            "version": get(cluster, "spec.topology.version"),
            "variables": variables,
            "workers": {"machineDeployments": pools.collect::<Vec<_>>()},
        });
        let metadata = json!({"name": GENERATED, "namespace": object::namespace(cluster)});
        json!({"metadata": metadata, "spec": {"topology": topology}})
    }

    /// Returns the templates of a topology, with their variables. The names that the controller generates are not known, and
    /// the versions are those at the end of an upgrade.
    fn items(&self, cluster: &Cluster, topology: &Topology) -> Vec<Item> {
        let plane = topology.control_plane.clone().unwrap_or_default();
        let of_plane = merged(self.class.spec.control_plane.metadata.as_ref(), plane.metadata.as_ref());
        let pools = topology.workers.iter().flat_map(|it| it.machine_deployments.iter().flatten());
        let pools = pools.filter_map(|pool| {
            let templates = self.workers.get(&pool.class)?;
            // Each group has other names, and a new group has new ones.
            let generated = format!("{GENERATED}-{}", pool.name);
            Some((pool, templates, merged(templates.metadata.as_ref(), pool.metadata.as_ref()), generated))
        });
        let pools: Vec<_> = pools.collect();
        let groups = pools.iter().map(|(pool, templates, metadata, generated)| GroupTemplates {
            topology: pool,
            bootstrap: &templates.bootstrap,
            infrastructure: &templates.infrastructure,
            facts: builtins::Workers {
                version: &topology.version,
                class: &pool.class,
                name: generated,
                topology_name: &pool.name,
                replicas: pool.replicas,
                labels: &metadata.labels,
                annotations: &metadata.annotations,
                bootstrap_name: generated,
                infrastructure_name: generated,
            },
        });
        let control_plane_facts = builtins::ControlPlane {
            name: cluster.spec.control_plane_ref.as_ref().map_or(GENERATED, |it| it.name.as_str()),
            version: &topology.version,
            replicas: plane.replicas,
            labels: &of_plane.labels,
            annotations: &of_plane.annotations,
            infrastructure_name: self.control_plane_machine.is_some().then_some(GENERATED),
        };
        let templates = Templates {
            infrastructure: &self.infrastructure,
            control_plane: &self.control_plane,
            control_plane_machine: self.control_plane_machine.as_ref(),
            control_plane_facts,
            groups: groups.collect(),
        };
        patches::items(cluster, &templates)
    }
}

/// Returns true if the rendering would take too long, or too much memory, for a request. The Cluster has not been validated.
fn is_too_large(cluster: &Value) -> bool {
    let groups = items(cluster, "spec.topology.workers.machineDeployments").count();
    let values = VALUES.into_iter().filter_map(|part| get(cluster, part));
    let size: usize = values.map(|value| value.to_string().len()).sum();
    groups > MOST_GROUPS || groups.saturating_mul(size) > MOST_VALUES
}

/// Returns a value of a type that stands for any other one.
fn placeholder(kind: &str) -> Value {
    match kind {
        "string" => json!(GENERATED),
        "integer" | "number" => json!(0),
        "boolean" => json!(false),
        "array" => json!([]),
        _ => json!({}),
    }
}

/// Labels and annotations.
#[derive(Default)]
struct Metadata {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// Returns the metadata of a topology over those of its class.
fn merged(class: Option<&TemplateMeta>, topology: Option<&TemplateMeta>) -> Metadata {
    let mut merged = Metadata::default();
    for part in [class, topology].into_iter().flatten() {
        merged.labels.extend(part.labels.clone().unwrap_or_default());
        merged.annotations.extend(part.annotations.clone().unwrap_or_default());
    }
    merged
}

fn descriptor(api_version: &str, kind: &str) -> Option<&'static Descriptor> {
    let (group, version) = api_version.split_once('/')?;
    DESCRIPTORS.iter().find(|it| (it.group, it.version, it.kind) == (group, version, kind))
}

/// Reads a template in the version of its reference. `None` if it does not exist, or if its kind is not served here.
async fn template(
    reference: &RemediationTemplateRef,
    namespace: &str,
    others: &dyn ObjectReader,
) -> ApiResult<Option<Value>> {
    let Some(descriptor) = descriptor(&reference.api_version, &reference.kind) else { return Ok(None) };
    let found = others.find(descriptor.group, descriptor.plural, namespace, &reference.name).await?;
    let Some(stored) = found else { return Ok(None) };
    let served = match conversion::of(descriptor) {
        None => Some(stored),
        Some(conversion) => conversion.served(stored).ok(),
    };
    Ok(served.map(|mut template| {
        if let Some(fields) = template.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!(reference.api_version));
            fields.insert("kind".to_owned(), json!(reference.kind));
        }
        template
    }))
}

/// Returns what a template names, once it is in this namespace.
fn used(template: Value, namespace: &str) -> Vec<UsedObject> {
    let field = |name: &str| text(&template, name).unwrap_or_default();
    let (fields, descriptor) =
        (class_templates::of(field("kind")), descriptor(field("apiVersion"), field("kind")));
    let (Some(fields), Some(descriptor)) = (fields, descriptor) else { return Vec::new() };
    let stored = match conversion::of(descriptor) {
        None => Some(template),
        Some(conversion) => conversion.stored(template).ok(),
    };
    let Some(mut stored) = stored else { return Vec::new() };
    object::set_meta(&mut stored, "namespace", namespace);
    fields.used(&stored)
}

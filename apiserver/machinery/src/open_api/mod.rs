//! OpenAPI documents: v3 (one document per group and version) and v2 (one document), from one set of operations and
//! schemas that is computed from the registry.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::resource::{Registry, Resource};
use crate::{metadata, scale};

mod gnostic;
mod gnostic_v3;
mod operations;
mod reviews;
mod v2;

/// Name and version of the API.
static INFO: LazyLock<Value> = LazyLock::new(|| json!({"title": "Capstan", "version": "unversioned"}));

/// Name of `ObjectMeta` and similar schemas in both documents.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns the v3 document of one group and version.
pub fn v3(registry: &Registry, group: &str, version: &str) -> Value {
    let mut schemas = shared_schemas();
    let mut paths = Map::new();
    for resource in registry.of_version(group, version) {
        add_schemas(resource, &mut schemas);
        operations::add_paths(resource, &mut paths);
    }
    json!({"openapi": "3.0.0", "info": INFO.clone(),
        "paths": paths, "components": {"schemas": schemas}})
}

/// Returns the v2 document of all resources.
pub fn v2(registry: &Registry) -> Value {
    let mut schemas = shared_schemas();
    let mut paths = Map::new();
    for resource in registry.resources() {
        add_schemas(resource, &mut schemas);
        operations::add_paths(resource, &mut paths);
    }
    let mut document = json!({"swagger": "2.0", "info": INFO.clone(),
        "paths": paths, "definitions": schemas});
    v2::rewrite(&mut document);
    document
}

/// Encodes the v2 document in protobuf.
pub fn v2_protobuf(document: &Value) -> Vec<u8> {
    gnostic::document(document)
}

/// Encodes a v3 document in protobuf.
pub fn v3_protobuf(document: &Value) -> Vec<u8> {
    gnostic_v3::document(document)
}

/// Returns the v3 document of the reviews of one group.
pub fn v3_of_reviews(group: &str) -> Value {
    let mut schemas = shared_schemas();
    let mut paths = Map::new();
    for review in crate::reviews::ALL.iter().filter(|review| review.group == group) {
        reviews::add(review, &mut schemas, &mut paths);
    }
    json!({"openapi": "3.0.0", "info": INFO.clone(),
        "paths": paths, "components": {"schemas": schemas}})
}

/// Returns the v3 document of a discovery path: `api`, `apis`, `apis/<group>` or `version`.
pub fn v3_of_path(path: &str) -> Value {
    let operation = json!({"description": format!("Discovery document at /{path}."),
        "operationId": operations::discovery_id(path), "tags": [path.replace(['/', '.', '-'], "_")],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true}}}}, "401": {"description": "Unauthorized"}}});
    json!({"openapi": "3.0.0", "info": INFO.clone(), "paths": {(format!("/{path}/")): {"get": operation}},
        "components": {}})
}

/// Returns the name of a kind's schema, e.g. `io.x-k8s.cluster.v1beta2.Machine`.
pub fn schema_name(group: &str, version: &str, kind: &str) -> String {
    if group.is_empty() {
        return format!("io.k8s.api.core.{version}.{kind}");
    }
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// Returns the name of the schema of Scale.
fn schema_name_of_scale() -> String {
    format!("io.k8s.api.{}.{}.{}", scale::GROUP, scale::VERSION, scale::KIND)
}

fn add_schemas(resource: &Resource, schemas: &mut Map<String, Value>) {
    let own = json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    let mut schema = resource.schema.published();
    schema["properties"]["metadata"] = reference("ObjectMeta");
    schema["x-kubernetes-group-version-kind"] = own;
    let name = schema_name(&resource.group, &resource.version, &resource.kind);
    let list = json!({"type": "object", "required": ["items"],
        "description": format!("{} is a list of {}.", resource.list_kind(), resource.kind),
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": reference("ListMeta"),
            "items": {"type": "array", "items": {"$ref": format!("#/components/schemas/{name}")}}},
        "x-kubernetes-group-version-kind":
            [{"group": resource.group, "version": resource.version, "kind": resource.list_kind()}]});
    schemas.insert(schema_name(&resource.group, &resource.version, &resource.list_kind()), list);
    schemas.insert(name, schema);
    if resource.scale.is_some() {
        let mut schema = scale::schema();
        schema["properties"]["metadata"] = reference("ObjectMeta");
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": scale::GROUP, "version": scale::VERSION, "kind": scale::KIND}]);
        schemas.insert(schema_name_of_scale(), schema);
    }
    for verb in &resource.verbs {
        let (group, version, kind) = verb.request_kind();
        // A verb that takes an object of the resource itself, or a part of it, has no schema of another kind.
        if (group, version, kind) == (&*resource.group, &*resource.version, &*resource.kind) {
            continue;
        }
        let mut schema = verb.request_schema().published();
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": group, "version": version, "kind": kind}]);
        schemas.insert(schema_name(group, version, kind), schema);
    }
}

fn reference(kind: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{META}.{kind}")})
}

/// Returns the schemas that every document refers to.
fn shared_schemas() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let mut object_meta = metadata::schema();
    object_meta["description"] = json!("Metadata that every stored object has.");
    let owner_key = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]});
    merge(&mut object_meta["properties"]["ownerReferences"], &owner_key);
    merge(&mut object_meta["properties"]["finalizers"], &json!({"x-kubernetes-list-type": "set"}));
    merge(&mut object_meta["properties"]["managedFields"], &json!({"x-kubernetes-list-type": "atomic"}));
    let schemas = [
        ("ObjectMeta", object_meta),
        (
            "ListMeta",
            json!({"type": "object", "description": "Metadata of a list.", "properties": {
            "continue": text, "remainingItemCount": {"type": "integer", "format": "int64"},
            "resourceVersion": text, "selfLink": text}}),
        ),
        (
            "Status",
            json!({"type": "object", "description": "Result of a request.", "properties": {
            "apiVersion": text, "kind": text, "metadata": reference("ListMeta"), "status": text, "message": text,
            "reason": text, "code": {"type": "integer", "format": "int32"},
            "details": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Status"}]}),
        ),
        (
            "DeleteOptions",
            json!({"type": "object", "description": "Options of a deletion.", "properties": {
            "apiVersion": text, "kind": text, "propagationPolicy": text,
            "gracePeriodSeconds": {"type": "integer", "format": "int64"}, "orphanDependents": {"type": "boolean"},
            "dryRun": {"type": "array", "items": text},
            "ignoreStoreReadErrorWithClusterBreakingPotential": {"type": "boolean"},
            "preconditions": {"type": "object", "properties": {"uid": text, "resourceVersion": text}}}}),
        ),
        ("Patch", json!({"type": "object", "description": "A patch, in the form of its content type."})),
    ];
    schemas.into_iter().map(|(kind, schema)| (format!("{META}.{kind}"), schema)).collect()
}

fn merge(target: &mut Value, more: &Value) {
    if let (Some(target), Some(more)) = (target.as_object_mut(), more.as_object()) {
        target.extend(more.clone());
    }
}

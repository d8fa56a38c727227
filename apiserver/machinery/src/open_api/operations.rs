//! OpenAPI paths: the operations of each kind, in the v3 form.

use serde_json::{Map, Value, json};

use super::{META, schema_name};
use crate::action::ActionMethod;
use crate::resource::Resource;
use crate::reviews::{self, Review};
use crate::scale;

/// Media types of patches.
const PATCH_TYPES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

/// Media types of objects.
pub(super) const FORMS: [&str; 2] = ["application/json", "application/yaml"];

/// One operation.
struct Operation<'a> {
    resource: &'a Resource,
    action: &'static str,
    id: String,
    parameters: Vec<Value>,
    body: Option<(Vec<&'static str>, String)>,
    answer: String,
    code: &'static str,
    /// Group, version and kind of its object, if it is not the resource.
    about: Option<(&'static str, &'static str, &'static str)>,
}

impl Operation<'_> {
    fn to_value(&self) -> Value {
        let resource = self.resource;
        let own = (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str());
        let (group, version, kind) = self.about.unwrap_or(own);
        let schema = |name: &str| json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
        let answer = schema(&self.answer);
        let answers: Map<String, Value> =
            FORMS.iter().map(|form| ((*form).to_owned(), answer.clone())).collect();
        let mut operation = json!({
            "operationId": self.id,
            "tags": [resource.group],
            "parameters": self.parameters,
            "responses": {
                self.code: {"description": "OK", "content": answers},
                "401": {"description": "Unauthorized"}},
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind}});
        if let Some((types, name)) = &self.body {
            let content: Map<String, Value> =
                types.iter().map(|form| ((*form).to_owned(), schema(name))).collect();
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        operation
    }
}

/// Adds all paths of one kind.
pub(super) fn add_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");
    paths.insert(collection, collection_item(resource));
    paths.insert(item.clone(), object_item(resource, "", None));
    if resource.namespaced {
        paths.insert(format!("{root}/{}", resource.plural), all_namespaces_item(resource));
    }
    if resource.status_subresource {
        paths.insert(format!("{item}/status"), object_item(resource, "Status", None));
    }
    if resource.strategy.has_approval() {
        paths.insert(format!("{item}/approval"), object_item(resource, "Approval", None));
    }
    if resource.scale.is_some() {
        let about = (scale::GROUP, scale::VERSION, scale::KIND);
        paths.insert(format!("{item}/scale"), object_item(resource, "Scale", Some(about)));
    }
    if resource.strategy.has_spec_finalizers() {
        paths.insert(format!("{item}/finalize"), finalize_item(resource));
    }
    for verb in &resource.verbs {
        let (group, version, kind) = verb.request_kind();
        let (answer_group, answer_version, answer_kind) = verb.response_kind();
        let is_read = verb.method() == ActionMethod::Get;
        let (action, word, code) = if is_read { ("get", "read", "200") } else { ("post", "create", "201") };
        let parameters = if is_read { Vec::new() } else { vec![query("dryRun", "string")] };
        let operation = Operation {
            resource,
            action,
            id: format!("{word}{}{}{}", title(&resource.group), resource.kind, title(verb.name())),
            parameters,
            body: (!is_read).then(|| (FORMS.to_vec(), schema_name(group, version, kind))),
            answer: schema_name(answer_group, answer_version, answer_kind),
            code,
            about: None,
        };
        // The schema of the response may be in another document; then the response has no schema here.
        let mut operation = operation.to_value();
        if (answer_group, answer_version) != (resource.group.as_str(), resource.version.as_str()) {
            operation["responses"][code] = json!({"description": if is_read { "OK" } else { "Created" }});
        }
        let mut path = json!({"parameters": path_parameters(resource, true)});
        path[action] = operation;
        paths.insert(format!("{item}/{}", verb.name()), path);
    }
}

fn own(resource: &Resource) -> String {
    schema_name(&resource.group, &resource.version, &resource.kind)
}

fn own_list(resource: &Resource) -> String {
    schema_name(&resource.group, &resource.version, &resource.list_kind())
}

pub(super) fn write_parameters() -> Vec<Value> {
    ["dryRun", "fieldManager", "fieldValidation"].into_iter().map(|name| query(name, "string")).collect()
}

fn list_parameters() -> Vec<Value> {
    let text = ["continue", "fieldSelector", "labelSelector", "resourceVersion", "resourceVersionMatch"];
    let mut parameters: Vec<Value> = text.into_iter().map(|name| query(name, "string")).collect();
    parameters.extend(["limit", "timeoutSeconds"].map(|name| query(name, "integer")));
    parameters
        .extend(["allowWatchBookmarks", "sendInitialEvents", "watch"].map(|name| query(name, "boolean")));
    parameters
}

fn query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind}})
}

fn path_parameters(resource: &Resource, named: bool) -> Vec<Value> {
    let names = [("namespace", resource.namespaced), ("name", named)];
    let wanted = names.into_iter().filter(|(_, wanted)| *wanted);
    wanted
        .map(|(name, _)| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect()
}

fn collection_item(resource: &Resource) -> Value {
    let id =
        |verb: &str| format!("{verb}{}{}{}", title(&resource.group), title(&resource.version), resource.kind);
    let forms = FORMS.to_vec();
    let list = Operation {
        resource,
        action: "list",
        id: id("list"),
        parameters: list_parameters(),
        body: None,
        answer: own_list(resource),
        code: "200",
        about: None,
    };
    let create = Operation {
        resource,
        action: "post",
        id: id("create"),
        parameters: write_parameters(),
        body: Some((forms, own(resource))),
        answer: own(resource),
        code: "201",
        about: None,
    };
    let delete = Operation {
        resource,
        action: "deletecollection",
        id: id("deleteCollection"),
        parameters: list_parameters(),
        body: None,
        answer: format!("{META}.Status"),
        code: "200",
        about: None,
    };
    let mut item = json!({"parameters": path_parameters(resource, false), "get": list.to_value(),
        "post": create.to_value()});
    if resource.strategy.deletes_collections() {
        item["delete"] = delete.to_value();
    }
    allowed(resource, item)
}

/// Removes the operations that change objects, if the kind is read-only.
fn allowed(resource: &Resource, mut item: Value) -> Value {
    if let Some(operations) = item.as_object_mut().filter(|_| resource.strategy.is_read_only()) {
        operations.retain(|key, _| key == "parameters" || key == "get");
    }
    item
}

fn all_namespaces_item(resource: &Resource) -> Value {
    let id = format!(
        "list{}{}{}ForAllNamespaces",
        title(&resource.group),
        title(&resource.version),
        resource.kind
    );
    let list = Operation {
        resource,
        action: "list",
        id,
        parameters: list_parameters(),
        body: None,
        answer: own_list(resource),
        code: "200",
        about: None,
    };
    json!({"get": list.to_value()})
}

/// Returns the operations of an object, or of a subresource with another kind.
fn object_item(
    resource: &Resource,
    part: &str,
    about: Option<(&'static str, &'static str, &'static str)>,
) -> Value {
    let shown = if about.is_some() { super::schema_name_of_scale() } else { own(resource) };
    let id = |verb: &str| {
        format!("{verb}{}{}{}{part}", title(&resource.group), title(&resource.version), resource.kind)
    };
    let forms = FORMS.to_vec();
    let mut patch_parameters = write_parameters();
    patch_parameters.push(query("force", "boolean"));
    let get = Operation {
        resource,
        action: "get",
        id: id("read"),
        parameters: vec![query("resourceVersion", "string")],
        body: None,
        answer: shown.clone(),
        code: "200",
        about,
    };
    let put = Operation {
        resource,
        action: "put",
        id: id("replace"),
        parameters: write_parameters(),
        body: Some((forms, shown.clone())),
        answer: shown.clone(),
        code: "200",
        about,
    };
    let patch = Operation {
        resource,
        action: "patch",
        id: id("patch"),
        parameters: patch_parameters,
        body: Some((PATCH_TYPES.to_vec(), format!("{META}.Patch"))),
        answer: shown.clone(),
        code: "200",
        about,
    };
    let mut item = json!({"parameters": path_parameters(resource, true), "get": get.to_value(), "put": put.to_value(),
        "patch": patch.to_value()});
    if part.is_empty() {
        item["delete"] = delete_operation(resource, id("delete"));
    }
    allowed(resource, item)
}

/// Query parameters of a deletion: the fields of `DeleteOptions` that have a text form, as upstream lists them.
fn delete_parameters() -> Vec<Value> {
    vec![
        query("dryRun", "string"),
        query("gracePeriodSeconds", "integer"),
        query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
        query("orphanDependents", "boolean"),
        query("propagationPolicy", "string"),
    ]
}

/// The deletion of one object. Its body is optional, and it has a second success code.
fn delete_operation(resource: &Resource, id: String) -> Value {
    let delete = Operation {
        resource,
        action: "delete",
        id,
        parameters: delete_parameters(),
        body: Some((FORMS.to_vec(), format!("{META}.DeleteOptions"))),
        answer: format!("{META}.Status"),
        code: "200",
        about: None,
    };
    let mut operation = delete.to_value();
    let mut accepted = operation["responses"]["200"].clone();
    accepted["description"] = json!("Accepted");
    operation["responses"]["202"] = accepted;
    if let Some(body) = operation["requestBody"].as_object_mut() {
        body.remove("required");
    }
    operation
}

/// Returns the operations of the subresource that can only be replaced.
fn finalize_item(resource: &Resource) -> Value {
    let mut item = object_item(resource, "Finalize", None);
    if let Some(operations) = item.as_object_mut() {
        operations.retain(|key, _| key == "parameters" || key == "put");
    }
    item
}

/// Returns the id of the operation that posts a review.
pub(super) fn review_id(review: &Review) -> String {
    let scope = if review.namespaced { "Namespaced" } else { "" };
    format!("create{}{}{scope}{}", title(review.group), title(reviews::VERSION), review.kind)
}

/// Returns the id of the operation that reads a discovery path.
pub(super) fn discovery_id(path: &str) -> String {
    format!("get{}Discovery", path.split('/').map(title).collect::<String>())
}

/// Converts a group such as `cluster.x-k8s.io` into a part of an operation id: `ClusterXK8sIo`.
fn title(text: &str) -> String {
    text.split(['.', '-'])
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|first| first.to_uppercase().chain(letters).collect::<String>())
                .unwrap_or_default()
        })
        .collect()
}

//! OpenAPI of the reviews: their schemas, and the one operation of each.

use serde_json::{Map, Value, json};

use super::{operations, reference, schema_name};
use crate::reviews::{Review, VERSION};

/// Adds the schema and the path of one review.
pub(super) fn add(review: &Review, schemas: &mut Map<String, Value>, paths: &mut Map<String, Value>) {
    let own = json!({"group": review.group, "version": VERSION, "kind": review.kind});
    let name = schema_name_of(review);
    let body = json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}},
        "application/yaml": {"schema": {"$ref": format!("#/components/schemas/{name}")}}});
    let operation = json!({"operationId": operations::review_id(review), "tags": [review.group],
        "parameters": operations::write_parameters(),
        "requestBody": {"required": true, "content": body},
        "responses": {"201": {"description": "Created", "content": body},
            "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": "post", "x-kubernetes-group-version-kind": own});
    let scope = if review.namespaced { "/namespaces/{namespace}" } else { "" };
    let path = format!("/apis/{}/{VERSION}{scope}/{}", review.group, review.plural);
    let parameters =
        json!([{"name": "namespace", "in": "path", "required": true, "schema": {"type": "string"}}]);
    let mut item = json!({"post": operation});
    if review.namespaced {
        item["parameters"] = parameters;
    }
    paths.insert(path, item);
    schemas.insert(name, schema(review));
}

/// Returns upstream's name of the schema: below the name of its own API, like the kinds of core.
fn schema_name_of(review: &Review) -> String {
    let group = review.group.split('.').next().unwrap_or_default();
    let name = schema_name("", VERSION, review.kind);
    name.replacen(".core.", &format!(".{group}."), 1)
}

fn schema(review: &Review) -> Value {
    let text = json!({"type": "string"});
    let mut schema = json!({"type": "object",
        "properties": {"apiVersion": text, "kind": text, "metadata": reference("ObjectMeta"), "status": status(review.kind)},
        "x-kubernetes-group-version-kind": [{"group": review.group, "version": VERSION, "kind": review.kind}]});
    schema["description"] = json!(description(review.kind));
    if review.kind != "SelfSubjectReview" {
        schema["required"] = json!(["spec"]);
        schema["properties"]["spec"] = spec(review.kind);
    }
    schema
}

fn description(kind: &str) -> &'static str {
    match kind {
        "SelfSubjectReview" => "Returns the identity of the caller.",
        "TokenReview" => "Returns the identity that a token proves.",
        "SelfSubjectRulesReview" => "Returns the permissions of the caller in a namespace.",
        "SelfSubjectAccessReview" => "Checks whether the caller may perform an action.",
        "LocalSubjectAccessReview" => {
            "Checks whether a user or group may perform an action in a given namespace."
        }
        _ => "Checks whether a user or group may perform an action.",
    }
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"})
}

fn spec(kind: &str) -> Value {
    let text = json!({"type": "string"});
    let texts = list(&text);
    if kind == "SelfSubjectRulesReview" {
        return json!({"type": "object", "description": "Namespace of the permissions.", "properties": {"namespace": text}});
    }
    if kind == "TokenReview" {
        return json!({"type": "object", "description": "The token.", "properties": {"token": text, "audiences": texts}});
    }
    let requirement = json!({"type": "object", "required": ["key", "operator"],
        "properties": {"key": text, "operator": text, "values": texts}});
    let selector =
        json!({"type": "object", "properties": {"rawSelector": text, "requirements": list(&requirement)}});
    let mut spec = json!({"type": "object",
        "description": "The action: exactly one of resourceAttributes and nonResourceAttributes is set.",
        "properties": {
            "resourceAttributes": {"type": "object", "description": "Action on a resource of the API.",
                "properties": {"namespace": text, "verb": text, "group": text, "version": text, "resource": text,
                    "subresource": text, "name": text, "fieldSelector": selector, "labelSelector": selector}},
            "nonResourceAttributes": {"type": "object", "description": "Action on another path.",
                "properties": {"path": text, "verb": text}}}});
    if kind != "SelfSubjectAccessReview" {
        spec["properties"]["user"] = text.clone();
        spec["properties"]["groups"] = texts.clone();
        spec["properties"]["uid"] = text;
        spec["properties"]["extra"] = json!({"type": "object", "additionalProperties": texts});
    }
    spec
}

fn status(kind: &str) -> Value {
    let text = json!({"type": "string"});
    let texts = list(&text);
    let user = |description: &str| {
        json!({"type": "object", "description": description, "properties": {"username": text, "uid": text,
            "groups": texts, "extra": {"type": "object", "additionalProperties": texts}}})
    };
    match kind {
        "SelfSubjectReview" => json!({"type": "object", "description": "Result of the review.",
            "properties": {"userInfo": user("Attributes of the caller.")}}),
        "TokenReview" => json!({"type": "object", "description": "Result of the review.", "properties": {
            "authenticated": {"type": "boolean"}, "user": user("Attributes of the token's user."),
            "audiences": texts, "error": text}}),
        "SelfSubjectRulesReview" => {
            let resource = json!({"type": "object", "required": ["verbs"],
                "properties": {"verbs": texts, "apiGroups": texts, "resources": texts, "resourceNames": texts}});
            let path = json!({"type": "object", "required": ["verbs"],
                "properties": {"verbs": texts, "nonResourceURLs": texts}});
            json!({"type": "object", "description": "Result of the review.",
                "required": ["resourceRules", "nonResourceRules", "incomplete"],
                "properties": {"resourceRules": list(&resource), "nonResourceRules": list(&path),
                    "incomplete": {"type": "boolean"}, "evaluationError": text}})
        }
        _ => {
            json!({"type": "object", "description": "Result of the review.", "required": ["allowed"], "properties": {
            "allowed": {"type": "boolean"}, "denied": {"type": "boolean"}, "reason": text, "evaluationError": text}})
        }
    }
}

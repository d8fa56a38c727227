//! Kinds of `admissionregistration.k8s.io/v1` that the direct endpoint serves: webhook configurations and policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use serde_json::{Value, json};

use crate::core_kinds::core_kind;
use crate::descriptor::{Described, Descriptor};
use crate::schema::{object, structural};

/// API group of webhook configurations and policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

const fn descriptor(kind: &'static str, plural: &'static str, singular: &'static str) -> Descriptor {
    Descriptor {
        group: GROUP,
        version: "v1",
        kind,
        plural,
        singular,
        short_names: &[],
        categories: &["api-extensions"],
        namespaced: false,
        status_subresource: false,
        scale: None,
        deprecation: None,
        columns: &[],
    }
}

core_kind! {
    /// MutatingWebhookConfiguration of `admissionregistration.k8s.io/v1`.
    MutatingWebhookConfiguration, mutating_webhooks,
    descriptor("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "mutatingwebhookconfiguration")
}

core_kind! {
    /// ValidatingWebhookConfiguration of `admissionregistration.k8s.io/v1`.
    ValidatingWebhookConfiguration, validating_webhooks,
    descriptor("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "validatingwebhookconfiguration")
}

core_kind! {
    /// MutatingAdmissionPolicy of `admissionregistration.k8s.io/v1`.
    MutatingAdmissionPolicy, mutating_policy,
    descriptor("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "mutatingadmissionpolicy")
}

core_kind! {
    /// MutatingAdmissionPolicyBinding of `admissionregistration.k8s.io/v1`.
    MutatingAdmissionPolicyBinding, mutating_binding,
    descriptor("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", "mutatingadmissionpolicybinding")
}

core_kind! {
    /// ValidatingAdmissionPolicy of `admissionregistration.k8s.io/v1`.
    ValidatingAdmissionPolicy, policy, Descriptor {
        status_subresource: true,
        ..descriptor("ValidatingAdmissionPolicy", "validatingadmissionpolicies", "validatingadmissionpolicy")
    }
}

core_kind! {
    /// ValidatingAdmissionPolicyBinding of `admissionregistration.k8s.io/v1`.
    ValidatingAdmissionPolicyBinding, binding,
    descriptor("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "validatingadmissionpolicybinding")
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn with_default(description: &str, default: &str) -> Value {
    json!({"type": "string", "description": description, "default": default})
}

fn texts(description: &str) -> Value {
    json!({"type": "array", "description": description, "items": {"type": "string"},
        "x-kubernetes-list-type": "atomic"})
}

fn list(description: &str, items: &Value) -> Value {
    json!({"type": "array", "description": description, "items": items, "x-kubernetes-list-type": "atomic"})
}

fn by_name(description: &str, items: &Value) -> Value {
    json!({"type": "array", "description": description, "items": items, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"]})
}

fn selector(description: &str) -> Value {
    let mut selector = structural::<LabelSelector>();
    selector["description"] = json!(description);
    selector["default"] = json!({});
    selector
}

/// Returns the fields of a rule.
fn rule() -> Value {
    json!({
        "operations": texts("Operations: CREATE, UPDATE, DELETE or CONNECT. `*` is all operations."),
        "apiGroups": texts("API groups. The empty text is the core group, and `*` is all groups."),
        "apiVersions": texts("API versions. `*` is all versions."),
        "resources": texts("Plurals. `pods/log` is one subresource, `pods/*` is all subresources of one resource, \
            `*/scale` is that subresource of all resources, `*` is all resources without their subresources, and \
            `*/*` is all of them."),
        "scope": with_default("Scope of the resources: Cluster, Namespaced or `*` for both.", "*"),
    })
}

fn rules() -> Value {
    list(
        "Requests that the webhook receives. A request that matches one rule matches.",
        &json!({"type": "object", "description": "Operations on resources.", "properties": rule()}),
    )
}

fn named_rules(description: &str) -> Value {
    let mut fields = rule();
    fields["resourceNames"] = texts("Names of objects. An empty list matches all names.");
    list(
        description,
        &json!({"type": "object", "description": "Operations on resources.",
        "x-kubernetes-map-type": "atomic", "properties": fields}),
    )
}

fn match_policy() -> Value {
    with_default(
        "Match of other versions of the resource: Equivalent converts the object to a version in the rules, \
        Exact ignores the request.",
        "Equivalent",
    )
}

fn match_conditions() -> Value {
    by_name(
        "Conditions in CEL that a request must meet in addition to the rules. At most 64.",
        &json!({"type": "object", "description": "Condition of a request.", "required": ["name"], "properties": {
            "name": text("Name of the condition, for messages."),
            "expression": text("Expression in CEL that is true or false."),
        }}),
    )
}

fn webhook() -> Value {
    let client = json!({"type": "object", "description": "Address of the webhook.", "properties": {
        "url": text("URL of the webhook: `https://host[:port][/path]`."),
        "service": {"type": "object", "description": "Service of the cluster. Capstan runs no Services and refuses \
            this field; set `url`.", "properties": {
            "namespace": text("Namespace of the Service."),
            "name": text("Name of the Service."),
            "path": text("Path of the URL."),
            "port": {"type": "integer", "format": "int32", "description": "Port of the Service.", "default": 443},
        }},
        "caBundle": {"type": "string", "format": "byte", "description": "CAs of the webhook's serving certificate, in \
            PEM. Without it, the CAs of the system are trusted."},
    }});
    json!({"type": "object", "description": "Webhook that is called for matching requests.", "required": ["name"],
    "properties": {
        "name": text("Full name of the webhook, such as `imagepolicy.example.org`."),
        "clientConfig": client,
        "rules": rules(),
        "failurePolicy": with_default("Result of a request whose webhook cannot be called: Fail or Ignore.", "Fail"),
        "matchPolicy": match_policy(),
        "namespaceSelector": selector("Namespaces of the objects. Cluster-scoped objects always match."),
        "objectSelector": selector("Labels of the object or of the old object."),
        "sideEffects": text("Side effects of the webhook: None or NoneOnDryRun."),
        "timeoutSeconds": {"type": "integer", "format": "int32", "description": "Time limit of a call, from 1 to 30 \
            seconds.", "default": 10},
        "admissionReviewVersions": texts("Versions of AdmissionReview that the webhook understands. One of them must \
            be v1."),
        "matchConditions": match_conditions(),
    }})
}

fn webhooks(description: &str, webhook: &Value) -> Value {
    let mut schema = object(description, None, None, false);
    schema["properties"]["webhooks"] = by_name("Webhooks, in the order of their calls.", webhook);
    schema
}

fn validating_webhooks() -> Value {
    webhooks("Webhooks that accept or reject requests and change nothing.", &webhook())
}

fn mutating_webhooks() -> Value {
    let mut webhook = webhook();
    webhook["properties"]["reinvocationPolicy"] = with_default(
        "Second call of the webhook after a later webhook has changed the object: Never or IfNeeded.",
        "Never",
    );
    webhooks("Webhooks that may change the objects of requests.", &webhook)
}

fn match_resources(description: &str) -> Value {
    json!({"type": "object", "description": description, "x-kubernetes-map-type": "atomic", "properties": {
        "namespaceSelector": selector("Namespaces of the objects. Cluster-scoped objects always match."),
        "objectSelector": selector("Labels of the object or of the old object."),
        "resourceRules": named_rules("Requests that match."),
        "excludeResourceRules": named_rules("Requests that do not match, whatever the other rules say."),
        "matchPolicy": match_policy(),
    }})
}

fn policy() -> Value {
    let validation = json!({"type": "object", "description": "Rule for the object.", "properties": {
        "expression": text("Expression in CEL that is true for valid requests. It reads object, oldObject, request, \
            params, namespaceObject, authorizer and variables."),
        "message": text("Message of the refusal."),
        "messageExpression": text("Expression in CEL that makes the message. It has precedence over `message`."),
        "reason": text("Reason of the refusal: Forbidden, Invalid (the default) or \
            RequestEntityTooLarge."),
    }});
    let annotation = json!({"type": "object", "description": "Annotation of the audit event.", "properties": {
        "key": text("Key. The name of the policy precedes it, with a slash."),
        "valueExpression": text("Expression in CEL that makes the value. Null or an empty text adds no annotation."),
    }});
    let variable = json!({"type": "object", "description": "Value that later expressions read as \
        `variables.<name>`.", "x-kubernetes-map-type": "atomic", "required": ["name"], "properties": {
        "name": text("Name of the variable."),
        "expression": text("Expression in CEL. It is evaluated when it is first needed."),
    }});
    let spec = json!({"type": "object", "description": "Rules of the policy.", "properties": {
        "paramKind": {"type": "object", "description": "Kind of the objects with parameters. It must be served here.",
            "x-kubernetes-map-type": "atomic", "properties": {
            "apiVersion": text("Group and version of the kind."),
            "kind": text("Kind."),
        }},
        "matchConstraints": match_resources("Requests that the policy is for."),
        "validations": list("Rules for the object.", &validation),
        "failurePolicy": with_default("Result of a request for which an expression fails: Fail or Ignore.", "Fail"),
        "auditAnnotations": list("Annotations of the audit event.", &annotation),
        "matchConditions": match_conditions(),
        "variables": by_name("Values that the expressions share.", &variable),
    }});
    let warning = json!({"type": "object", "description": "Warning about an expression.", "properties": {
        "fieldRef": text("Path of the field with the expression."),
        "warning": text("Text of the warning."),
    }});
    let status = json!({"type": "object", "description": "State of the policy.", "properties": {
        "observedGeneration": {"type": "integer", "format": "int64", "description": "Generation that the status is \
            for."},
        "typeChecking": {"type": "object", "description": "Result of the type check.", "properties": {
            "expressionWarnings": list("Warnings.", &warning),
        }},
        "conditions": {"type": "array", "description": "Conditions.", "items": structural::<Condition>(),
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    }});
    object(
        "Rules in CEL that accept or reject requests. A ValidatingAdmissionPolicyBinding puts them into force.",
        Some(spec),
        Some(status),
        false,
    )
}

fn binding_fields() -> Value {
    let params = json!({"type": "object", "description": "Objects with parameters of the policy.",
    "x-kubernetes-map-type": "atomic", "properties": {
        "name": text("Name of the object."),
        "namespace": text("Namespace of the object. Default: the namespace of the request."),
        "selector": structural::<LabelSelector>(),
        "parameterNotFoundAction": text("Result without such an object: Allow or Deny."),
    }});
    json!({
        "policyName": text("Name of the policy."),
        "paramRef": params,
        "matchResources": match_resources("Requests that the binding is for. Default: all that match the policy."),
    })
}

fn binding() -> Value {
    let mut fields = binding_fields();
    fields["validationActions"] = json!({"type": "array", "description": "Consequences of a failed validation: Deny, Warn or \
            Audit.", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let spec = json!({"type": "object", "description": "Policy, and the requests that it decides.", "properties": fields});
    object("Binding of a ValidatingAdmissionPolicy to requests and parameters.", Some(spec), None, false)
}

fn mutating_binding() -> Value {
    let spec = json!({"type": "object", "description": "Policy, and the requests that it changes.",
        "properties": binding_fields()});
    object("Binding of a MutatingAdmissionPolicy to requests and parameters.", Some(spec), None, false)
}

fn mutating_policy() -> Value {
    let expression = |description: &str| {
        json!({"type": "object", "description": description, "properties": {
            "expression": text("Expression in CEL that makes the patch. It reads object, oldObject, request, params, \
                namespaceObject, authorizer and variables."),
        }})
    };
    let mutation = json!({"type": "object", "description": "Change of the object.", "properties": {
        "patchType": text("ApplyConfiguration or JSONPatch."),
        "applyConfiguration": expression("Fields that are merged into the object, as in a server-side apply."),
        "jsonPatch": expression("Operations of a JSON patch."),
    }});
    let mut spec = policy();
    let mut spec = spec["properties"]["spec"].take();
    if let Some(fields) = spec["properties"].as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "validations" | "auditAnnotations"));
    }
    spec["properties"]["mutations"] = list("Changes, in their order.", &mutation);
    spec["properties"]["reinvocationPolicy"] =
        text("Second evaluation of the policy after a later change of the object: Never or IfNeeded.");
    object(
        "Changes of objects in CEL. A MutatingAdmissionPolicyBinding puts them into force.",
        Some(spec),
        None,
        false,
    )
}

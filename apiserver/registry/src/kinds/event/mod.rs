//! Event of the core group: strategy, validation, table and protobuf form.

mod table;

use apiserver_machinery::admission::GrantingWrite;
use apiserver_machinery::metadata::is_qualified_name;
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::OwnTable;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::{Value, json};

/// Fields by which `kubectl describe` and other clients select Events.
pub(crate) const SELECTABLE: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
    "source.component",
];

/// Longest action, reason and reporting instance of an Event with an `eventTime`: upstream's limit. Unit: bytes.
const LONGEST_WORD: usize = 128;

/// Longest message of an Event with an `eventTime`: upstream's limit. Unit: bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Group of machines.
const MACHINES: &str = "system:machines";

/// Namespaces of Events about cluster-scoped objects.
const CLUSTER_SCOPED: [&str; 2] = ["default", "kube-system"];

/// Strategy of Event. In the core group, validation is looser for Events without an `eventTime`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventStrategy;

#[async_trait]
impl Strategy for EventStrategy {
    /// A machine writes Events about its own Machine alone.
    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        let caller = write.permissions.caller();
        if !caller.groups.iter().any(|group| group == MACHINES) {
            return Ok(());
        }
        let events = [Some(write.new), write.old];
        if events.into_iter().flatten().all(|event| is_about(event, &caller.username, caller.uid.as_deref()))
        {
            return Ok(());
        }
        let why = "a machine writes Events about its own Machine only";
        Err(ApiError::forbidden("", "events", object::name(write.new), why))
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let dated = new.get("eventTime").is_some_and(|time| !time.is_null());
        validate_namespace(new, dated, &mut errors);
        if dated {
            validate_dated(new, &mut errors);
        }
        errors
    }

    fn table(&self) -> Option<OwnTable> {
        Some(table::TABLE)
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

/// Returns true if an Event is about the Machine of this user, `system:machine:NAMESPACE:NAME`.
fn is_about(event: &Value, user: &str, uid: Option<&str>) -> bool {
    let part = |field: &str| {
        object::at(event, &format!("involvedObject.{field}")).and_then(Value::as_str).unwrap_or_default()
    };
    let is_kind = part("kind") == "Machine" && part("apiVersion").starts_with("cluster.x-k8s.io/");
    let own = format!("system:machine:{}:{}", part("namespace"), part("name"));
    is_kind && own == user && Some(part("uid")) == uid
}

/// Validates that an Event is in the namespace of its object.
fn validate_namespace(new: &Value, dated: bool, errors: &mut Vec<FieldError>) {
    let namespace = object::namespace(new);
    let involved = object::at(new, "involvedObject.namespace").and_then(Value::as_str).unwrap_or_default();
    let fits = match (involved.is_empty(), dated) {
        (true, true) => CLUSTER_SCOPED.contains(&namespace),
        (true, false) => namespace == "default",
        (false, true) => true,
        (false, false) => namespace == involved,
    };
    if !fits {
        let path = FieldPath::new("involvedObject.namespace");
        errors.push(FieldError::invalid(path, &json!(involved), "does not match event.namespace"));
    }
}

fn validate_dated(new: &Value, errors: &mut Vec<FieldError>) {
    let text = |field: &str| new.get(field).and_then(Value::as_str).unwrap_or_default();
    let component = text("reportingComponent");
    if component.is_empty() {
        errors.push(FieldError::required(FieldPath::new("reportingComponent"), ""));
    } else if !is_qualified_name(component) {
        let detail = "must be a qualified name, e.g. example.com/controller";
        errors.push(FieldError::invalid(FieldPath::new("reportingComponent"), &json!(component), detail));
    }
    for field in ["reportingInstance", "action", "reason"] {
        let found = text(field);
        if found.is_empty() {
            errors.push(FieldError::required(FieldPath::new(field), ""));
        } else if found.len() > LONGEST_WORD {
            let detail = format!("can have at most {LONGEST_WORD} characters");
            errors.push(FieldError::invalid(FieldPath::new(field), &json!(""), &detail));
        }
    }
    if text("message").len() > LONGEST_MESSAGE {
        let detail = format!("can have at most {LONGEST_MESSAGE} characters");
        errors.push(FieldError::invalid(FieldPath::new("message"), &json!(""), &detail));
    }
}

/// Protobuf message.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::new(2, "involvedObject", Shape::Message(REFERENCE)),
    Field::new(3, "reason", Shape::Text),
    Field::new(4, "message", Shape::Text),
    Field::new(5, "source", Shape::Message(SOURCE)),
    Field::new(6, "firstTimestamp", Shape::Time),
    Field::new(7, "lastTimestamp", Shape::Time),
    Field::new(8, "count", Shape::Integer),
    Field::new(9, "type", Shape::Text),
    Field::new(10, "eventTime", Shape::MicroTime),
    Field::new(11, "series", Shape::Message(SERIES)),
    Field::new(12, "action", Shape::Text),
    Field::new(13, "related", Shape::Message(REFERENCE)),
    Field::new(14, "reportingComponent", Shape::Text),
    Field::new(15, "reportingInstance", Shape::Text),
];

const REFERENCE: &[Field] = &[
    Field::new(1, "kind", Shape::Text),
    Field::new(2, "namespace", Shape::Text),
    Field::new(3, "name", Shape::Text),
    Field::new(4, "uid", Shape::Text),
    Field::new(5, "apiVersion", Shape::Text),
    Field::new(6, "resourceVersion", Shape::Text),
    Field::new(7, "fieldPath", Shape::Text),
];

const SOURCE: &[Field] = &[Field::new(1, "component", Shape::Text), Field::new(2, "host", Shape::Text)];

const SERIES: &[Field] =
    &[Field::new(1, "count", Shape::Integer), Field::new(2, "lastObservedTime", Shape::MicroTime)];

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(event: &Value) -> Vec<String> {
        EventStrategy.validate(event, None).iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn an_event_is_in_the_namespace_of_its_object() {
        let at = |namespace: &str, involved: &str| json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": involved}});
        for (namespace, involved, good) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "", false),
            ("default", "", true),
            ("kube-system", "", false),
        ] {
            assert_eq!(errors(&at(namespace, involved)).is_empty(), good, "{namespace} about {involved}");
        }
    }

    #[test]
    fn an_event_with_an_event_time_needs_reporter_action_and_reason() {
        let mut event = json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "a"},
            "eventTime": "2026-11-21T06:00:00.000000Z", "reportingComponent": "capstan.dev/x",
            "reportingInstance": "x-1", "action": "Reboot", "reason": "Rebooted"});
        assert_eq!(errors(&event), Vec::<String>::new());
        event["reason"] = json!("r".repeat(129));
        event["message"] = json!("m".repeat(1025));
        event["reportingComponent"] = json!("a b");
        event.as_object_mut().unwrap().remove("action");
        assert_eq!(errors(&event), ["reportingComponent", "action", "reason", "message"]);
    }
}

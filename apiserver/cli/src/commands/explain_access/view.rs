//! Output of the command: the answers as JSON for programs, and as a table for people.

use serde_json::{Map, Value, json};

use super::review::{Object, Question};
use crate::output::{columns, span};

/// Id of the form.
const SCHEMA: &str = "capstan.dev/explain-access/v1";

/// Returns the view of an answered question. Fields are added, and never renamed or removed.
pub(super) fn view(question: &Question, status: &Value) -> Value {
    let mut user = json!({"name": question.user, "groups": question.groups, "realm": status["realm"]});
    if let Some(uid) = &question.uid {
        user["uid"] = json!(uid);
    }
    json!({
        "schema": SCHEMA,
        "endpoint": question.endpoint.name(),
        "user": user,
        "request": request(question),
        "authorizers": status["authorizers"],
        "verdict": verdict(status),
    })
}

fn request(question: &Question) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: &str| {
        // The core group is empty, and has a meaning.
        if !value.is_empty() || name == "group" {
            fields.insert(name.to_owned(), json!(value));
        }
    };
    set("verb", &question.verb);
    match &question.object {
        Object::Path(path) => set("path", path),
        Object::Resource { resource, subresource, namespace, name } => {
            set("group", &resource.group);
            set("resource", &resource.plural);
            set("subresource", subresource);
            set("namespace", namespace);
            set("name", name);
        }
    }
    Value::Object(fields)
}

/// Returns the verdict with the HTTP status of a refused request.
fn verdict(status: &Value) -> Value {
    let is = |field: &str| status[field] == json!(true);
    let error = status["evaluationError"].as_str();
    let (answer, code) = match (is("allowed"), error) {
        (true, _) => ("Allowed", None),
        (false, Some(_)) => ("Unavailable", Some(503)),
        (false, None) if is("denied") => ("Denied", Some(403)),
        (false, None) => ("NoOpinion", Some(403)),
    };
    let reason = error.or_else(|| status["reason"].as_str()).unwrap_or_default();
    let mut verdict = json!({"answer": answer, "reason": reason, "decidedBy": status["decidedBy"]});
    if let Some(code) = code {
        verdict["httpStatus"] = json!(code);
    }
    verdict
}

/// Returns the view as text.
pub(super) fn text(view: &Value) -> String {
    let summary = [
        ["REQUEST".to_owned(), request_text(&view["request"])],
        ["USER".to_owned(), user_text(&view["user"])],
        ["ENDPOINT".to_owned(), word(&view["endpoint"])],
    ];
    let titles = ["AUTHORIZER", "ANSWER", "AGE", "REASON"].map(str::to_owned);
    let answers = view["authorizers"].as_array().into_iter().flatten().map(|answer| {
        let age = answer["ageSeconds"].as_i64().map_or_else(|| "-".to_owned(), span);
        [word(&answer["name"]), answer_text(&answer["answer"]), age, word(&answer["reason"])]
    });
    let rows: Vec<[String; 4]> = std::iter::once(titles).chain(answers).collect();
    let verdict = [["VERDICT".to_owned(), verdict_text(&view["verdict"])]];
    [columns(&summary), columns(&rows), columns(&verdict)].join("\n")
}

fn request_text(request: &Value) -> String {
    let part = |field: &str| request[field].as_str().unwrap_or_default();
    let verb = part("verb");
    if !part("path").is_empty() {
        return format!("{verb} path {}", part("path"));
    }
    let mut text = format!("{verb} {}", part("resource"));
    for (before, field) in [(".", "group"), ("/", "subresource"), (" ", "name")] {
        if !part(field).is_empty() {
            text.push_str(&format!("{before}{}", part(field)));
        }
    }
    match part("namespace") {
        "" => format!("{text}, in no namespace or in all"),
        namespace => format!("{text}, in namespace {namespace}"),
    }
}

fn user_text(user: &Value) -> String {
    let groups: Vec<String> = user["groups"].as_array().into_iter().flatten().map(word).collect();
    format!("{}, of realm {}, in groups {}", word(&user["name"]), word(&user["realm"]), groups.join(", "))
}

fn verdict_text(verdict: &Value) -> String {
    let (by, reason) = (word(&verdict["decidedBy"]), word(&verdict["reason"]));
    let text = match verdict["answer"].as_str() {
        Some("Allowed") => return format!("allowed by {by}"),
        Some("Denied") => format!("403: denied by {by}"),
        Some("Unavailable") => "503: no authorizer allows it, and one could not decide".to_owned(),
        _ => "403: no authorizer allows it".to_owned(),
    };
    if reason == "-" { text } else { format!("{text}: {reason}") }
}

fn answer_text(answer: &Value) -> String {
    match answer.as_str() {
        Some("NoOpinion") => "no opinion".to_owned(),
        Some(other) => other.to_lowercase(),
        None => "-".to_owned(),
    }
}

fn word(field: &Value) -> String {
    field.as_str().filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

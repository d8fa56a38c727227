//! Audit event.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use apiserver_access::User;
use apiserver_machinery::resource::Resource;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Stage;
use super::annotations::Annotations;
use super::body::Bodies;
use super::policy::{Decision, Level, Policy, is_sealed};
use super::redaction::is_quoted;
use crate::request::request_info::RequestInfo;
use crate::response::{HttpResponse, StatusInfo};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Longest user agent that is written: the caller chooses it. Unit: characters.
const LONGEST_AGENT: usize = 1024;

/// Outcome of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) code: u16,
    /// `Status` that was the response, if it was one.
    pub(crate) status: Option<StatusInfo>,
}

/// Audit record: facts about a request, collected in the filters.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    id: String,
    uri: String,
    verb: &'static str,
    received: Timestamp,
    source_ips: Vec<String>,
    user_agent: String,
    object: Option<Map<String, Value>>,
    /// True if an error about the body may quote a secret.
    is_quoted: bool,
    user: Arc<User>,
    impersonated: Option<Arc<User>>,
    /// Verb of the constrained mode that allowed the impersonation.
    constraint: Option<String>,
    annotations: Annotations,
    is_quiet: bool,
    decided: Decision,
    /// Bodies, if the level of the request records any.
    bodies: Option<Box<Bodies>>,
}

impl Record {
    /// Creates the record of a request that no filter has seen. `is_frequent` requests of the default policy are
    /// written for refusals alone.
    pub(crate) fn new(
        id: &str,
        (uri, headers): (&http::Uri, &HeaderMap),
        from: Option<IpAddr>,
        info: &RequestInfo,
        (policy, is_frequent): (&Policy, bool),
    ) -> Self {
        let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self {
            id: id.to_owned(),
            uri: uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string),
            verb: info.verb,
            received: Timestamp::now(),
            source_ips: source_ips(headers, from),
            user_agent: agent.chars().take(LONGEST_AGENT).collect(),
            object: object(info),
            is_quoted: info
                .resource()
                .is_some_and(|path| is_sealed(path) || is_quoted(&path.group, &path.resource)),
            user: Arc::default(),
            impersonated: None,
            constraint: None,
            annotations: Annotations::default(),
            is_quiet: is_frequent && policy.is_default(),
            decided: policy.decide(info, None),
            bodies: None,
        }
    }

    /// Returns true if an event of this stage and with this outcome is written.
    pub(crate) fn is_written(&self, stage: Stage, outcome: Option<&Outcome>) -> bool {
        let is_loud = !self.is_quiet || outcome.is_some_and(|outcome| matches!(outcome.code, 401 | 403));
        is_loud && self.decided.level > Level::None && !self.decided.omitted.contains(stage)
    }

    /// Notes the authenticated user, about whom the policy may have rules.
    pub(crate) fn set_user(&mut self, user: &Arc<User>, info: &RequestInfo, policy: &Policy) {
        self.user = Arc::clone(user);
        self.decided = policy.decide(info, Some(user));
    }

    /// Returns true if the level records bodies.
    pub(crate) fn records_bodies(&self) -> bool {
        self.decided.level >= Level::Request
    }

    /// Notes the kind of the bodies, if it is known.
    pub(crate) fn set_resource(&mut self, resource: Option<Arc<Resource>>) {
        let omits_managed_fields = self.decided.omits_managed_fields;
        self.bodies = Some(Box::new(Bodies::new(resource, omits_managed_fields)));
    }

    /// Notes the body of the request, if its level records it.
    pub(crate) fn set_request(&mut self, info: &RequestInfo, content_type: &str, body: &[u8]) {
        if let Some(bodies) = &mut self.bodies {
            bodies.set_request(info, content_type, body);
        }
    }

    /// Notes the body of the response, if its level records it.
    pub(crate) fn set_response(&mut self, answer: &mut HttpResponse) {
        if self.hides_errors(answer.status().as_u16()) {
            return;
        }
        if let Some(bodies) = self.bodies.as_mut().filter(|_| self.decided.level >= Level::RequestResponse) {
            bodies.set_response(answer);
        }
    }

    /// Notes the user that the request acts as, if it is another one.
    pub(crate) fn set_impersonated(&mut self, user: &Arc<User>, constraint: Option<String>) {
        self.constraint = constraint;
        self.impersonated = (*user != self.user).then(|| Arc::clone(user));
    }

    /// Notes the decision of authorization, `allow` or `forbid`, and its reason. There is no decision if the authorizers
    /// failed.
    pub(crate) fn set_decision(&mut self, decision: Option<&'static str>, reason: &str) {
        self.annotations.set_decision(decision, reason);
    }

    /// Adds annotations, such as those of admission webhooks.
    pub(crate) fn annotate(&mut self, annotations: BTreeMap<String, String>) {
        self.annotations.insert_all(annotations);
    }

    /// Notes that the request was for a deprecated version, so that its users can be found.
    pub(crate) fn set_deprecated(&mut self) {
        self.annotations.set_deprecated();
    }

    /// Notes the object's fields in the body that are not in the path.
    pub(crate) fn set_body(&mut self, body: &[u8]) {
        let Some(object) = &mut self.object else { return };
        // A body that is no JSON adds nothing.
        let Ok(Named { metadata }) = serde_json::from_slice::<Named>(body) else { return };
        let fields =
            [("name", metadata.name), ("uid", metadata.uid), ("resourceVersion", metadata.resource_version)];
        for (field, value) in fields {
            if let Some(value) = value.filter(|value| !value.is_empty() && !object.contains_key(field)) {
                object.insert(field.to_owned(), json!(value));
            }
        }
    }

    /// Returns the line of an event, with the outcome if there is one.
    pub(crate) fn line(&self, stage: Stage, outcome: Option<&Outcome>) -> String {
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": self.decided.level.word(), "auditID": self.id,
            "stage": stage.word(), "requestURI": self.uri, "verb": self.verb, "user": user(&self.user),
            "requestReceivedTimestamp": micro_time(self.received),
            "stageTimestamp": micro_time(Timestamp::now()),
        });
        let mut add = |field: &str, value: Value| {
            if let Some(event) = event.as_object_mut() {
                event.insert(field.to_owned(), value);
            }
        };
        if let Some(impersonated) = &self.impersonated {
            add("impersonatedUser", user(impersonated));
        }
        if let Some(constraint) = &self.constraint {
            add("authenticationMetadata", json!({"impersonationConstraint": constraint}));
        }
        if !self.source_ips.is_empty() {
            add("sourceIPs", json!(self.source_ips));
        }
        if !self.user_agent.is_empty() {
            add("userAgent", json!(self.user_agent));
        }
        if let Some(object) = &self.object {
            add("objectRef", Value::Object(object.clone()));
        }
        if let Some(outcome) = outcome {
            add("responseStatus", self.status(outcome));
        }
        let mut annotations = self.annotations.shown(&self.user);
        if let (Some(bodies), Some(event)) = (&self.bodies, event.as_object_mut()) {
            bodies.add_to(event, &mut annotations);
        }
        if !annotations.is_empty() {
            event["annotations"] = Value::Object(annotations);
        }
        format!("{event}\n")
    }

    fn status(&self, outcome: &Outcome) -> Value {
        let mut answer = json!({"metadata": {}, "code": outcome.code});
        let Some(StatusInfo { status, reason, message, details }) = &outcome.status else { return answer };
        answer["status"] = json!(status);
        let hides_errors = self.hides_errors(outcome.code);
        // The reason of an admission webhook can be a sentence that quotes the body.
        let is_word = reason.bytes().all(|byte| byte.is_ascii_alphabetic());
        if !reason.is_empty() && (is_word || !hides_errors) {
            answer["reason"] = json!(reason);
        }
        if hides_errors {
            return answer;
        }
        if !message.is_empty() {
            answer["message"] = json!(message);
        }
        if details.is_object() {
            answer["details"] = details.clone();
        }
        answer
    }

    /// Returns true if the message of an error with this code is not written. Such errors quote the body, and in some
    /// kinds that is a secret.
    fn hides_errors(&self, code: u16) -> bool {
        self.is_quoted && matches!(code, 400 | 422)
    }
}

/// Fields of a body that an event has.
#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

fn object(info: &RequestInfo) -> Option<Map<String, Value>> {
    let path = info.resource()?;
    let fields = [
        ("resource", path.resource.as_str()),
        ("namespace", path.namespace_of_permission()),
        ("name", &path.name),
        ("apiGroup", &path.group),
        ("apiVersion", &path.version),
        ("subresource", &path.subresource),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Some(given.map(|(field, value)| (field.to_owned(), json!(value))).collect())
}

fn user(user: &User) -> Value {
    let mut shown = Map::new();
    if !user.name.is_empty() {
        shown.insert("username".to_owned(), json!(user.name));
    }
    if let Some(uid) = &user.uid {
        shown.insert("uid".to_owned(), json!(uid));
    }
    if !user.groups.is_empty() {
        shown.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        shown.insert("extra".to_owned(), json!(user.extra));
    }
    Value::Object(shown)
}

/// Returns the addresses that the request went through, the client's first. A client can claim any but the last, which
/// is the address of the connection.
fn source_ips(headers: &HeaderMap, from: Option<IpAddr>) -> Vec<String> {
    let forwarded = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let claimed = forwarded.flat_map(|value| value.split(',')).map(str::trim);
    let mut found: Vec<String> =
        claimed.filter_map(|text| text.parse::<IpAddr>().ok()).map(|ip| ip.to_string()).collect();
    let real = headers.get(REAL_IP).and_then(|value| value.to_str().ok());
    let real = real.and_then(|text| text.parse::<IpAddr>().ok()).map(|ip| ip.to_string());
    found.extend(real.filter(|real| !found.contains(real)));
    if let Some(from) = from.map(|ip| ip.to_string()).filter(|from| found.last() != Some(from)) {
        found.push(from);
    }
    found
}

/// Formats a time as Kubernetes' `MicroTime`.
fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::response;

    fn record(method: &Method, uri: &str, headers: &[(&str, &str)]) -> Record {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let uri: http::Uri = uri.parse().unwrap();
        let info = RequestInfo::resolve(method, uri.path(), false, None);
        let from = "192.0.2.9".parse().ok();
        Record::new("id-1", (&uri, &map), from, &info, (&Policy::default(), false))
    }

    fn event(record: &Record, stage: Stage, outcome: Option<&Outcome>) -> Value {
        let line = record.line(stage, outcome);
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn an_event_has_the_user_the_verb_the_object_and_the_result() {
        let headers = [("user-agent", "kubectl/v1.36"), ("x-forwarded-for", "192.0.2.1, 192.0.2.2")];
        let uri = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines/m1/reboot?dryRun=All";
        let mut record = record(&Method::POST, uri, &headers);
        let mut alice = User::authenticated("alice", ["dev".to_owned()]);
        alice.extra.insert("scopes".to_owned(), vec!["a".to_owned()]);
        let info = RequestInfo::resolve(&Method::POST, "/", false, None);
        record.set_user(&Arc::new(alice), &info, &Policy::default());
        record.set_decision(Some("allow"), "RBAC: allowed by RoleBinding");
        record.set_body(br#"{"metadata": {"name": "other", "uid": "7", "labels": {}}}"#);
        let outcome = Outcome { code: 201, status: None };
        let mut found = event(&record, Stage::ResponseComplete, Some(&outcome));
        for field in ["requestReceivedTimestamp", "stageTimestamp"] {
            let time = found[field].as_str().unwrap().to_owned();
            assert_eq!((time.len(), time.as_bytes()[19]), (27, b'.'), "{time}");
            assert!(time.parse::<Timestamp>().is_ok(), "{time}");
            found[field] = json!("");
        }
        let expected = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": "id-1", "stage": "ResponseComplete", "requestURI": uri, "verb": "create",
            "user": {"username": "alice", "groups": ["dev", "system:authenticated"], "extra": {"scopes": ["a"]}},
            "sourceIPs": ["192.0.2.1", "192.0.2.2", "192.0.2.9"], "userAgent": "kubectl/v1.36",
            "objectRef": {"resource": "machines", "namespace": "team", "name": "m1", "uid": "7",
                "apiGroup": "cluster.x-k8s.io", "apiVersion": "v1beta2", "subresource": "reboot"},
            "responseStatus": {"metadata": {}, "code": 201},
            "requestReceivedTimestamp": "", "stageTimestamp": "",
            "annotations": {"authorization.k8s.io/decision": "allow",
                "authorization.k8s.io/reason": "RBAC: allowed by RoleBinding",
                "capstan.dev/realm": "own"}});
        assert_eq!(found, expected);
        record.set_deprecated();
        let found = event(&record, Stage::ResponseComplete, Some(&outcome));
        assert_eq!(found["annotations"]["k8s.io/deprecated"], "true");
    }

    #[test]
    fn a_refusal_is_logged_without_values_of_a_secret() {
        let message = "data: Invalid value: \"hunter2\"".to_owned();
        let details = json!({"causes": [{"message": "Invalid value: \"hunter2\""}]});
        let invalid = StatusInfo { status: "Failure", reason: "Invalid".into(), message, details };
        let outcome = Outcome { code: 422, status: Some(invalid) };
        let machine = record(&Method::PUT, "/apis/g/v1/namespaces/n/machines/m", &[]);
        let found = event(&machine, Stage::ResponseComplete, Some(&outcome));
        assert_eq!(found["responseStatus"]["reason"], "Invalid");
        assert!(found["responseStatus"]["message"].as_str().unwrap().contains("hunter2"));
        assert!(found["responseStatus"]["details"]["causes"].is_array());
        let secret = record(&Method::PUT, "/api/v1/namespaces/n/secrets/s", &[]);
        let of = |group: &str, resource: &str| {
            record(&Method::POST, &format!("/apis/{group}/v1beta2/namespaces/n/{resource}"), &[])
        };
        let config = of("bootstrap.cluster.x-k8s.io", "kubeadmconfigs");
        let template = of("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanetemplates");
        let class = of("cluster.x-k8s.io", "clusterclasses");
        for hidden in [&secret, &config, &template, &class] {
            let line = hidden.line(Stage::ResponseComplete, Some(&outcome));
            assert!(line.contains("\"Invalid\"") && !line.contains("hunter2"), "{line}");
        }
        let quoting =
            StatusInfo { status: "Failure", reason: "hunter2 is bad".into(), ..StatusInfo::default() };
        let line = secret.line(Stage::ResponseComplete, Some(&Outcome { code: 422, status: Some(quoting) }));
        assert!(!line.contains("hunter2"), "the reason of a webhook: {line}");
        let missing = StatusInfo {
            status: "Failure",
            reason: "NotFound".into(),
            message: "none".into(),
            ..StatusInfo::default()
        };
        let line = secret.line(Stage::ResponseComplete, Some(&Outcome { code: 404, status: Some(missing) }));
        assert!(line.contains("\"none\""), "nothing secret is in a name: {line}");
    }

    #[test]
    fn the_response_of_a_refusal_is_recorded_only_for_kinds_without_secrets() {
        let file =
            r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]}"#;
        let policy = Policy::parse(file).unwrap();
        for (group, is_recorded) in [("g", true), ("bootstrap.cluster.x-k8s.io", false)] {
            let uri: http::Uri = format!("/apis/{group}/v1/namespaces/n/kubeadmconfigs").parse().unwrap();
            let info = RequestInfo::resolve(&Method::POST, uri.path(), false, None);
            let mut record = Record::new("id-1", (&uri, &HeaderMap::new()), None, &info, (&policy, false));
            record.set_resource(None);
            let status = r#"{"kind": "Status", "apiVersion": "v1", "message": "Invalid value: hunter2"}"#;
            let mut answer = response::bytes(422, "application/json", status);
            record.set_response(&mut answer);
            let line = record.line(Stage::ResponseComplete, Some(&Outcome { code: 422, status: None }));
            assert_eq!(line.contains("hunter2"), is_recorded, "{line}");
        }
    }

    #[test]
    fn invalid_source_addresses_are_ignored() {
        let found = |headers: &[(&str, &str)]| record(&Method::GET, "/", headers).source_ips;
        assert_eq!(found(&[]), ["192.0.2.9"]);
        assert_eq!(found(&[("x-forwarded-for", "evil\" , 192.0.2.9")]), ["192.0.2.9"]);
        assert_eq!(found(&[("x-real-ip", "2001:db8::1")]), ["2001:db8::1", "192.0.2.9"]);
        let forwarded = ("x-forwarded-for", "192.0.2.1, 192.0.2.2");
        assert_eq!(
            found(&[forwarded, ("x-real-ip", "192.0.2.3")]),
            ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.9"]
        );
        assert_eq!(found(&[forwarded, ("x-real-ip", "192.0.2.1")]), ["192.0.2.1", "192.0.2.2", "192.0.2.9"]);
    }
}

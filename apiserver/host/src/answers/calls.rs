//! Calls of the table, with the answer in each situation.

use serde_json::{Value, json};

use super::WIDTH;
use super::host::OPAQUE;
use super::scene::Scene;

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
const OPERATIONS: (&str, &str) =
    ("/apis/capstan.dev/v1alpha1/namespaces/team/machineoperations", "MachineOperation");
const SELF_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Answers, by column: up, slow, silent, the ages of a host that is down, never seen, probation, other.
type Answers = [u16; WIDTH];

/// The host has no part in the answer.
const READ: Answers = [200; WIDTH];
const UNKNOWN: Answers = [401; WIDTH];

/// Answers to a user of the host, by the class of the call. A host that has just become silent still counts as up, and
/// only it decides then.
const HOST_READ: Answers = [200, 200, 503, 200, 200, 200, 503, 503, 503, 503, 200, 401];
const HOST_WRITE: Answers = [200, 200, 503, 200, 503, 503, 503, 503, 503, 503, 200, 401];
const HOST_CREATE: Answers = [201, 201, 503, 201, 503, 503, 503, 503, 503, 503, 201, 401];
const SENSITIVE: Answers = [200, 200, 503, 503, 503, 503, 503, 503, 503, 503, 503, 401];

/// A refusal counts at any age, as long as the token itself can be verified.
const NO_RIGHT: Answers = [403, 403, 503, 403, 403, 403, 503, 503, 503, 503, 403, 401];
const BAD_TOKEN: Answers = [401, 401, 503, 401, 401, 401, 503, 503, 503, 503, 401, 401];

/// Only the host knows the token.
const ONLY_HOST: Answers = [200, 200, 503, 503, 503, 503, 503, 503, 503, 503, 503, 401];

/// Answers to a client certificate of the host's users. Its CA is forgotten after a week.
const CERTIFICATE_READ: Answers = [200, 200, 503, 200, 200, 200, 503, 503, 401, 401, 200, 401];
const CERTIFICATE_WRITE: Answers = [200, 200, 503, 200, 503, 503, 503, 503, 401, 401, 200, 401];
const CERTIFICATE_NO_RIGHT: Answers = [403, 403, 503, 403, 403, 403, 403, 403, 401, 401, 403, 401];

/// Answers to requests through the host. None arrives while the host is down.
const PROXIED: Answers = [200, 200, 503, 503, 503, 503, 503, 503, 503, 503, 200, 503];
const PROXIED_NO_RIGHT: Answers = [403, 403, 503, 503, 503, 503, 503, 503, 503, 503, 503, 503];

/// Answers to a create through the host in a namespace that was created on the direct endpoint during an outage. Only the
/// host can make it usable there.
const PROXIED_PROVISIONAL: Answers = [404, 404, 503, 503, 503, 503, 503, 503, 503, 503, 404, 503];

/// Answers to creates, by the state of the namespace.
const IN_KNOWN: Answers = [201, 201, 201, 201, 201, 201, 201, 201, 503, 503, 201, 503];
const IN_UNKNOWN: Answers = [404, 503, 503, 503, 503, 503, 503, 503, 503, 503, 503, 503];
const IN_PROVISIONAL: Answers = [201; WIDTH];
const IN_TERMINATING: Answers = [403, 403, 403, 403, 403, 403, 403, 403, 503, 503, 403, 503];

/// Credentials of a caller.
#[derive(Debug)]
pub(super) enum Who {
    /// User that the host's front proxy names.
    Proxied(&'static str),
    /// Certificate of the server's own CA: a name and a group.
    Certificate(&'static str, &'static str),
    /// Certificate of the host's own CA for clients, which `host.clientCertificates` accepts: a name.
    OfHost(&'static str),
    /// The same, without that setting.
    Stranger,
    /// Bearer token.
    Token(String),
    /// Headers of a front proxy without its certificate.
    Forged,
    /// No credentials.
    Nobody,
}

/// Part of the response that is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// The status code.
    Code,
    /// The status of a review: 200 for a permission, 403 for none, and 503 for an error.
    Review,
}

/// Call of the table.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) title: &'static str,
    pub(super) who: Who,
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: Value,
    pub(super) reads: Reads,
    pub(super) expected: Answers,
}

impl Call {
    fn get(title: &'static str, who: Who, path: &str, expected: Answers) -> Self {
        let (path, body) = (path.to_owned(), Value::Null);
        Self { title, who, method: "GET", path, body, reads: Reads::Code, expected }
    }

    fn patch(title: &'static str, who: Who, expected: Answers) -> Self {
        let body = json!({"metadata": {"annotations": {"by": title}}});
        Self { method: "PATCH", body, ..Self::get(title, who, &format!("{MACHINES}/m1"), expected) }
    }

    fn create(title: &'static str, who: Who, (path, kind): (&str, &str), expected: Answers) -> Self {
        let version = path.split('/').skip(2).take(2).collect::<Vec<_>>().join("/");
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"generateName": "x-"}});
        Self { method: "POST", body, ..Self::get(title, who, path, expected) }
    }

    fn review(title: &'static str, who: Who, attributes: &Value, expected: Answers) -> Self {
        let body = json!({"spec": {"resourceAttributes": attributes}});
        let call = Self::get(title, who, SELF_REVIEWS, expected);
        Self { method: "POST", body, reads: Reads::Review, ..call }
    }
}

/// Returns all calls.
pub(super) fn calls(scene: &Scene) -> Vec<Call> {
    [through_host(), of_own_users(), of_host_accounts(scene), of_other_tokens(scene), creates()]
        .into_iter()
        .flatten()
        .collect()
}

fn machine() -> String {
    format!("{MACHINES}/m1")
}

fn through_host() -> Vec<Call> {
    vec![
        Call::get("through the host: read", Who::Proxied("alice"), &machine(), PROXIED),
        Call::get("through the host: no right", Who::Proxied("mallory"), &machine(), PROXIED_NO_RIGHT),
        Call::create(
            "through the host: create in a provisional namespace",
            Who::Proxied("alice"),
            ("/apis/capstan.dev/v1alpha1/namespaces/fresh/machineoperations", "MachineOperation"),
            PROXIED_PROVISIONAL,
        ),
    ]
}

fn of_own_users() -> Vec<Call> {
    let ada = || Who::Certificate("ada", "team");
    let jwt = |issuer: &str| {
        use base64::Engine;
        let claims = json!({"iss": issuer}).to_string();
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims);
        Who::Token(format!("e30.{claims}.c2ln"))
    };
    let emergency = || Who::Certificate("root", "system:masters");
    vec![
        Call::get("own certificate, own role: read", ada(), &machine(), READ),
        Call::patch("own certificate, own role: write", ada(), READ),
        Call::get("own service account: read", jwt("https://own"), &machine(), READ),
        Call::get("user of an issuer: read", jwt("https://olga"), &machine(), READ),
        Call::get("user of Keystone: read", Who::Token("gAAAAAx".to_owned()), &machine(), READ),
        Call::get("emergency certificate: read a Secret", emergency(), SECRET, READ),
        Call::patch("emergency certificate: write", emergency(), READ),
        Call::get("no credentials: `/readyz`", Who::Nobody, "/readyz", READ),
        Call::get("no credentials: `/livez`", Who::Nobody, "/livez", READ),
    ]
}

const SECRET: &str = "/api/v1/namespaces/team/secrets/s1";

fn of_host_accounts(scene: &Scene) -> Vec<Call> {
    let account = || Who::Token(scene.tokens.good.clone());
    let clusters = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/clusters/c1";
    let asks = |verb: &str, group: &str, resource: &str| json!({"verb": verb, "group": group, "resource": resource, "namespace": "team"});
    vec![
        Call::get("host's service account: read", account(), &machine(), HOST_READ),
        Call::patch("host's service account: write", account(), HOST_WRITE),
        Call::create("host's service account: start an action", account(), OPERATIONS, HOST_CREATE),
        Call::get("host's service account: read a Secret", account(), SECRET, SENSITIVE),
        Call::get("host's service account: no right", account(), clusters, NO_RIGHT),
        Call::review(
            "host's service account: review of its own read",
            account(),
            &asks("get", "cluster.x-k8s.io", "machines"),
            HOST_READ,
        ),
        Call::review(
            "host's service account: review of its own impersonation",
            account(),
            &asks("impersonate", "", "users"),
            SENSITIVE,
        ),
    ]
}

fn of_other_tokens(scene: &Scene) -> Vec<Call> {
    let tokens = &scene.tokens;
    let token = |text: &str| Who::Token(text.to_owned());
    vec![
        Call::get("token that only the host can review: read", token(OPAQUE), &machine(), ONLY_HOST),
        Call::get("host's token with a bad signature", token(&tokens.forged), &machine(), BAD_TOKEN),
        Call::get("host's token that has expired", token(&tokens.expired), &machine(), BAD_TOKEN),
        Call::get(
            "host's token for another audience",
            token(&tokens.of_other_audience),
            &machine(),
            BAD_TOKEN,
        ),
        Call::get(
            "accepted certificate of the host: read",
            Who::OfHost("alice"),
            &machine(),
            CERTIFICATE_READ,
        ),
        Call::patch("accepted certificate of the host: write", Who::OfHost("alice"), CERTIFICATE_WRITE),
        Call::get(
            "accepted certificate of the host: no right",
            Who::OfHost("mallory"),
            &machine(),
            CERTIFICATE_NO_RIGHT,
        ),
        Call::get("certificate of the host's CA for clients", Who::Stranger, &machine(), UNKNOWN),
        Call::get("forged headers of a front proxy", Who::Forged, &machine(), UNKNOWN),
    ]
}

fn creates() -> Vec<Call> {
    let create = |title, namespace: &str, expected| {
        let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines");
        Call::create(title, Who::Certificate("ada", "team"), (&path, "Machine"), expected)
    };
    vec![
        create("own user: create in a known namespace of the host", "team", IN_KNOWN),
        create("own user: create in an unknown namespace", "nowhere", IN_UNKNOWN),
        create("own user: create in a provisional namespace", "fresh", IN_PROVISIONAL),
        create("own user: create in a terminating namespace", "leaving", IN_TERMINATING),
    ]
}

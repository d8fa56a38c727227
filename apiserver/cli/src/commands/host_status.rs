//! Command `capstan host status`: the object HostStatus as tables.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use crate::connect::{Connection, ConnectionArguments};
use crate::error::{ExitCode, Failure};
use crate::output::{self, age, columns, span};

/// Path of the object.
const PATH: &str = "/apis/capstan.dev/v1alpha1/hoststatuses/host";

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct HostStatusArguments {
    /// Kubeconfig of Capstan or of the host cluster [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Prints the state of the host cluster, as the replica that answers observes it.
///
/// # Errors
/// No host cluster is configured, the user may not read the object, or the server does not answer.
pub fn host_status(arguments: &HostStatusArguments) -> Result<(), Failure> {
    let connection = ConnectionArguments {
        namespace: None,
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
    };
    super::block_on(async {
        let Connection { client, .. } = connection.connect().await?;
        let object = read(&client).await?;
        output::print(text(&object, Timestamp::now()).as_bytes())
    })
}

async fn read(client: &Client) -> Result<Value, Failure> {
    let request = http::Request::get(PATH).body(Vec::new());
    let request = request.map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    client.request(request).await.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 404 => {
            let failure = Failure::new(ExitCode::Failed, "the server has no HostStatus");
            let failure = failure.detail("server", status.message.trim());
            failure
                .next("set host.kubeconfig in the server's configuration, if a host cluster should be there")
        }
        _ => Failure::api("read", "HostStatus", "", "host", &error),
    })
}

/// Returns the whole output. `now` is the time for ages.
fn text(object: &Value, now: Timestamp) -> String {
    let status = &object["status"];
    let ago =
        |field: &Value| since(field, now).map_or_else(|| "never".to_owned(), |age| format!("{age} ago"));
    let summary = [
        ["STATE".to_owned(), word(&status["state"])],
        ["SINCE".to_owned(), ago(&status["since"])],
        ["LAST CONTACT".to_owned(), ago(&status["lastContactTime"])],
        ["UID".to_owned(), word(&status["pinnedUID"])],
        ["CREDENTIAL ENDS".to_owned(), word(&status["credentialEndTime"])],
        ["REPLICA".to_owned(), word(&status["replica"])],
    ];
    let tables = [
        columns(&summary),
        columns(&rows(&status["conditions"], ["CONDITION", "STATUS", "REASON", "MESSAGE"], |it| {
            ["type", "status", "reason", "message"].map(|field| word(&it[field]))
        })),
        columns(&rows(&status["mirrors"], ["MIRROR", "OBJECTS", "AGE", "BOUND", "USABLE"], |it| {
            let seconds = |field: &str| it[field].as_i64().map_or_else(none, span);
            [
                word(&it["name"]),
                word(&it["objects"]),
                seconds("ageSeconds"),
                seconds("boundSeconds"),
                word(&it["usable"]),
            ]
        })),
        columns(&rows(&status["outbox"], ["OUTBOX", "WAITING", "OLDEST", "REFUSED"], |it| {
            let oldest = since(&it["oldestTime"], now).unwrap_or_else(none);
            [word(&it["kind"]), word(&it["objects"]), oldest, word(&it["refused"])]
        })),
    ];
    let lists = [("WITHOUT EFFECT", "leftOut"), ("NOT READ", "unread")];
    let lists = lists.map(|(title, field)| list(title, &status["mirrors"], field));
    let gone = list("NAMESPACES GONE", &json!([status]), "namespacesGone");
    let shown: Vec<String> =
        tables.into_iter().chain(lists).chain([gone]).filter(|table| !table.is_empty()).collect();
    shown.join("\n")
}

/// Returns the texts of a field of all items below a title; nothing without texts.
fn list(title: &str, items: &Value, field: &str) -> String {
    let texts = items.as_array().into_iter().flatten().filter_map(|it| it[field].as_array());
    let texts: Vec<[String; 1]> = texts.flatten().map(|text| [word(text)]).collect();
    if texts.is_empty() { String::new() } else { format!("{title}\n{}", columns(&texts)) }
}

fn none() -> String {
    "-".to_owned()
}

/// Returns a field as a word.
fn word(field: &Value) -> String {
    match field {
        Value::Null => none(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn since(field: &Value, now: Timestamp) -> Option<String> {
    Some(age(field.as_str()?.parse().ok()?, now))
}

/// Returns the titles and a row for each item; nothing without items.
fn rows<const N: usize>(
    items: &Value,
    titles: [&str; N],
    row: impl Fn(&Value) -> [String; N],
) -> Vec<[String; N]> {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return Vec::new();
    }
    std::iter::once(titles.map(str::to_owned)).chain(items.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_shown_as_aligned_tables() {
        let object = json!({"status": {"state": "Down", "since": "2026-01-01T00:00:00Z", "replica": "a",
            "lastContactTime": "2025-12-31T23:00:00Z", "pinnedUID": "u1",
            "conditions": [{"type": "Reachable", "status": "False", "reason": "Down", "message": "it is down"}],
            "mirrors": [{"name": "namespaces", "objects": 2, "ageSeconds": 4200, "boundSeconds": 604_800, "usable": true},
                {"name": "token-keys", "objects": 0, "usable": false, "leftOut": ["ValidatingWebhookConfiguration/capi"],
                    "unread": ["ConfigMap team/limits: refused"]}],
            "namespacesGone": ["old", "older"], "outbox": []}});
        let text = text(&object, "2026-01-01T00:10:00Z".parse().unwrap());
        let expected = "\
STATE            Down
SINCE            10m ago
LAST CONTACT     70m ago
UID              u1
CREDENTIAL ENDS  -
REPLICA          a

CONDITION  STATUS  REASON  MESSAGE
Reachable  False   Down    it is down

MIRROR      OBJECTS  AGE  BOUND  USABLE
namespaces  2        70m  7d     true
token-keys  0        -    -      false

WITHOUT EFFECT
ValidatingWebhookConfiguration/capi

NOT READ
ConfigMap team/limits: refused

NAMESPACES GONE
old
older
";
        assert_eq!(text, expected);
    }
}

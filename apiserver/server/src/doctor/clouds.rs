//! Checks of the credentials for clouds, as the controllers find them: conditions of OpenStackClusters have the results.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Finding, Level, Node};
use crate::local_server::LocalServer;

/// User of the query. Its certificate is made for the moment, with the CA of the node.
const USER: &str = "capstan-doctor";

/// Group that may read all objects, by a default binding.
const ADMINS: &str = "capstan:admins";

/// List of the clusters. More would make the command slow; their number is a limit of the check alone.
const CLUSTERS: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/openstackclusters?limit=500";

/// Condition with the result of the newest login.
const CONDITION: &str = "OpenStackAuthenticationSucceeded";

/// Reason of any condition that says that the cloud did not answer.
const UNREACHABLE: &str = "CloudUnreachable";

/// Runs the checks. A server that does not answer is a finding of another check.
pub(super) async fn check(node: &Node) -> Vec<Finding> {
    let Ok(server) = LocalServer::new(&node.configuration, &node.data, USER, ADMINS) else {
        return Vec::new();
    };
    match server.get(CLUSTERS).await {
        Ok((200, text)) => match serde_json::from_str(&text) {
            Ok(list) => judge(&list),
            Err(error) => vec![unknown(&error.to_string())],
        },
        Ok((code, _)) => vec![unknown(&format!("the OpenStackClusters cannot be listed: code {code}"))],
        Err(_) => Vec::new(),
    }
}

fn unknown(message: &str) -> Finding {
    Finding::new(Level::Warning, "clouds", message)
}

/// Judges each credential by the worst of the clusters that use it.
pub(super) fn judge(list: &Value) -> Vec<Finding> {
    let mut found: BTreeMap<String, Finding> = BTreeMap::new();
    let items = list.get("items").and_then(Value::as_array);
    for cluster in items.into_iter().flatten() {
        let finding = of_cluster(cluster);
        match found.get(&finding.subject) {
            Some(known) if known.level >= finding.level => {}
            _ => {
                found.insert(finding.subject.clone(), finding);
            }
        }
    }
    found.into_values().collect()
}

fn of_cluster(cluster: &Value) -> Finding {
    let text = |path: &str| cluster.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (namespace, cloud) = (text("/metadata/namespace"), text("/spec/identityRef/cloudName"));
    let subject = format!("credential {namespace}/{} (cloud {cloud})", text("/spec/identityRef/name"));
    let conditions = cluster.pointer("/status/conditions").and_then(Value::as_array);
    let find = |field: &str, value: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|it| it.get(field).and_then(Value::as_str) == Some(value))
    };
    let condition = find("reason", UNREACHABLE).or_else(|| find("type", CONDITION));
    let field = |name: &str| {
        condition.and_then(|condition| condition.get(name)).and_then(Value::as_str).unwrap_or_default()
    };
    match field("status") {
        "True" => Finding::new(Level::Ok, subject, "the cloud accepts it"),
        "False" => {
            let message = format!(
                "{}: {}; see docs/troubleshooting.md, or OpenStackCluster {namespace}/{}",
                field("reason"),
                field("message"),
                text("/metadata/name")
            );
            Finding::new(Level::Error, subject, message)
        }
        _ => Finding::new(Level::Warning, subject, "was not used yet; does a leader run?"),
    }
}

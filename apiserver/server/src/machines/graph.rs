//! Objects that belong to a Machine. Pure functions.

use apiserver_machinery::object;
use serde_json::Value;

use super::GROUP;

/// Group of the operations of machines.
pub(super) const OPERATIONS: (&str, &str) = ("capstan.dev", "machineoperations");

/// Group and plural of certificate signing requests.
pub(super) const REQUESTS: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");

/// Groups of Events.
const EVENTS: [&str; 2] = ["", "events.k8s.io"];

/// Verbs that read one object. `list` and `watch` count with a field selector of its name.
const READS: [&str; 3] = ["get", "list", "watch"];

/// Request of a machine about one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) verb: &'a str,
    pub(super) group: &'a str,
    pub(super) plural: &'a str,
    /// Kind of the resource; empty if the server does not have it.
    pub(super) kind: &'a str,
    pub(super) subresource: &'a str,
    /// Name of the object, also from a field selector; empty for all.
    pub(super) name: &'a str,
}

/// Answer about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No(&'static str),
    /// Yes, if the object with this name says that it is the Machine's.
    IfItsOwn,
}

/// Decides what the user of a Machine may do in its namespace, or with objects without one.
pub(super) fn decide(machine: &Value, question: &Question<'_>) -> Answer {
    let Question { verb, group, plural, subresource, name, .. } = *question;
    let is_object = subresource.is_empty();
    if EVENTS.contains(&group) && plural == "events" {
        // The kind Event checks that it is about the Machine.
        let is_written = is_object && matches!(verb, "create" | "patch");
        return if is_written { Answer::Yes } else { Answer::No(OTHERS) };
    }
    if (group, plural) == REQUESTS && verb == "create" && is_object {
        return Answer::Yes;
    }
    if !READS.contains(&verb) || !is_object {
        return Answer::No("a machine only reads objects");
    }
    if name.is_empty() {
        return Answer::No("a machine reads objects by their names: use --field-selector metadata.name=NAME");
    }
    if (group, plural) == OPERATIONS || (group, plural) == REQUESTS {
        return Answer::IfItsOwn;
    }
    match belongs(machine, question) {
        true if (group, plural) == SECRETS && has_node(machine) => Answer::No(CLOSED),
        true => Answer::Yes,
        false => Answer::No(OTHERS),
    }
}

/// Group and plural of Secrets.
pub(super) const SECRETS: (&str, &str) = ("", "secrets");

/// Refusal of an object that is not the Machine's.
const OTHERS: &str = "it is no object of this Machine";

/// Refusal of the Machine's bootstrap Secret. It has the join token, which is of no use once the node is there.
pub(super) const CLOSED: &str = "the Machine has a node, so it needs its bootstrap Secret no more";

fn has_node(machine: &Value) -> bool {
    let node = object::at(machine, "status.nodeRef.name").and_then(Value::as_str);
    node.is_some_and(|name| !name.is_empty())
}

/// Returns true if the Machine refers to the object, or is it.
fn belongs(machine: &Value, question: &Question<'_>) -> bool {
    let Question { group, plural, kind, name, .. } = *question;
    let text = |path: &str| object::at(machine, path).and_then(Value::as_str).unwrap_or_default();
    let is_reference = |path: &str| {
        let part = |field: &str| text(&format!("{path}.{field}"));
        (part("apiGroup"), part("kind"), part("name")) == (group, kind, name)
    };
    match (group, plural) {
        (GROUP, "machines") => name == object::name(machine),
        (GROUP, "clusters") => name == text("spec.clusterName"),
        SECRETS => name == text("spec.bootstrap.dataSecretName"),
        _ => is_reference("spec.infrastructureRef") || is_reference("spec.bootstrap.configRef"),
    }
}

/// Returns true if an object is the one of the user's Machine. One of an earlier Machine of the same name is not.
pub(super) fn is_own(object: &Value, plural: &str, user: &str, machine: &Value) -> bool {
    let uid = object::at(machine, "metadata.uid");
    if plural == REQUESTS.1 {
        let is_its_user = object::at(object, "spec.username").and_then(Value::as_str) == Some(user);
        return is_its_user && uid.is_some() && object::at(object, "spec.uid") == uid;
    }
    let owners = object::at(object, "metadata.ownerReferences").and_then(Value::as_array);
    object::at(object, "spec.machineName").and_then(Value::as_str) == Some(object::name(machine))
        && owners.into_iter().flatten().any(|owner| owner.get("uid") == uid && uid.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine() -> Value {
        json!({
            "metadata": {"name": "m", "uid": "u"},
            "spec": {
                "clusterName": "c",
                "bootstrap": {
                    "dataSecretName": "data",
                    "configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "b"},
                },
                "infrastructureRef":
                    {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": "i"},
            },
        })
    }

    fn question<'a>(
        verb: &'a str,
        group: &'a str,
        plural: &'a str,
        kind: &'a str,
        name: &'a str,
    ) -> Question<'a> {
        Question { verb, group, plural, kind, subresource: "", name }
    }

    #[test]
    fn iz_31_a_machine_reads_its_own_objects_and_no_others() {
        let machine = machine();
        for (verb, group, plural, kind, name, expected) in [
            ("get", GROUP, "machines", "Machine", "m", true),
            ("watch", GROUP, "machines", "Machine", "m", true),
            ("get", GROUP, "machines", "Machine", "other", false),
            ("list", GROUP, "machines", "Machine", "", false),
            ("patch", GROUP, "machines", "Machine", "m", false),
            ("delete", GROUP, "machines", "Machine", "m", false),
            ("get", GROUP, "clusters", "Cluster", "c", true),
            ("get", GROUP, "clusters", "Cluster", "m", false),
            ("get", GROUP, "machinesets", "MachineSet", "m", false),
            ("get", "", "secrets", "Secret", "data", true),
            ("get", "", "secrets", "Secret", "c-ca", false),
            ("list", "", "secrets", "Secret", "", false),
            ("get", "", "configmaps", "ConfigMap", "data", false),
            ("get", "bootstrap.cluster.x-k8s.io", "kubeadmconfigs", "KubeadmConfig", "b", true),
            (
                "get",
                "bootstrap.cluster.x-k8s.io",
                "kubeadmconfigtemplates",
                "KubeadmConfigTemplate",
                "b",
                false,
            ),
            ("get", "infrastructure.cluster.x-k8s.io", "openstackmachines", "OpenStackMachine", "i", true),
            ("get", "infrastructure.cluster.x-k8s.io", "openstackservers", "OpenStackServer", "i", false),
            ("create", "", "events", "Event", "", true),
            ("list", "", "events", "Event", "", false),
            ("delete", "", "events", "Event", "e", false),
            ("create", "certificates.k8s.io", REQUESTS.1, "CertificateSigningRequest", "", true),
            ("create", "", "serviceaccounts", "ServiceAccount", "", false),
        ] {
            let answer = decide(&machine, &question(verb, group, plural, kind, name));
            assert_eq!(answer == Answer::Yes, expected, "{verb} {plural} {name}: {answer:?}");
        }
        let operation = question("get", OPERATIONS.0, OPERATIONS.1, "MachineOperation", "o");
        assert_eq!(decide(&machine, &operation), Answer::IfItsOwn);
        for (verb, group, plural, name, subresource) in [
            ("get", GROUP, "machines", "m", "status"),
            ("create", GROUP, "machines", "m", "reboot"),
            ("create", REQUESTS.0, REQUESTS.1, "r", "approval"),
            ("patch", "", "events", "e", "status"),
        ] {
            let question = Question { subresource, ..question(verb, group, plural, "", name) };
            assert!(matches!(decide(&machine, &question), Answer::No(_)), "{verb} {plural}/{subresource}");
        }
    }

    #[test]
    fn iz_31_the_bootstrap_data_are_closed_once_the_node_is_there() {
        let mut machine = machine();
        machine["status"] = json!({"nodeRef": {"name": "n"}});
        let secret = question("get", "", "secrets", "Secret", "data");
        assert_eq!(decide(&machine, &secret), Answer::No(CLOSED));
        let other = question("get", "", "secrets", "Secret", "other-data");
        assert_eq!(decide(&machine, &other), Answer::No(OTHERS));
        machine["status"] = json!({"nodeRef": {"name": ""}});
        assert_eq!(decide(&machine, &secret), Answer::Yes);
    }

    #[test]
    fn iz_31_operations_and_requests_are_its_own_by_their_content() {
        let machine = machine();
        let operation = |name: &str, uid: &str| json!({"metadata": {"ownerReferences": [{"uid": uid}]}, "spec": {"machineName": name}});
        let own = |object: &Value, plural: &str| is_own(object, plural, "system:machine:ns:m", &machine);
        assert!(own(&operation("m", "u"), OPERATIONS.1));
        assert!(!own(&operation("m", "of an earlier one"), OPERATIONS.1));
        assert!(!own(&operation("other", "u"), OPERATIONS.1));
        let request = |user: &str, uid: &str| json!({"spec": {"username": user, "uid": uid}});
        assert!(own(&request("system:machine:ns:m", "u"), REQUESTS.1));
        assert!(!own(&request("system:machine:ns:m", "of an earlier one"), REQUESTS.1));
        assert!(!own(&request("alice", "u"), REQUESTS.1));
    }
}

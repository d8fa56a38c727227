//! Failed bootstraps: what the console of a server says about them.
//!
//! A server can be ACTIVE and still never become a node, and then only its console says why.

use std::sync::Arc;

use apiserver_types::{Condition, ConditionStatus, Machine, OpenStackMachine, Time};
use controllers_infrastructure::{Cloud, Server};
use controllers_runtime::now;
use jiff::{SignedDuration, Timestamp};

/// Condition that explains a failed bootstrap. It is no part of the condition `Ready`.
pub(super) const CONDITION: &str = "BootstrapSucceeded";

/// Time that a machine has to become a node before its console is read. On a fast cloud, it needs less.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// Number of lines of the console that are read. The report of a failure has about a hundred.
const LINES: u32 = 200;

/// Start of the line with which a node of Capstan reports a failure: machine, phase and exit code follow.
const REPORT: &str = "capstan-bootstrap:";

/// Text of cloud-init when the commands of the bootstrap data have failed.
const CLOUD_INIT: &str = "Failed to run module scripts";

/// Texts of cloud-init that has found neither a metadata service nor a config drive, so the machine has no bootstrap data.
const NO_DATA: [&str; 2] = ["Used fallback datasource", "no datasource found!"];

/// Text of kubeadm before the cause of a failure.
const KUBEADM: &str = "error execution phase";

/// Remedy for a kubeadm that reads none of the configurations of newer ones.
const OLD_KUBEADM: &str = "The kubeadm of the image is older than the control plane, and cannot read its configuration. Choose an image with \
    the kubeadm of the control plane's version";

/// Likely causes and remedies, by a text of kubeadm or of the shell. The first one that is found counts: the image, then
/// the network, then the trust between machine and API.
const HINTS: [(&str, &str); 10] = [
    ("kubeadm: not found", "The image has no kubeadm. Choose another image"),
    ("kubeadm: command not found", "The image has no kubeadm. Choose another image"),
    (
        "this version of kubeadm only supports",
        "The kubeadm of the image has another minor version. Choose an image for the Machine's version",
    ),
    ("failed to decode cluster configuration data", OLD_KUBEADM),
    (
        "your configuration file uses an old API spec",
        "The kubeadm of the image is newer than the Machine's version. Choose an image for that version",
    ),
    (
        "connection refused",
        "The machine does not reach the endpoint of the API. See load balancer and security groups",
    ),
    ("i/o timeout", "The machine does not reach the endpoint of the API. See routes and security groups"),
    ("x509:", "Another cluster has the address of the endpoint, or its CA is another one than in the Secret"),
    (
        "could not find a JWS signature",
        "The API server does not know the bootstrap token. See the Events of the KubeadmConfig",
    ),
    (
        "Unauthorized",
        "The API server does not accept the bootstrap token. See the Events of the KubeadmConfig",
    ),
];

/// Phase in the report of a machine that has not got its bootstrap data by a URL.
const FETCH: &str = "fetch";

/// Response to a second request for bootstrap data, as curl and Python write it.
const FETCHED: [&str; 2] = ["error: 410", "Error 410"];

/// Remedy for data that was fetched before.
const FETCHED_BEFORE: &str = "The bootstrap data was fetched before, and is delivered once. If the Event BootstrapDataFetched of the KubeadmConfig \
    does not name the address of this machine, another program has read its user data. Delete the Machine to replace it";

/// Remedy for data that was not fetched.
const NOT_FETCHED: &str = "The machine does not get its bootstrap data. See routes and security groups to bootstrapData.url in the server's \
    configuration, and the certificate of that address";

/// States of a server whose console may have a cause. A server that ran before it entered `ERROR` has one.
const WITH_CONSOLE: [&str; 2] = ["ACTIVE", "ERROR"];

/// Number of lines that precede cloud-init's own, and of lines that follow the report. They contain the cause.
const AROUND: usize = 8;

/// Number of lines of cloud-init's log in the report of a node.
const LOG: usize = 40;

/// Longest line of the message. Unit: characters.
const LONGEST_LINE: usize = 240;

/// Reads the console if it may say why the machine is no node. Returns the condition if it changes.
pub(super) async fn condition(
    cloud: &Arc<dyn Cloud>,
    object: &OpenStackMachine,
    machine: &Machine,
    server: Option<&Server>,
) -> Option<Condition> {
    let due = server.filter(|it| is_due(object, machine, &it.status, Timestamp::now()));
    let console = match due {
        // A cloud need not give consoles to its users, and a server that was never built has none.
        Some(server) => cloud.console_log(&server.id, LINES).await.ok(),
        None => None,
    };
    let status = server.map(|server| server.status.as_str());
    change(object, machine, status, console.as_deref(), &now())
}

/// Returns the condition if it changes. Before a verdict it is Unknown, from the server on.
fn change(
    object: &OpenStackMachine,
    machine: &Machine,
    server: Option<&str>,
    console: Option<&str>,
    now: &Time,
) -> Option<Condition> {
    // Only bootstrap data of a bootstrap provider is expected to make a node.
    machine.spec.bootstrap.config_ref.as_ref()?;
    let known = object.condition(CONDITION);
    let new = |status, reason: &str, message: &str| {
        Some(Condition::new(CONDITION, status, reason, message, now.clone()))
    };
    if has_node(machine) {
        let is_open = known.is_none_or(|it| !it.holds());
        return is_open.then(|| new(ConditionStatus::True, "Succeeded", "")).flatten();
    }
    let failure = console.and_then(|console| failure(console, now.clone()));
    if failure.is_some() {
        return failure;
    }
    let message = waiting(server?, console);
    // Without the console, what it said before stays.
    let is_known = |known: &str| known == message || (console.is_none() && known.ends_with(&message));
    let is_new = known.is_none_or(|it| it.status == ConditionStatus::Unknown && !is_known(&it.message));
    is_new.then(|| new(ConditionStatus::Unknown, "Running", &message)).flatten()
}

/// Returns the message before there is a verdict.
fn waiting(status: &str, console: Option<&str>) -> String {
    match (status, console) {
        ("ACTIVE", Some(text)) if text.trim().is_empty() => {
            "the console of the server has no output, so the image may not boot; the machine is no Node yet"
                .to_owned()
        }
        ("ACTIVE", console) => match console.and_then(last_of_kubeadm) {
            Some(line) => format!("kubeadm has last written: {line}; the machine is no Node yet"),
            None => "the machine is no Node yet".to_owned(),
        },
        (status, _) => format!("the server is {status}, and not ACTIVE yet"),
    }
}

/// Returns the last line of kubeadm on the console. It begins with the phase in brackets, such as `[etcd]`.
fn last_of_kubeadm(console: &str) -> Option<String> {
    let is_letter = |it: u8| it.is_ascii_lowercase() || it == b'-';
    let is_of_phase = |line: &String| {
        let phase = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        phase.is_some_and(|(phase, _)| !phase.is_empty() && phase.bytes().all(is_letter))
    };
    let line = console.lines().rev().map(plain).find(is_of_phase)?;
    Some(redacted(&line))
}

/// Returns true if the console may say why the machine is no node, and has not said it yet.
fn is_due(object: &OpenStackMachine, machine: &Machine, status: &str, now: Timestamp) -> bool {
    let created = object.metadata.creation_timestamp.as_ref().map(|created| created.0);
    WITH_CONSOLE.contains(&status)
        && machine.spec.bootstrap.config_ref.is_some()
        && !has_node(machine)
        && object.condition(CONDITION).is_none_or(|it| it.status == ConditionStatus::Unknown)
        && created.is_some_and(|created| now.duration_since(created) >= PATIENCE)
}

/// Returns true if the machine is a node.
fn has_node(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.node_ref.is_some())
}

/// Returns the condition if the console reports a failure.
fn failure(console: &str, now: Time) -> Option<Condition> {
    let lines: Vec<String> = console.lines().map(plain).collect();
    let at = |text: &str| lines.iter().rposition(|line| line.contains(text));
    let before = |end: usize| -> Vec<&String> {
        lines.iter().take(end + 1).skip(end.saturating_sub(AROUND)).collect()
    };
    let no_data = NO_DATA.iter().find_map(|text| at(text));
    let (shown, other): (Vec<&String>, &str) = match (at(REPORT), at(CLOUD_INIT), no_data) {
        (Some(report), ..) => (of_report(lines.get(report..).unwrap_or_default()), "CloudInitFailed"),
        (None, Some(end), _) => (before(end), "CloudInitFailed"),
        (None, None, Some(end)) => (before(end), "NoNetwork"),
        (None, None, None) => return None,
    };
    let is_kubeadm = lines.iter().any(|line| line.contains(KUBEADM));
    let reason = if is_kubeadm { "KubeadmFailed" } else { other };
    let shown: Vec<String> =
        shown.into_iter().filter(|line| !line.is_empty()).map(|line| redacted(line)).collect();
    let lines = shown.join("\n");
    let hint = hint(&lines).map(|hint| format!("\n{hint}")).unwrap_or_default();
    let message = format!("The console of the server says:\n{lines}{hint}");
    Some(Condition::new(CONDITION, ConditionStatus::False, reason, &message, now))
}

/// Returns the likely cause and the remedy of a failure, by its lines.
fn hint(lines: &str) -> Option<&'static str> {
    let report = lines.lines().next().and_then(|line| line.strip_prefix(REPORT));
    if report.and_then(|report| report.split_whitespace().nth(1)) == Some(FETCH) {
        let is_fetched = FETCHED.iter().any(|text| lines.contains(text));
        return Some(if is_fetched { FETCHED_BEFORE } else { NOT_FETCHED });
    }
    HINTS.iter().find(|(text, _)| lines.contains(text)).map(|(_, hint)| *hint)
}

/// Returns the first line of a report, and those of its log with the cause: kubeadm's error and what follows, or the
/// last ones. After the log, the report has the journal of the kubelet.
fn of_report(lines: &[String]) -> Vec<&String> {
    let Some((first, rest)) = lines.split_first() else { return Vec::new() };
    let is_journal = |line: &String| line.contains(" kubelet[") || line.starts_with("-- ");
    let end = rest.iter().take(LOG).position(is_journal).unwrap_or_else(|| rest.len().min(LOG));
    let log = rest.get(..end).unwrap_or_default();
    let cause = log.iter().position(|line| line.contains(KUBEADM));
    let start = cause.unwrap_or_else(|| log.len().saturating_sub(AROUND));
    [first].into_iter().chain(log.iter().skip(start).take(AROUND)).collect()
}

/// Returns a line without escape sequences, and without the time and the process that systemd puts before it.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                let _ = rest.by_ref().find(char::is_ascii_alphabetic);
            }
            character if character.is_control() => {}
            character => plain.push(character),
        }
    }
    let text = plain.split_once("]: ").filter(|(before, _)| before.contains("cloud-init["));
    text.map_or(plain.as_str(), |(_, text)| text).trim().chars().take(LONGEST_LINE).collect()
}

/// Returns a line without tokens and keys.
fn redacted(line: &str) -> String {
    let words = line.split(' ').map(|word| if is_secret(word) { "<redacted>" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns true for bootstrap tokens and certificate keys, in the form that kubeadm requires.
fn is_secret(word: &str) -> bool {
    let word = word.trim_matches(|it: char| !it.is_ascii_alphanumeric());
    let is_token = word.split_once('.').is_some_and(|(id, secret)| id.len() == 6 && secret.len() == 16);
    let is_key = word.len() == 64 && word.chars().all(|it| it.is_ascii_hexdigit());
    is_token || is_key
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ContractVersionedObjectReference, MachineSpec, OpenStackMachineSpec};

    use super::*;

    #[test]
    fn the_line_before_cloud_inits_own_names_the_cause() {
        let console = "[1.9] cloud-init[256]: Cloud-init v. 22.4.2 running 'modules:final'\n\
            [2.0] cloud-init[256]: /var/lib/cloud/instance/scripts/runcmd: 2: prepare-storage: not found\n\
            [2.1] cloud-init[256]: cc_scripts_user.py[WARNING]: Failed to run module scripts-user\n\
            [\u{1b}[0;1;31mFAILED\u{1b}[0m] Failed to start cloud-final\nlogin: ";
        let condition = failure(console, now()).unwrap();
        assert_eq!((condition.kind.as_str(), condition.reason.as_str()), (CONDITION, "CloudInitFailed"));
        assert_eq!(condition.status, ConditionStatus::False);
        let cause = "\n/var/lib/cloud/instance/scripts/runcmd: 2: prepare-storage: not found\n";
        assert!(condition.message.contains(cause), "{}", condition.message);
        assert!(!condition.message.contains("login"), "{}", condition.message);
    }

    #[test]
    fn a_machine_that_reaches_no_metadata_is_told_from_a_failed_script() {
        let console = "[9.1] cloud-init[256]: ci-info: eth0 | False | . | .\n\
            [9.2] cloud-init[256]: 2026-11-26 10:00:00,123 - cc_final_message.py[WARNING]: Used fallback datasource\nlogin: ";
        let condition = failure(console, now()).unwrap();
        assert_eq!(condition.reason, "NoNetwork");
        assert!(condition.message.contains("ci-info: eth0 | False"), "{}", condition.message);
    }

    #[test]
    fn the_report_of_a_node_precedes_cloud_init() {
        let console = "Failed to run module scripts-user\ncapstan-bootstrap: m kubeadm 1\n\
            error execution phase preflight: couldn't validate the identity of the API Server\n";
        let condition = failure(console, now()).unwrap();
        assert_eq!(condition.reason, "KubeadmFailed");
        assert!(condition.message.contains("\ncapstan-bootstrap: m kubeadm 1\nerror execution"));
    }

    #[test]
    fn the_cause_is_found_at_the_end_of_a_long_report() {
        let start = format!("capstan-bootstrap: m kubeadm 1\n{}", "[init] a line before\n".repeat(38));
        let journal = "Nov 26 10:00:00 m kubelet[7]: much later\n".repeat(40);
        let error =
            "error execution phase preflight: Some fatal errors occurred:\n[ERROR Port-6443]: in use\n";
        let message = |log: &str| failure(&format!("{start}{log}{journal}"), now()).unwrap().message;
        let found = message(error);
        assert!(
            found.contains("kubeadm 1\nerror execution phase preflight") && found.contains("Port-6443"),
            "{found}"
        );
        assert!(!found.contains("kubelet["), "{found}");
        let found = message("runcmd: 2: prepare-storage: not found\n");
        assert!(found.contains("prepare-storage") && !found.contains("kubelet["), "{found}");
    }

    #[test]
    fn a_running_bootstrap_is_no_failure() {
        assert_eq!(failure("cloud-init[1]: [kubelet-check] Waiting\n", now()), None);
        assert_eq!(failure("", now()), None);
    }

    #[test]
    fn tokens_and_keys_are_not_in_the_message() {
        let key = "0f5ab0afc2c0e86e72fced8e6c08389d914b4f3f3ad482e9d23a78c5861f43c3";
        let line = format!("kubeadm join 10.0.0.1:6443 --token f65ctx.poliuqfumoejcpmr --key sha256:{key}");
        let shown = redacted(&line);
        assert!(!shown.contains("poliuq"), "{shown}");
        assert_eq!(redacted(key), "<redacted>");
    }

    #[test]
    fn the_console_is_read_after_a_minute_until_there_is_a_node_or_a_cause() {
        let later = Timestamp::now();
        let created = |created: Timestamp| {
            let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
            object.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
            object
        };
        let mut machine = Machine::new("m1", MachineSpec::default());
        let is_due =
            |object: &OpenStackMachine, machine: &Machine, now| is_due(object, machine, "ACTIVE", now);
        assert!(!is_due(&created(later - PATIENCE), &machine, later), "no bootstrap provider");
        machine.spec.bootstrap.config_ref = Some(ContractVersionedObjectReference::default());
        assert!(is_due(&created(later - PATIENCE), &machine, later));
        for (status, expected) in [("ERROR", true), ("BUILD", false), ("SHUTOFF", false)] {
            assert_eq!(
                super::is_due(&created(later - PATIENCE), &machine, status, later),
                expected,
                "{status}"
            );
        }
        assert!(!is_due(&created(later), &machine, later), "too early");
        let mut object = created(later - PATIENCE);
        set(&mut object, change(&created(later), &machine, Some("ACTIVE"), None, &now()));
        assert!(is_due(&object, &machine, later), "there is no verdict");
        set(&mut object, failure("capstan-bootstrap: m kubeadm 1", now()));
        assert!(!is_due(&object, &machine, later), "the cause is known");
    }

    fn set(object: &mut OpenStackMachine, condition: Option<Condition>) {
        object.status.get_or_insert_default().conditions = condition.map(|condition| vec![condition]);
    }

    #[test]
    fn the_condition_is_unknown_until_there_is_a_node_or_a_cause() {
        let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
        let mut machine = Machine::new("m1", MachineSpec::default());
        let found = |object: &OpenStackMachine, machine: &Machine, server, console| {
            let found = change(object, machine, server, console, &now());
            found.map(|it| format!("{:?} {}", it.status, it.reason))
        };
        let (cause, active) = (Some("capstan-bootstrap: m kubeadm 1"), Some("ACTIVE"));
        assert_eq!(found(&object, &machine, active, cause), None, "other data need not make a node");
        machine.spec.bootstrap.config_ref = Some(ContractVersionedObjectReference::default());
        assert_eq!(found(&object, &machine, None, None), None, "there is no server");
        let unknown = Some("Unknown Running");
        for (server, console) in [(Some("BUILD"), None), (active, None), (active, Some("\n"))] {
            assert_eq!(found(&object, &machine, server, console).as_deref(), unknown);
            let running = change(&object, &machine, server, console, &now());
            set(&mut object, running);
            assert_eq!(found(&object, &machine, server, console), None, "nothing is new");
        }
        assert_eq!(found(&object, &machine, active, cause).as_deref(), Some("False CloudInitFailed"));
        set(&mut object, failure("capstan-bootstrap: m kubeadm 1", now()));
        assert_eq!(found(&object, &machine, active, None), None, "the cause stays");
        machine.status = serde_json::from_value(serde_json::json!({"nodeRef": {"name": "n"}})).unwrap();
        assert_eq!(found(&object, &machine, active, None).as_deref(), Some("True Succeeded"));
        let succeeded = change(&object, &machine, active, None, &now());
        set(&mut object, succeeded);
        assert_eq!(found(&object, &machine, active, None), None, "nothing is new");
    }

    /// A server did not join for minutes, and only its console named the phase of kubeadm.
    #[test]
    fn a_bootstrap_that_runs_is_reported_with_the_last_line_of_kubeadm() {
        let console = "[    1.9] systemd[1]: Started kubelet\n[preflight] Running pre-flight checks\n\
            [9.1] cloud-init[256]: [etcd] Announced new etcd member joining with token f65ctx.poliuqfumoejcpmr\n\
            [  OK  ] Reached target\nlogin: ";
        let line = "[etcd] Announced new etcd member joining with token <redacted>";
        assert_eq!(last_of_kubeadm(console).as_deref(), Some(line));
        assert_eq!(last_of_kubeadm("[    1.9] Linux version 6.1\n[  OK  ] Reached target\n"), None);
        let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
        let mut machine = Machine::new("m1", MachineSpec::default());
        machine.spec.bootstrap.config_ref = Some(ContractVersionedObjectReference::default());
        let found = |object: &OpenStackMachine, console| {
            change(object, &machine, Some("ACTIVE"), console, &now()).map(|it| it.message)
        };
        let expected = format!("kubeadm has last written: {line}; the machine is no Node yet");
        assert_eq!(found(&object, Some(console)), Some(expected));
        let running = change(&object, &machine, Some("ACTIVE"), Some(console), &now());
        set(&mut object, running);
        assert_eq!(found(&object, None), None, "the console is not known at times");
        let next =
            format!("{console}\n[control-plane-check] Checking kube-apiserver at https://10.0.0.4:6443\n");
        let message = found(&object, Some(next.as_str())).unwrap();
        assert!(message.contains(": [control-plane-check] Checking"), "{message}");
    }

    #[test]
    fn a_machine_without_its_bootstrap_data_has_a_hint() {
        for (lines, expected) in [
            ("22\ncurl: (22) The requested URL returned error: 410", FETCHED_BEFORE),
            ("22\nHTTP Error 410: Gone", FETCHED_BEFORE),
            ("7\ncurl: (7) Failed to connect to 192.0.2.1 port 7444: Connection refused", NOT_FETCHED),
            (
                "60\ncurl: (60) SSL certificate problem: x509: unable to get local issuer certificate",
                NOT_FETCHED,
            ),
        ] {
            let message = failure(&format!("capstan-bootstrap: m fetch {lines}\n"), now()).unwrap().message;
            assert!(message.ends_with(expected), "{message}");
        }
    }

    #[test]
    fn a_known_error_of_kubeadm_has_a_hint() {
        for (line, expected) in [
            ("/var/lib/cloud/instance/scripts/runcmd: 3: kubeadm: not found", "no kubeadm"),
            (
                "error execution phase preflight: couldn't validate: x509: certificate signed by unknown",
                "its CA",
            ),
            (
                "error execution phase preflight: unable to fetch the kubeadm-config ConfigMap: failed to decode \
                 cluster configuration data: no kind \"ClusterConfiguration\" is registered for version \
                 \"kubeadm.k8s.io/v1beta4\" in scheme",
                "the kubeadm of the control plane's version",
            ),
            (
                "error: your configuration file uses an old API spec: \"kubeadm.k8s.io/v1beta3\"",
                "newer than the Machine's version",
            ),
            (
                "error execution phase preflight: dial tcp 10.0.0.1:6443: connect: connection refused",
                "security groups",
            ),
        ] {
            let message =
                failure(&format!("capstan-bootstrap: m kubeadm 1\n{line}\n"), now()).unwrap().message;
            assert!(message.lines().last().unwrap().contains(expected), "{message}");
        }
    }
}

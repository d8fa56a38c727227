//! Proof that the server of a silent Node is off. Then nothing runs on it, and its deletion does not wait for its Pods.
//!
//! The Node alone proves nothing: its kubelet may only have lost the network, while Pods still write to volumes. The
//! status of the server does not, either: while its host is down, Nova deletes it in the database alone. So an event of
//! nova-compute, which runs on the host, has to say that the guest was stopped.

use std::time::Duration;

use controllers_infrastructure::{ActionRecord, Server};
use jiff::Timestamp;

/// Status of a stopped server.
const STOPPED: &str = "SHUTOFF";

/// Power state of a server without a running guest.
const POWER_OFF: i64 = 4;

/// Status of a server without a running guest, the action after which it has it, and the event of nova-compute.
const OFF: [(&str, &str, &str); 7] = [
    (STOPPED, "stop", "compute_stop_instance"),
    ("SUSPENDED", "suspend", "compute_suspend_instance"),
    ("SHELVED", "shelve", "compute_shelve_instance"),
    ("SHELVED_OFFLOADED", "shelve", "compute_shelve_instance"),
    ("SHELVED_OFFLOADED", "shelveOffload", "compute_shelve_offload_instance"),
    ("SOFT_DELETED", "delete", "compute_soft_delete_instance"),
    ("DELETED", "delete", "compute_terminate_instance"),
];

/// Actions that neither start nor stop a guest. The driver of the volumes makes some of them for the Pods that move.
const PASSIVE: [&str; 9] = [
    "attach_interface",
    "attach_volume",
    "createBackup",
    "createImage",
    "detach_interface",
    "detach_volume",
    "extend_volume",
    "lock",
    "unlock",
];

/// Verdict about the server of a silent Node, by its status and its log in Nova. For people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is proved to be off: the proof.
    Off(String),
    /// Nothing proves that it is off: the reason.
    Unproved(String),
    /// Nova cannot be read: the error.
    Unknown(String),
}

/// Reports whether an action starts or stops a guest. The newest of them decides whether it runs.
pub(super) fn is_decisive(action: &ActionRecord) -> bool {
    !PASSIVE.contains(&action.action.as_str())
}

/// Reports whether a server has a status without a running guest, and no task in progress. This is no proof, but its
/// absence ends one.
pub(super) fn looks_off(server: &Server) -> bool {
    let is_off = OFF.iter().any(|(status, ..)| *status == server.status);
    is_off && server.task_state.is_none() && !is_powered(server)
}

fn is_powered(server: &Server) -> bool {
    server.status == STOPPED && server.power_state != Some(POWER_OFF)
}

/// Judges whether a server is off. `server`: as Nova shows it, `None` if it does not exist. `actions`: its log, newest
/// first. `off_time`: time for which it must be off, so that an action that starts it again would be seen.
pub(super) fn judge(
    server: Option<&Server>,
    actions: &[ActionRecord],
    off_time: Duration,
    now: Timestamp,
) -> Verdict {
    proof(server, actions, off_time, now).map_or_else(Verdict::Unproved, Verdict::Off)
}

/// Returns the proof, or as an error the reason why there is none.
fn proof(
    server: Option<&Server>,
    actions: &[ActionRecord],
    off_time: Duration,
    now: Timestamp,
) -> Result<String, String> {
    let status = server.map_or("DELETED", |server| server.status.as_str());
    if let Some(task) = server.and_then(|server| server.task_state.as_deref()) {
        return Err(format!("Nova says {status}, and its task {task} is in progress"));
    }
    let last = actions.iter().find(|action| is_decisive(action));
    let last =
        last.ok_or_else(|| format!("Nova says {status}, and its log has no action that stopped it"))?;
    let (action, request) = (last.action.as_str(), last.request_id.as_str());
    let known = OFF.iter().find(|(of, by, _)| *of == status && *by == action);
    let Some((.., wanted)) = known else {
        return Err(format!("Nova says {status}, and its newest action is {action} (request {request})"));
    };
    if server.is_some_and(is_powered) {
        return Err(format!("Nova says {status}, but not that the power is off"));
    }
    let Some(finished) = success(last, wanted) else {
        return Err(format!(
            "Nova says {status}, but its action {action} (request {request}) has no event {wanted} that ended with \
             Success"
        ));
    };
    let off = Duration::try_from(now.duration_since(finished)).unwrap_or_default();
    if off < off_time {
        let seconds = off_time.as_secs();
        return Err(format!("Nova says {status} since {finished}, which counts after {seconds} s"));
    }
    Ok(format!(
        "Nova says {status}, and its action {action} ended with Success at {finished} (event {wanted}, request \
         {request})"
    ))
}

/// Returns when an action ended, if it has an event of this name, and all its events ended with success.
fn success(action: &ActionRecord, event: &str) -> Option<Timestamp> {
    let mut reports = action.events.iter().filter(|it| it.name == event);
    let is_reported = reports.any(|it| it.result.as_deref() == Some("Success"));
    if !is_reported || action.result.as_deref() != Some("Success") {
        return None;
    }
    action.finished_at.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::ActionEvent;

    use super::*;

    fn server(status: &str, task: Option<&str>) -> Server {
        Server {
            status: status.to_owned(),
            task_state: task.map(str::to_owned),
            power_state: Some(if status == "ACTIVE" { 1 } else { POWER_OFF }),
            ..Server::default()
        }
    }

    /// Returns an action with one event, at a second of the epoch.
    fn action(name: &str, event: &str, result: Option<&str>, second: i64) -> ActionRecord {
        let result = result.map(str::to_owned);
        ActionRecord {
            action: name.to_owned(),
            request_id: "req-1".to_owned(),
            finished_at: Some(Timestamp::from_second(second).unwrap().to_string()),
            events: vec![ActionEvent { name: event.to_owned(), result: result.clone() }],
            result,
            ..ActionRecord::default()
        }
    }

    fn stop() -> ActionRecord {
        action("stop", "compute_stop_instance", Some("Success"), 0)
    }

    fn off() -> Option<Server> {
        Some(server("SHUTOFF", None))
    }

    fn is_off(server: Option<&Server>, actions: &[ActionRecord], second: i64) -> bool {
        let now = Timestamp::from_second(second).unwrap();
        matches!(judge(server, actions, Duration::from_mins(1), now), Verdict::Off(_))
    }

    #[test]
    fn only_an_event_of_nova_compute_of_a_minute_ago_proves_that_a_server_is_off() {
        let ok = Some("Success");
        let of = |name: &str, event: &str| vec![action(name, event, ok, 0)];
        let ended = |result| vec![action("stop", "compute_stop_instance", result, 0)];
        let (suspended, starting) = (server("SUSPENDED", None), server("SHUTOFF", Some("powering-on")));
        let unread = ActionRecord { events: Vec::new(), ..stop() };
        let table = [
            ("stopped", off(), vec![stop()], 60, true),
            ("stopped a moment ago", off(), vec![stop()], 59, false),
            ("no action", off(), vec![], 600, false),
            ("never stopped", off(), of("create", "compute__do_build_and_run_instance"), 600, false),
            ("the stop failed", off(), ended(Some("Error")), 600, false),
            ("the stop runs", off(), ended(None), 600, false),
            ("the API alone has stopped it", off(), of("stop", "api_stop"), 600, false),
            ("the events were not read", off(), vec![unread], 600, false),
            ("it runs", Some(server("ACTIVE", None)), vec![stop()], 600, false),
            ("it is being started", Some(starting), vec![stop()], 600, false),
            ("paused", Some(server("PAUSED", None)), of("pause", "compute_pause_instance"), 600, false),
            ("suspended", Some(suspended), of("suspend", "compute_suspend_instance"), 600, true),
            ("shelved", Some(server("SHELVED", None)), of("shelve", "compute_shelve_instance"), 600, true),
            ("deleted", None, of("delete", "compute_terminate_instance"), 600, true),
        ];
        for (case, server, actions, second, expected) in table {
            assert_eq!(is_off(server.as_ref(), &actions, second), expected, "{case}");
        }
        let verdict = judge(off().as_ref(), &[stop()], Duration::ZERO, Timestamp::UNIX_EPOCH);
        let Verdict::Off(text) = verdict else { panic!("it is off") };
        assert!(text.contains("action stop") && text.contains("request req-1"), "{text}");
        assert!(text.contains("event compute_stop_instance"), "{text}");
    }

    /// While the host of a server is down, Nova deletes the server in its database alone, and records no event.
    #[test]
    fn a_server_that_is_gone_without_an_event_of_its_host_may_run() {
        assert!(!is_off(None, &[], 600), "the log is gone, too");
        assert!(!is_off(None, &[action("create", "compute__do_build", Some("Success"), 0)], 600));
        assert!(!is_off(None, &[action("delete", "api_delete", Some("Success"), 0)], 600));
        assert!(!is_off(None, &[stop()], 600), "nothing says how it went");
    }

    #[test]
    fn an_action_that_may_start_the_guest_ends_the_proof_and_one_on_its_volumes_does_not() {
        let with = |name: &str| [action(name, "compute_x", Some("Success"), 5), stop()];
        for name in PASSIVE {
            assert!(is_off(off().as_ref(), &with(name), 600), "{name}");
        }
        for name in ["start", "reboot", "rebuild", "unshelve", "resize", "evacuate", "new in a later Nova"] {
            assert!(!is_off(off().as_ref(), &with(name), 600), "{name}");
        }
        let running = ActionRecord { result: None, events: Vec::new(), ..with("detach_volume")[0].clone() };
        assert!(is_off(off().as_ref(), &[running, stop()], 600), "a detachment in progress");
    }

    #[test]
    fn a_stopped_server_with_another_power_state_may_run() {
        for (power_state, expected) in [(Some(4), true), (Some(1), false), (Some(0), false), (None, false)] {
            let server = Server { power_state, ..server("SHUTOFF", None) };
            assert_eq!(is_off(Some(&server), &[stop()], 600), expected, "{power_state:?}");
            assert_eq!(looks_off(&server), expected, "{power_state:?}");
        }
        assert!(!looks_off(&server("ACTIVE", None)) && !looks_off(&server("SHUTOFF", Some("powering-on"))));
    }

    #[test]
    fn the_reason_names_what_is_missing() {
        let reason = |server: Option<Server>, actions: &[ActionRecord]| {
            let now = Timestamp::from_second(30).unwrap();
            match judge(server.as_ref(), actions, Duration::from_mins(1), now) {
                Verdict::Unproved(reason) => reason,
                other => panic!("{other:?}"),
            }
        };
        let start = action("start", "compute_start_instance", Some("Success"), 5);
        assert_eq!(
            reason(Some(server("ACTIVE", None)), &[start, stop()]),
            "Nova says ACTIVE, and its newest action is start (request req-1)"
        );
        assert_eq!(
            reason(off(), &[stop()]),
            "Nova says SHUTOFF since 1970-01-01T00:00:00Z, which counts after 60 s"
        );
        let text = reason(off(), &[action("stop", "api_stop", Some("Success"), 0)]);
        assert!(text.contains("has no event compute_stop_instance that ended with Success"), "{text}");
    }
}

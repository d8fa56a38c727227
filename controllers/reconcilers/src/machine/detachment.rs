//! Detachment of the volumes of a server that is off, before the server is deleted. Pure.
//!
//! Volumes that Nova deletes with the server stay attached. The others are those of claims, and Pods on other Nodes wait
//! for them.

use std::collections::BTreeMap;

use controllers_infrastructure::{CloudError, ErrorClass, Server};

use super::fence;

/// Statuses in which Nova detaches volumes. In the others that prove a server to be off, its deletion does it.
const DETACHES: [&str; 4] = ["SHUTOFF", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED"];

/// Nova's answer about each volume in this pass, by its id: it is being detached, or an error.
pub(super) type Answers = BTreeMap<String, Result<(), CloudError>>;

/// Next step of a detachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: the server is not off any more.
    Stop,
    /// Request that this volume is detached.
    Detach(String),
    /// Wait until Nova has detached these volumes.
    Wait(Vec<String>),
    /// Try again: Nova refuses to detach volumes. The errors.
    Refused(String),
    /// Nothing: no volume is left that Nova detaches before the deletion of the server.
    Done,
}

/// Decides on the next step. `server` was read after the last answer: another client may start it at any time.
pub(super) fn next(server: &Server, answers: &Answers) -> Next {
    if !fence::looks_off(server) {
        return Next::Stop;
    }
    if !DETACHES.contains(&server.status.as_str()) {
        return Next::Done;
    }
    if let Some(volume) = server.kept_volumes.iter().find(|volume| !answers.contains_key(*volume)) {
        return Next::Detach(volume.clone());
    }
    let of = |volume: &String| answers.get(volume).and_then(|answer| answer.as_ref().err());
    let refusals = server.kept_volumes.iter().filter_map(|volume| Some((volume, of(volume)?)));
    let refusals: Vec<String> = refusals
        .filter(|(_, error)| !is_final(error))
        .map(|(volume, error)| format!("volume {volume}: {error}"))
        .collect();
    if !refusals.is_empty() {
        return Next::Refused(refusals.join("; "));
    }
    let waiting: Vec<String> =
        server.kept_volumes.iter().filter(|volume| of(volume).is_none()).cloned().collect();
    if waiting.is_empty() { Next::Done } else { Next::Wait(waiting) }
}

/// Reports whether another attempt has the same answer: the server boots from the volume, or Nova's policy forbids the
/// call. The deletion of the server detaches the volume.
fn is_final(error: &CloudError) -> bool {
    matches!(error.class, ErrorClass::Invalid | ErrorClass::Forbidden | ErrorClass::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(status: &str, volumes: &[&str]) -> Server {
        Server {
            status: status.to_owned(),
            power_state: Some(4),
            kept_volumes: volumes.iter().map(|&id| id.to_owned()).collect(),
            ..Server::default()
        }
    }

    fn error(class: ErrorClass) -> CloudError {
        CloudError::new(class, "detach", "Instance s is locked")
    }

    fn answers(all: &[(&str, Option<ErrorClass>)]) -> Answers {
        let one = |(id, class): &(&str, Option<ErrorClass>)| {
            ((*id).to_owned(), class.map_or(Ok(()), |class| Err(error(class))))
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn each_volume_is_detached_once_and_then_waited_for() {
        let both = server("SHUTOFF", &["a", "b"]);
        let step = |server: &Server, all: &[(&str, Option<ErrorClass>)]| next(server, &answers(all));
        assert_eq!(step(&both, &[]), Next::Detach("a".to_owned()));
        assert_eq!(step(&both, &[("a", None)]), Next::Detach("b".to_owned()));
        let waiting = Next::Wait(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(step(&both, &[("a", None), ("b", None)]), waiting);
        assert_eq!(step(&server("SHUTOFF", &[]), &[("a", None), ("b", None)]), Next::Done);
        assert_eq!(step(&server("SHUTOFF", &[]), &[]), Next::Done, "it has no volumes of claims");
    }

    #[test]
    fn nothing_is_detached_from_a_server_that_runs_again_or_is_about_to() {
        let task_state = Some("powering-on".to_owned());
        let starting = Server { task_state, ..server("SHUTOFF", &["a", "b"]) };
        let powered = Server { power_state: Some(1), ..server("SHUTOFF", &["a", "b"]) };
        for server in [starting, powered, server("ACTIVE", &["a", "b"]), server("REBOOT", &["a", "b"])] {
            assert_eq!(next(&server, &Answers::new()), Next::Stop, "{server:?}");
            assert_eq!(next(&server, &answers(&[("a", None)])), Next::Stop, "{server:?}");
        }
    }

    #[test]
    fn a_refusal_that_stays_is_left_to_the_deletion_of_the_server_and_others_are_tried_again() {
        let one = server("SHUTOFF", &["a"]);
        for class in [ErrorClass::Invalid, ErrorClass::Forbidden, ErrorClass::NotFound] {
            assert_eq!(next(&one, &answers(&[("a", Some(class))])), Next::Done, "{class:?}");
        }
        let locked = Next::Refused("volume a: detach: Instance s is locked".to_owned());
        assert_eq!(next(&one, &answers(&[("a", Some(ErrorClass::Conflict))])), locked);
        let both = server("SHUTOFF", &["a", "b"]);
        assert_eq!(next(&both, &answers(&[("a", Some(ErrorClass::Conflict)), ("b", None)])), locked);
        let root = [("a", Some(ErrorClass::Invalid)), ("b", None)];
        assert_eq!(next(&both, &answers(&root)), Next::Wait(vec!["b".to_owned()]));
    }

    #[test]
    fn nova_detaches_no_volume_of_a_suspended_server() {
        assert_eq!(next(&server("SUSPENDED", &["a"]), &Answers::new()), Next::Done);
        for status in DETACHES {
            let found = next(&server(status, &["a"]), &Answers::new());
            assert_eq!(found, Next::Detach("a".to_owned()), "{status}");
        }
    }
}

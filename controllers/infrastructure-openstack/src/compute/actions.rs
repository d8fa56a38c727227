//! Nova's instance-action log of a server.
//!
//! The list of actions does not say how an action went; its events do, one call per action.

use controllers_infrastructure::{ActionEvent, ActionRecord, CloudResult};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;

use super::path;
use crate::{
    paging::list,
    request::{Request, Service, encode},
    session::Session,
    time::utc,
};

/// Number of newest actions whose events are read. Nova works on one action of a server at a time, so an
/// older one has ended, and its message contains the result.
const DETAILED: usize = 10;

/// Number of concurrent detail calls.
const AT_ONCE: usize = 4;

#[derive(Deserialize)]
struct Action {
    action: String,
    request_id: String,
    start_time: String,
    #[serde(default)]
    updated_at: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    event: String,
    #[serde(default)]
    finish_time: Option<String>,
    #[serde(default)]
    result: Option<String>,
}

/// Returns the path of the log of a server.
fn log(server: &str) -> String {
    format!("{}/os-instance-actions", path(server))
}

/// Returns one entry of the log of a server.
pub(crate) async fn action(session: &Session, server: &str, request_id: &str) -> CloudResult<ActionRecord> {
    detail(session, &log(server), request_id).await
}

/// Returns the log of a server, newest entry first.
pub(crate) async fn actions(session: &Session, server: &str) -> CloudResult<Vec<ActionRecord>> {
    let root = log(server);
    let request = Request::get(Service::Compute, root.clone());
    let mut all: Vec<Action> = list(session, request, "instanceActions").await?;
    all.sort_by(|one, other| other.start_time.cmp(&one.start_time));
    let old = all.split_off(all.len().min(DETAILED));
    let details: Vec<_> = all.iter().map(|action| detail(session, &root, &action.request_id)).collect();
    let mut records: Vec<ActionRecord> = stream::iter(details).buffered(AT_ONCE).try_collect().await?;
    records.extend(old.into_iter().map(ended));
    Ok(records)
}

async fn detail(session: &Session, root: &str, request_id: &str) -> CloudResult<ActionRecord> {
    let request = Request::get(Service::Compute, format!("{root}/{}", encode(request_id)));
    Ok(record(session.under(&request, "instanceAction").await?))
}

/// Converts an action. It runs until all its events have ended, and before it has any.
fn record(action: Action) -> ActionRecord {
    let running = action.events.is_empty() || action.events.iter().any(|event| event.finish_time.is_none());
    let failed = action.events.iter().any(|event| event.result.as_deref() == Some("Error"));
    let finished = action.events.iter().filter_map(|event| event.finish_time.as_deref()).max();
    ActionRecord {
        result: match (failed, running) {
            (true, _) => Some("Error".to_owned()),
            (false, true) => None,
            (false, false) => Some("Success".to_owned()),
        },
        finished_at: finished.filter(|_| !running || failed).map(utc),
        action: action.action,
        request_id: action.request_id,
        started_at: utc(&action.start_time),
        message: action.message,
        events: action
            .events
            .into_iter()
            .map(|event| ActionEvent { name: event.event, result: event.result })
            .collect(),
    }
}

/// Converts an action that is too old to be still running.
fn ended(action: Action) -> ActionRecord {
    let result = if action.message.is_some() { "Error" } else { "Success" };
    ActionRecord {
        result: Some(result.to_owned()),
        finished_at: action.updated_at.as_deref().map(utc),
        action: action.action,
        request_id: action.request_id,
        started_at: utc(&action.start_time),
        message: action.message,
        events: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(events: &Value) -> (Option<String>, Option<String>) {
        let action = json!({
            "action": "reboot", "request_id": "req-1", "start_time": "2026-09-09T10:00:00.000000",
            "message": null, "events": events,
        });
        let record = record(serde_json::from_value(action).unwrap());
        (record.result, record.finished_at)
    }

    #[test]
    fn the_result_of_an_action_follows_from_its_events() {
        let good = json!({"finish_time": "2026-09-09T10:00:02.000000", "result": "Success"});
        let later = json!({"finish_time": "2026-09-09T10:00:03.000000", "result": "Success"});
        let bad = json!({"finish_time": "2026-09-09T10:00:04.000000", "result": "Error"});
        let open = json!({"finish_time": null, "result": null});
        let at = |second: u32| Some(format!("2026-09-09T10:00:0{second}Z"));
        assert_eq!(read(&json!([])), (None, None));
        assert_eq!(read(&json!([good, open])), (None, None));
        assert_eq!(read(&json!([later, good])), (Some("Success".into()), at(3)));
        assert_eq!(read(&json!([good, bad])), (Some("Error".into()), at(4)));
    }

    #[test]
    fn an_action_has_the_names_and_the_results_of_its_events() {
        let events = json!([
            {"event": "compute_stop_instance", "finish_time": "2026-09-09T10:00:02.000000", "result": "Success"},
            {"event": "compute_start_instance", "finish_time": null, "result": null},
        ]);
        let action = json!({
            "action": "stop", "request_id": "req-1", "start_time": "2026-09-09T10:00:00.000000", "events": events,
        });
        let found = record(serde_json::from_value(action).unwrap()).events;
        let event = |name: &str, result: Option<&str>| ActionEvent {
            name: name.to_owned(),
            result: result.map(str::to_owned),
        };
        let (stopped, starts) = ("compute_stop_instance", "compute_start_instance");
        assert_eq!(found, [event(stopped, Some("Success")), event(starts, None)]);
    }
}

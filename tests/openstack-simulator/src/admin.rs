//! Endpoints under `/simulator`: the library's methods for other processes.

use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::cloud::SimulatedCloud;
use crate::faults::InjectedFault;
use crate::http::{HandlerResult, Reply, Request};
use crate::manila::SeededShare;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quota {
    project: String,
    resource: String,
    limit: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Latency {
    milliseconds: u64,
}

fn refusal(status: StatusCode, message: &str) -> Reply {
    Reply::json(status, &json!({"error": message}))
}

fn parse<T: DeserializeOwned>(request: &Request) -> Result<T, Reply> {
    serde_json::from_slice(&request.body)
        .map_err(|error| refusal(StatusCode::BAD_REQUEST, &format!("the body does not fit: {error}")))
}

fn done() -> HandlerResult {
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn set_quota(cloud: &SimulatedCloud, Quota { project, resource, limit }: &Quota) -> HandlerResult {
    if cloud.set_quota(project, resource, *limit) {
        done()
    } else {
        Err(refusal(StatusCode::NOT_FOUND, &format!("there is no project {project}")))
    }
}

fn create_share(cloud: &SimulatedCloud, new: &SeededShare) -> HandlerResult {
    match cloud.create_share(new) {
        Some(id) => Ok(Reply::json(StatusCode::CREATED, &json!({"id": id}))),
        None => Err(refusal(StatusCode::NOT_FOUND, &format!("there is no project {}", new.project))),
    }
}

/// Handles a call under `/simulator`.
pub(crate) fn handle(cloud: &SimulatedCloud, request: &Request) -> HandlerResult {
    let segments = request.segments();
    let what = segments.get(1).map(String::as_str).unwrap_or_default();
    match (&request.method, what) {
        (&Method::GET, "log") => Ok(Reply::ok(&json!({"calls": cloud.log.all()}))),
        (&Method::POST | &Method::DELETE, "clear-log") | (&Method::DELETE, "log") => {
            cloud.log.clear();
            done()
        }
        (&Method::GET, "inventory") => {
            let project = request.query.get("project").unwrap_or("demo");
            Ok(Reply::ok(&json!(cloud.inventory(project))))
        }
        (&Method::GET, "faults") => Ok(Reply::ok(&json!({"faults": cloud.faults.all()}))),
        (&Method::POST, "faults") => {
            let fault: InjectedFault = parse(request)?;
            cloud.inject(fault);
            done()
        }
        (&Method::DELETE, "faults") => {
            cloud.faults.clear();
            done()
        }
        (&Method::PUT, "quotas") => {
            let quota: Quota = parse(request)?;
            set_quota(cloud, &quota)
        }
        (&Method::POST, "shares") => {
            let share: SeededShare = parse(request)?;
            create_share(cloud, &share)
        }
        (&Method::PUT, "latency") => {
            let Latency { milliseconds } = parse(request)?;
            cloud.set_latency(Duration::from_millis(milliseconds));
            done()
        }
        _ => {
            let known = "log, clear-log, inventory, faults, quotas, shares, latency";
            Err(refusal(StatusCode::NOT_FOUND, &format!("no such call; there are {known}")))
        }
    }
}

//! What a handler knows besides the state.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::http::Request;
use crate::object::{Object, object};
use crate::options::SimulatorOptions;

/// Who is calling.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) project_id: String,
    pub(crate) user_id: String,
    pub(crate) admin: bool,
}

impl Caller {
    /// Whether something of `project` is the caller's to see.
    pub(crate) fn owns(&self, project: &str) -> bool {
        self.admin || self.project_id == project
    }
}

/// One authenticated call.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) request: &'a Request,
    pub(crate) options: &'a SimulatorOptions,
    pub(crate) now: Timestamp,
    pub(crate) caller: Caller,
    /// The minor number of the compute microversion; 1 elsewhere.
    pub(crate) microversion: u32,
}

impl Context<'_> {
    /// The object under `key` of the body.
    pub(crate) fn body(&self, key: &str) -> Option<Object> {
        let mut body = object(self.request.json()?);
        match body.remove(key)? {
            Value::Object(inner) => Some(inner),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    /// The whole body.
    pub(crate) fn whole_body(&self) -> Object {
        self.request.json().map(object).unwrap_or_default()
    }

    /// The moment `delay` from now.
    pub(crate) fn after(&self, delay: Duration) -> Timestamp {
        later(self.now, delay)
    }
}

/// The moment `delay` after `time`; the same moment if that is beyond all calendars.
pub(crate) fn later(time: Timestamp, delay: Duration) -> Timestamp {
    time.checked_add(delay).unwrap_or(time)
}

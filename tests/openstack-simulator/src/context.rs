//! Context of a call: the data that a handler has besides the state.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::http::Request;
use crate::object::{Object, object};
use crate::options::SimulatorOptions;

/// Identity of the caller.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) project_id: String,
    pub(crate) user_id: String,
    pub(crate) admin: bool,
    /// The caller has the role `reader` only.
    pub(crate) reader: bool,
}

impl Caller {
    /// Returns true if the caller may see the resources of `project`.
    pub(crate) fn owns(&self, project: &str) -> bool {
        self.admin || self.project_id == project
    }
}

/// End of the change that a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The change succeeds.
    Success,
    /// The change ends in ERROR.
    Error,
    /// The change never ends.
    Pending,
}

/// Duration of a change that never ends: longer than any test.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// One authenticated call.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) request: &'a Request,
    pub(crate) options: &'a SimulatorOptions,
    pub(crate) now: Timestamp,
    pub(crate) caller: Caller,
    /// Minor number of the compute microversion; 1 for other services.
    pub(crate) microversion: u32,
    /// End of the change that the call begins.
    pub(crate) fate: Fate,
}

impl Context<'_> {
    /// Returns the object under `key` of the body.
    pub(crate) fn body(&self, key: &str) -> Option<Object> {
        let mut body = object(self.request.json()?);
        match body.remove(key)? {
            Value::Object(inner) => Some(inner),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    /// Returns the whole body.
    pub(crate) fn whole_body(&self) -> Object {
        self.request.json().map(object).unwrap_or_default()
    }

    /// Returns the time `delay` after now.
    pub(crate) fn after(&self, delay: Duration) -> Timestamp {
        later(self.now, if self.fate == Fate::Pending { FOREVER } else { delay })
    }
}

/// Returns the time `delay` after `time`; the same time if that is out of range.
pub(crate) fn later(time: Timestamp, delay: Duration) -> Timestamp {
    time.checked_add(delay).unwrap_or(time)
}

//! Faults on purpose: which calls go wrong, and how.

use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::http::{Reply, Request};

/// A service of the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Keystone.
    Identity,
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Glance.
    Image,
    /// Cinder.
    Volume,
}

impl Service {
    /// The service that a path belongs to.
    pub(crate) fn of(path: &str) -> Self {
        match path.split('/').find(|part| !part.is_empty()) {
            Some("compute") => Self::Compute,
            Some("network") => Self::Network,
            Some("image") => Self::Image,
            Some("volume") => Self::Volume,
            Some(_) | None => Self::Identity,
        }
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Answer this instead of doing the call.
    Status {
        /// The HTTP status.
        code: u16,
        /// The body.
        #[serde(default)]
        body: String,
        /// The body's type; JSON if not said. A proxy would send `text/html`.
        #[serde(default)]
        content_type: Option<String>,
        /// The `Retry-After` header, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// Do the call, but this much later.
    Delay {
        /// How much later.
        milliseconds: u64,
    },
    /// Close the connection, and do not do the call.
    DropBeforeEffect,
    /// Do the call, then close the connection without an answer.
    DropAfterEffect,
    /// Never answer, and do not do the call.
    Hang,
}

/// A fault and the calls it befalls. What is left out matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Calls to this service.
    #[serde(default)]
    pub service: Option<Service>,
    /// Calls with this method.
    #[serde(default)]
    pub method: Option<String>,
    /// Calls whose path begins with this or has it inside, with the service's prefix:
    /// `/compute/v2.1/servers`, or just `/servers`.
    #[serde(default)]
    pub path: Option<String>,
    /// Server actions of this name, such as `reboot`.
    #[serde(default)]
    pub action: Option<String>,
    /// How many calls, until the fault is over. All of them if not said.
    #[serde(default)]
    pub count: Option<u64>,
    /// What happens to them.
    pub effect: Effect,
}

impl Fault {
    /// A fault of every call. Narrow it by setting the other fields.
    #[must_use]
    pub fn new(effect: Effect) -> Self {
        Self { service: None, method: None, path: None, action: None, count: None, effect }
    }

    fn befalls(&self, request: &Request) -> bool {
        let service = self.service.is_none_or(|service| service == Service::of(&request.path));
        let method = self.method.as_ref().is_none_or(|m| request.method.as_str().eq_ignore_ascii_case(m));
        let path = self.path.as_ref().is_none_or(|path| request.path.contains(path.as_str()));
        let action = self.action.is_none() || self.action == request.action();
        service && method && path && action && self.count != Some(0)
    }
}

impl Effect {
    /// The delay of a [`Effect::Delay`].
    pub(crate) fn delay(&self) -> Option<Duration> {
        match self {
            Self::Delay { milliseconds } => Some(Duration::from_millis(*milliseconds)),
            Self::Status { .. } | Self::DropBeforeEffect | Self::DropAfterEffect | Self::Hang => None,
        }
    }

    /// The reply of a [`Effect::Status`].
    pub(crate) fn reply(&self) -> Option<Reply> {
        let Self::Status { code, body, content_type, retry_after } = self else { return None };
        let status = http::StatusCode::from_u16(*code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let content_type = content_type.as_deref().unwrap_or("application/json");
        let reply = Reply::text(status, content_type, body.clone());
        Some(match retry_after {
            Some(seconds) => reply.with_header(http::header::RETRY_AFTER, &seconds.to_string()),
            None => reply,
        })
    }
}

/// The faults in force, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn inject(&self, fault: Fault) {
        crate::lock(&self.0).push(fault);
    }

    pub(crate) fn clear(&self) {
        crate::lock(&self.0).clear();
    }

    pub(crate) fn all(&self) -> Vec<Fault> {
        crate::lock(&self.0).clone()
    }

    /// The first fault that befalls the request. It counts as used.
    pub(crate) fn take(&self, request: &Request) -> Option<Effect> {
        let mut faults = crate::lock(&self.0);
        let fault = faults.iter_mut().find(|fault| fault.befalls(request))?;
        fault.count = fault.count.map(|count| count.saturating_sub(1));
        let effect = fault.effect.clone();
        faults.retain(|fault| fault.count != Some(0));
        Some(effect)
    }
}

//! Error injection: the calls that fail on purpose, and the way in which they fail.

use std::sync::Mutex;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::http::{Reply, Request};

/// A service of the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloudService {
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
    /// Octavia.
    LoadBalancer,
    /// Manila.
    Share,
}

impl CloudService {
    /// Returns the service that a path belongs to.
    pub(crate) fn of(path: &str) -> Self {
        match path.split('/').find(|part| !part.is_empty()) {
            Some("compute") => Self::Compute,
            Some("network") => Self::Network,
            Some("image") => Self::Image,
            Some("volume") => Self::Volume,
            Some("load-balancer") => Self::LoadBalancer,
            Some("share") => Self::Share,
            Some(_) | None => Self::Identity,
        }
    }
}

/// Effect of an injected error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultEffect {
    /// Returns this response instead of executing the call.
    Status {
        /// The HTTP status.
        code: u16,
        /// The body.
        #[serde(default)]
        body: String,
        /// The body's content type; JSON by default. A proxy would send `text/html`.
        #[serde(default)]
        content_type: Option<String>,
        /// The `Retry-After` header, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// Executes the call after a delay, or when all injected errors are removed.
    Delay {
        /// The delay.
        milliseconds: u64,
    },
    /// Closes the connection, and does not execute the call.
    DropBeforeEffect,
    /// Executes the call, then closes the connection without a response.
    DropAfterEffect,
    /// Executes the call, and the resource of Octavia that it creates or changes, or the volume that it creates, ends in
    /// ERROR.
    EndInError,
    /// Executes the call, and the task that it begins never ends: of Octavia, Nova or Cinder.
    PendingForever,
    /// Returns the HTML page of a proxy with this status instead of executing the call.
    HtmlPage {
        /// The HTTP status.
        code: u16,
    },
    /// Executes a read on the cloud as it was when the error was injected: a list lags behind the database.
    StaleList,
    /// Never responds, and does not execute the call.
    Hang,
}

/// Injected error, and the calls that it affects. An absent field matches every call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedFault {
    /// Calls to this service.
    #[serde(default)]
    pub service: Option<CloudService>,
    /// Calls with this method.
    #[serde(default)]
    pub method: Option<String>,
    /// Calls whose path begins with this text or contains it, with the service's prefix:
    /// `/compute/v2.1/servers`, or only `/servers`.
    #[serde(default)]
    pub path: Option<String>,
    /// Server actions of this name, such as `reboot`.
    #[serde(default)]
    pub action: Option<String>,
    /// Number of calls that it affects; all by default.
    #[serde(default)]
    pub count: Option<u64>,
    /// Effect on these calls.
    pub effect: FaultEffect,
}

impl InjectedFault {
    /// Creates an injected error for every call. Set the other fields to narrow it.
    #[must_use]
    pub fn new(effect: FaultEffect) -> Self {
        Self { service: None, method: None, path: None, action: None, count: None, effect }
    }

    fn matches(&self, request: &Request) -> bool {
        let service = self.service.is_none_or(|service| service == CloudService::of(&request.path));
        let method = self.method.as_ref().is_none_or(|m| request.method.as_str().eq_ignore_ascii_case(m));
        let path = self.path.as_ref().is_none_or(|path| request.path.contains(path.as_str()));
        let action = self.action.is_none() || self.action == request.action();
        service && method && path && action && self.count != Some(0)
    }
}

impl FaultEffect {
    /// Returns the delay of an [`FaultEffect::Delay`].
    pub(crate) fn delay(&self) -> Option<Duration> {
        match self {
            Self::Delay { milliseconds } => Some(Duration::from_millis(*milliseconds)),
            Self::Status { .. }
            | Self::DropBeforeEffect
            | Self::DropAfterEffect
            | Self::EndInError
            | Self::PendingForever
            | Self::HtmlPage { .. }
            | Self::StaleList
            | Self::Hang => None,
        }
    }

    /// Returns the reply of an [`FaultEffect::Status`] or an [`FaultEffect::HtmlPage`].
    pub(crate) fn reply(&self) -> Option<Reply> {
        let status = |code: u16| StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Self::HtmlPage { code } = self {
            return Some(Reply::text(status(*code), "text/html", page(status(*code))));
        }
        let Self::Status { code, body, content_type, retry_after } = self else { return None };
        let status = status(*code);
        let content_type = content_type.as_deref().unwrap_or("application/json");
        let reply = Reply::text(status, content_type, body.clone());
        Some(match retry_after {
            Some(seconds) => reply.with_header(http::header::RETRY_AFTER, &seconds.to_string()),
            None => reply,
        })
    }
}

/// Returns the page of a proxy, as nginx writes it.
fn page(status: StatusCode) -> String {
    format!(
        "<html>\r\n<head><title>{status}</title></head>\r\n<body>\r\n<center><h1>{status}</h1></center>\r\n\
         <hr><center>nginx/1.18.0</center>\r\n</body>\r\n</html>\r\n"
    )
}

/// Active injected errors.
#[derive(Debug, Default)]
pub(crate) struct InjectedFaults {
    /// The errors, oldest first.
    active: Mutex<Vec<InjectedFault>>,
    /// Notified when all are removed.
    cleared: Notify,
}

impl InjectedFaults {
    pub(crate) fn inject(&self, fault: InjectedFault) {
        crate::lock(&self.active).push(fault);
    }

    pub(crate) fn clear(&self) {
        crate::lock(&self.active).clear();
        self.cleared.notify_waiters();
    }

    /// Returns a future that ends when all errors are removed, counted from now.
    pub(crate) fn cleared(&self) -> Notified<'_> {
        self.cleared.notified()
    }

    pub(crate) fn all(&self) -> Vec<InjectedFault> {
        crate::lock(&self.active).clone()
    }

    /// Returns the effect of the first injected error that matches the request, and counts it as used.
    pub(crate) fn take(&self, request: &Request) -> Option<FaultEffect> {
        let mut faults = crate::lock(&self.active);
        let fault = faults.iter_mut().find(|fault| fault.matches(request))?;
        fault.count = fault.count.map(|count| count.saturating_sub(1));
        let effect = fault.effect.clone();
        faults.retain(|fault| fault.count != Some(0));
        Some(effect)
    }
}

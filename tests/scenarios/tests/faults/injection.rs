//! Injected failures, and the calls that they hit.

use std::collections::BTreeMap;
use std::fmt;

use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault, LoggedCall};
use tests_scenarios::World;

/// Way in which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureMode {
    /// The service responds with an internal error.
    Error,
    /// A proxy finds no backend.
    Page,
    /// The same, for longer than the provider retries.
    Pages,
    /// Too many requests; retry after a second.
    TooMany,
    /// The connection breaks before the call arrives.
    Unsent,
    /// The call takes effect, and its response is lost.
    Unanswered,
}

pub(crate) const FAILURE_MODES: [FailureMode; 6] = [
    FailureMode::Error,
    FailureMode::Page,
    FailureMode::Pages,
    FailureMode::TooMany,
    FailureMode::Unsent,
    FailureMode::Unanswered,
];

const PAGE: &str = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n\
    <center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.18.0</center>\r\n</body>\r\n</html>\r\n";

impl FailureMode {
    fn effect(self) -> FaultEffect {
        let status = |code, body: &str, content_type: Option<&str>, retry_after| FaultEffect::Status {
            code,
            body: body.to_owned(),
            content_type: content_type.map(str::to_owned),
            retry_after,
        };
        match self {
            Self::Error => {
                status(500, r#"{"computeFault": {"code": 500, "message": "Unexpected"}}"#, None, None)
            }
            Self::Page | Self::Pages => status(502, PAGE, Some("text/html"), None),
            Self::TooMany => status(429, r#"{"overLimit": {"message": "slow down"}}"#, None, Some(1)),
            Self::Unsent => FaultEffect::DropBeforeEffect,
            Self::Unanswered => FaultEffect::DropAfterEffect,
        }
    }

    fn count(self) -> u64 {
        if self == Self::Pages { 3 } else { 1 }
    }

    /// Returns the status in the log of a call that failed in this way.
    fn status(self) -> u16 {
        match self {
            Self::Error => 500,
            Self::Page | Self::Pages => 502,
            Self::TooMany => 429,
            Self::Unsent | Self::Unanswered => 0,
        }
    }
}

/// Kind of call of a run without failures, with the number of earlier calls that match the same pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    method: String,
    shape: String,
    pattern: String,
    before: u64,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.shape)
    }
}

impl Spot {
    /// Returns true for this method and a path that contains this text.
    pub(crate) fn is_call(&self, method: &str, path: &str) -> bool {
        self.method == method && self.shape.contains(path)
    }

    /// Returns true if both are the same kind of call.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.method == other.method && self.shape == other.shape
    }

    /// Injects a failure into the first call of this kind.
    pub(crate) fn inject(&self, world: &World, mode: FailureMode) {
        let fault = |effect, count| InjectedFault {
            service: Some(service(&self.shape)),
            method: Some(self.method.clone()),
            path: Some(self.pattern.clone()),
            count: Some(count),
            ..InjectedFault::new(effect)
        };
        // The oldest of several injected failures hits a call; this one has no effect on earlier calls.
        if self.before > 0 {
            world.cloud.inject(fault(FaultEffect::Delay { milliseconds: 0 }, self.before));
        }
        world.cloud.inject(fault(mode.effect(), mode.count()));
    }

    /// Returns true if a call of this kind failed in this way.
    pub(crate) fn was_hit(&self, world: &World, mode: FailureMode) -> bool {
        let hit = |call: &LoggedCall| {
            call.status == mode.status() && call.method == self.method && shape(call) == self.shape
        };
        world.cloud.log().iter().any(hit)
    }
}

/// Returns the kinds of calls in a log, each once.
pub(crate) fn spots(log: &[LoggedCall]) -> Vec<Spot> {
    let mut spots = BTreeMap::new();
    for (index, call) in log.iter().enumerate() {
        let shape = shape(call);
        let pattern = shape.split("{}").next().unwrap_or_default().to_owned();
        let matches =
            |earlier: &&LoggedCall| earlier.method == call.method && earlier.path.contains(&pattern);
        let earlier = log.iter().take(index).filter(matches);
        let before = earlier.filter(|earlier| service(&earlier.path) == service(&shape)).count();
        let before = u64::try_from(before).unwrap_or_default();
        let method = call.method.clone();
        spots.entry((method.clone(), shape.clone())).or_insert(Spot { method, shape, pattern, before });
    }
    spots.into_values().collect()
}

/// Returns a call's path without ids.
fn shape(call: &LoggedCall) -> String {
    let is_id =
        |part: &str| part.len() >= 32 && part.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    // Ownership tags contain the id of an object.
    let own = |part: &str| {
        ["capstan-cluster-", "capstan-"].iter().any(|it| part.strip_prefix(it).is_some_and(is_id))
    };
    let parts = call.path.split('/').map(|part| if is_id(part) || own(part) { "{}" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

fn service(path: &str) -> CloudService {
    match path.split('/').nth(1) {
        Some("compute") => CloudService::Compute,
        Some("network") => CloudService::Network,
        Some("image") => CloudService::Image,
        Some("volume") => CloudService::Volume,
        Some("load-balancer") => CloudService::LoadBalancer,
        Some("share") => CloudService::Share,
        _ => CloudService::Identity,
    }
}

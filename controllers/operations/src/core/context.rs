//! What the controller is given to work with.

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use controllers_infrastructure::CloudConnector;
use controllers_runtime::{ControllerContext, Queues, SecretSource};
use jiff::Timestamp;
use kube::Client;

/// What the controller works with.
#[derive(Clone)]
pub struct OperationContext {
    /// The API, as the controller's own identity.
    pub client: Client,
    /// Makes clouds from credentials.
    pub connector: Arc<dyn CloudConnector>,
    /// Where credentials and bootstrap data are.
    pub secrets: Arc<dyn SecretSource>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where the queue is measured.
    pub queues: Queues,
}

impl Debug for OperationContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperationContext").field("connector", &self.connector).finish_non_exhaustive()
    }
}

impl From<ControllerContext> for OperationContext {
    /// The same context, by the system's clocks.
    fn from(context: ControllerContext) -> Self {
        let ControllerContext { client, connector, secrets, queues, .. } = context;
        Self { client, connector, secrets, clock: Arc::new(SystemClock), queues }
    }
}

/// What time it is.
pub trait Clock: Send + Sync + Debug + 'static {
    /// Now, for people to read. May jump in either direction, so nothing is decided by it.
    fn now(&self) -> Timestamp;

    /// How long this process has run, by a clock that never jumps.
    fn elapsed(&self) -> Duration;
}

/// The system's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// From when on this process counts.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        START.elapsed()
    }
}

//! Context of the operations controller.

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use controllers_infrastructure::CloudConnector;
use controllers_runtime::{ControllerContext, Queues, SecretSource, TermStart};
use controllers_workload::WorkloadClusters;
use jiff::Timestamp;
use kube::Client;

/// Context of the operations controller.
#[derive(Clone)]
pub struct OperationContext {
    /// The API, as the controller's own identity.
    pub client: Client,
    /// Creates clouds from credentials.
    pub connector: Arc<dyn CloudConnector>,
    /// Source of credentials and bootstrap data.
    pub secrets: Arc<dyn SecretSource>,
    /// Connections to the workload clusters.
    pub workloads: Arc<WorkloadClusters>,
    /// Clocks.
    pub clock: Arc<dyn Clock>,
    /// Metrics of queues.
    pub queues: Queues,
    /// Begin of the term in which the controller runs.
    pub term: TermStart,
}

impl Debug for OperationContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperationContext").field("connector", &self.connector).finish_non_exhaustive()
    }
}

impl From<ControllerContext> for OperationContext {
    /// The same context, by the system's clocks.
    fn from(context: ControllerContext) -> Self {
        let ControllerContext { client, connector, secrets, workloads, queues, term, .. } = context;
        Self { client, connector, secrets, workloads, clock: Arc::new(SystemClock), queues, term }
    }
}

/// Clocks of the controller.
pub trait Clock: Send + Sync + Debug + 'static {
    /// Returns the time of day, for people. It may jump in either direction, so no decision uses it.
    fn now(&self) -> Timestamp;

    /// Returns how long this process has run, by a clock that never jumps.
    fn elapsed(&self) -> Duration;
}

/// The system's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// Start of this process's own clock.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        START.elapsed()
    }
}

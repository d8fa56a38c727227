//! What the controller is given to work with.

use std::fmt::Debug;
use std::sync::Arc;

use controllers_infrastructure::CloudConnector;
use controllers_runtime::SecretSource;
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
}

impl Debug for OperationContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperationContext").field("connector", &self.connector).finish_non_exhaustive()
    }
}

/// What time it is.
pub trait Clock: Send + Sync + Debug + 'static {
    /// Now. May jump in either direction; only differences of our own times are ever used.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

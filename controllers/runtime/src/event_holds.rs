//! Holds on Events: another part of the process still needs them, however old they are.

use k8s_openapi::api::core::v1::Event;

/// Holds on Events.
pub trait EventHolds: Send + Sync + 'static {
    /// Returns true if an Event must not expire yet.
    fn holds(&self, event: &Event) -> bool;
}

/// No holds: without a host cluster, only Capstan's own store has Events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEventHolds;

impl EventHolds for NoEventHolds {
    fn holds(&self, _: &Event) -> bool {
        false
    }
}

//! Traces: spans of requests, of passes of controllers, and of calls, which an OpenTelemetry collector receives.
//!
//! Traces are off until [`start`]. While they are off, each function of this crate loads one static and returns. Spans
//! have no names of objects, no bodies and no credentials: callers pass words of the program, numbers and ids.

mod around;
mod exporter;
mod parent;
mod span;

use std::sync::OnceLock;

use opentelemetry_sdk::trace::SdkTracer;

pub use around::{Around, carried};
pub use exporter::{Exporter, Settings, StartError, start};
pub use parent::Parent;
pub use span::{Kind, Span};

/// Tracer of the process, once traces are on.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Reports whether traces are on.
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

//! Parent of a root span: the trace context of another process, in the format of W3C Trace Context.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;

const TRACE_PARENT: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";

/// Trace context of another process. Without one, a root span begins a trace.
#[derive(Debug, Clone, Default)]
pub struct Parent(pub(crate) Option<Context>);

impl Parent {
    /// No parent.
    pub const NONE: Self = Self(None);

    /// Annotation of an object with the trace context of the request that created it, as `traceparent` has it.
    pub const ANNOTATION: &'static str = "capstan.dev/traceparent";

    /// Reports whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Reads the values of the headers `traceparent` and `tracestate`. An invalid value is no parent.
    pub fn read(trace_parent: Option<&str>, trace_state: Option<&str>) -> Self {
        if trace_parent.is_none() || !crate::is_on() {
            return Self::NONE;
        }
        Self::parse(&Headers { trace_parent, trace_state })
    }

    fn parse(headers: &Headers<'_>) -> Self {
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), headers);
        let is_valid = context.span().span_context().is_valid();
        Self(is_valid.then_some(context))
    }
}

/// Values of the two headers.
struct Headers<'a> {
    trace_parent: Option<&'a str>,
    trace_state: Option<&'a str>,
}

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACE_PARENT => self.trace_parent,
            TRACE_STATE => self.trace_state,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACE_PARENT, TRACE_STATE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_trace_context_is_a_parent() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parsed = |text| Parent::parse(&Headers { trace_parent: Some(text), trace_state: None }).0;
        let context = parsed(valid).unwrap();
        let span = context.span().span_context().clone();
        assert_eq!(span.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert!(span.is_sampled() && span.is_remote());
        for wrong in
            ["", "00", "00-0-b7ad6b7169203331-01", &valid.replace("0af7", "zzzz"), &format!("ff{valid}")]
        {
            assert!(parsed(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn no_header_is_read_while_traces_are_off() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(Parent::read(Some(valid), None).0.is_none());
    }
}

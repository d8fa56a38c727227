//! Span: one step, with its begin, its end and its attributes. A span that is not recorded does nothing.

use std::time::SystemTime;

use opentelemetry::trace::{Link, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::SdkTracer;

use crate::{Around, Parent, TRACER};

/// Role of a span in a call between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request of another process.
    Server,
    /// A call to another process.
    Client,
    /// A step of this process.
    Internal,
    /// Work that another request has caused.
    Consumer,
}

impl From<Kind> for SpanKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Server => Self::Server,
            Kind::Client => Self::Client,
            Kind::Internal => Self::Internal,
            Kind::Consumer => Self::Consumer,
        }
    }
}

/// Span. It ends when it is dropped. Its attributes are words of the program, numbers and ids, and no names of objects.
#[derive(Debug, Default)]
pub struct Span(Option<Context>);

impl Span {
    /// A span that is not recorded.
    pub const NONE: Self = Self(None);

    /// Begins a span below `parent`, or a trace of its own if there is none. The sampling rate applies to the latter.
    pub fn root(name: String, kind: Kind, begun: SystemTime, parent: &Parent) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::NONE };
        Self::begin(tracer, builder(name, kind).with_start_time(begun), parent)
    }

    /// Begins a span of work that an earlier request has caused: it continues the trace of that request, and links to it.
    pub fn caused_by(name: String, kind: Kind, cause: &Parent) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::NONE };
        let mut builder = builder(name, kind);
        if let Some(context) = &cause.0 {
            builder = builder.with_links(vec![Link::with_context(context.span().span_context().clone())]);
        }
        Self::begin(tracer, builder, cause)
    }

    /// Begins a span below the current one. Without a recorded current span, the new one is not recorded either.
    pub fn child(name: &'static str, kind: Kind) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::NONE };
        let current = Context::current();
        if !current.span().span_context().is_sampled() {
            return Self::NONE;
        }
        Self::begin(tracer, builder(name, kind), &Parent(Some(current)))
    }

    /// Adds a step of this span that began at `begun` and ends now.
    pub fn step(&self, name: &'static str, begun: SystemTime) {
        drop(self.begun_step(name, begun));
    }

    /// Adds a step of this span that began at `begun` and ends now, with one attribute.
    pub fn step_with(
        &self,
        name: &'static str,
        begun: SystemTime,
        (key, value): (&'static str, impl Into<Value>),
    ) {
        self.begun_step(name, begun).set(key, value);
    }

    fn begun_step(&self, name: &'static str, begun: SystemTime) -> Self {
        let (Some(tracer), Some(context)) = (TRACER.get(), &self.0) else { return Self::NONE };
        let builder = builder(name, Kind::Internal).with_start_time(begun);
        Self::begin(tracer, builder, &Parent(Some(context.clone())))
    }

    fn begin(tracer: &SdkTracer, builder: SpanBuilder, parent: &Parent) -> Self {
        let none = Context::new();
        let parent = parent.0.as_ref().unwrap_or(&none);
        let span = tracer.build_with_context(builder, parent);
        let context = parent.with_span(span);
        let is_recorded = context.span().is_recording();
        Self(is_recorded.then_some(context))
    }

    /// Reports whether the span is recorded. Attributes that cost something need to be computed only then.
    pub fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// Sets an attribute.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        if let Some(context) = &self.0 {
            context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Marks the span as failed. `why` is a word of the program, and not the text of an error, which may have names.
    pub fn fail(&self, why: &'static str) {
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(why));
        }
    }

    /// Makes this span the current one while `future` runs.
    pub fn around<F: Future>(&self, future: F) -> Around<F> {
        Around::new(future, self.0.clone())
    }

    /// Returns the current span as `traceparent` has it, for work that it causes later; `None` if it is not recorded.
    pub fn current_as_parent() -> Option<String> {
        TRACER.get()?;
        let current = Context::current();
        let span = current.span();
        let context = span.span_context();
        let text =
            || format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags());
        context.is_sampled().then(text)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // A task that outlives the step may still hold the context.
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }
}

fn builder(name: impl Into<std::borrow::Cow<'static, str>>, kind: Kind) -> SpanBuilder {
    SpanBuilder::from_name(name).with_kind(kind.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_recorded_while_traces_are_off() {
        let root = Span::root("request".to_owned(), Kind::Server, SystemTime::now(), &Parent::NONE);
        assert!(!root.is_recorded());
        assert!(!Span::child("step", Kind::Internal).is_recorded());
        assert_eq!(Span::current_as_parent(), None);
    }
}

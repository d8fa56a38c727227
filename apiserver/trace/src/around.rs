//! Future within a span.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use pin_project_lite::pin_project;

pin_project! {
    /// Future within a span. Without a recorded span, it only passes polls on.
    #[derive(Debug)]
    pub struct Around<F> {
        #[pin]
        future: F,
        context: Option<Context>,
    }
}

impl<F> Around<F> {
    pub(crate) const fn new(future: F, context: Option<Context>) -> Self {
        Self { future, context }
    }
}

impl<F: Future> Future for Around<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _current = this.context.as_ref().map(|context| context.clone().attach());
        this.future.poll(task)
    }
}

/// Carries the current span to another task: call it before the spawn.
pub fn carried<F: Future>(future: F) -> Around<F> {
    let current = crate::is_on().then(Context::current);
    Around::new(future, current.filter(|context| context.span().span_context().is_sampled()))
}

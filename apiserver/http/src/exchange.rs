//! One request and its answer, as metrics and the audit log tell of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver_access::User;
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;

use crate::audit::{Outcome, Record, Stage};
use crate::body::ResponseBody;
use crate::fairness::Seat;
use crate::filters::authorization::Decided;
use crate::metrics::RequestLabels;
use crate::response::{Answer, Refusal};
use crate::server::ApiServer;

/// What is gathered until the answer goes out.
#[derive(Debug)]
pub(crate) struct Exchange {
    server: Arc<ApiServer>,
    labels: RequestLabels,
    record: Option<Record>,
    is_known: bool,
    outcome: Outcome,
    panicked: bool,
    seat: Option<Seat>,
}

impl Exchange {
    pub(crate) fn open(server: &Arc<ApiServer>, labels: RequestLabels, record: Option<Record>) -> Self {
        let exchange = Self {
            server: Arc::clone(server),
            labels,
            record,
            is_known: false,
            outcome: Outcome::default(),
            panicked: false,
            seat: None,
        };
        exchange.write(Stage::RequestReceived, None);
        exchange
    }

    pub(crate) fn labels(&self) -> &RequestLabels {
        &self.labels
    }

    /// Whether it is known who asks.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    pub(crate) fn known_as(&mut self, user: &User) {
        self.is_known = !user.is_anonymous();
        if let Some(record) = &mut self.record {
            record.set_user(user);
        }
    }

    /// Whom the user is taken for; the user, where it is nobody else.
    pub(crate) fn acts_as(&mut self, user: &User) {
        if let Some(record) = &mut self.record {
            record.set_impersonated(user);
        }
    }

    pub(crate) fn decided(&mut self, decided: &Decided) {
        if let (Some(record), Some(word)) = (&mut self.record, decided.word) {
            record.set_decision(word, &decided.reason);
        }
    }

    /// Holds a place until the answer goes out.
    pub(crate) fn keep(&mut self, seat: Option<Seat>) {
        self.seat = seat;
    }

    pub(crate) fn panicked(&mut self) {
        self.panicked = true;
    }

    /// The answer goes out.
    pub(crate) fn finish(mut self, mut answer: Answer, took: Duration) -> Answer {
        self.seat = None;
        let code = answer.status().as_u16();
        self.outcome = Outcome { code, refusal: answer.extensions_mut().remove::<Refusal>() };
        if code == 504 {
            self.server.metrics.terminated(&self.labels, code);
        }
        let size = answer.body().size_hint().exact();
        self.server.metrics.observe(&self.labels, code, took, size);
        tracing::debug!(verb = self.labels.verb, resource = self.labels.resource, code, "request");
        if size.is_none() && self.labels.is_long_running() {
            self.write(Stage::ResponseStarted, Some(&self.outcome));
            self.server.metrics.watch_opened(&self.labels);
            let (head, body) = answer.into_parts();
            let body = ResponseBody::Watch(Box::new(Watched { body, exchange: self }));
            return Answer::from_parts(head, body);
        }
        if self.panicked {
            self.write(Stage::Panic, Some(&self.outcome));
            return answer;
        }
        let answer = if code == 201 { self.look_at(answer) } else { answer };
        self.write(Stage::ResponseComplete, Some(&self.outcome));
        answer
    }

    /// Reads off what was created.
    fn look_at(&mut self, answer: Answer) -> Answer {
        let Some(record) = &mut self.record else { return answer };
        let (head, body) = answer.into_parts();
        let ResponseBody::Full(full) = body else { return Answer::from_parts(head, body) };
        let bytes = futures::FutureExt::now_or_never(full.collect());
        let bytes = bytes.and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        if let Ok(created) = serde_json::from_slice(&bytes) {
            record.set_created(&created);
        }
        Answer::from_parts(head, ResponseBody::full(bytes))
    }

    fn write(&self, stage: Stage, outcome: Option<&Outcome>) {
        let (Some(record), Some(log)) = (&self.record, &self.server.settings.audit) else { return };
        if !log.takes(stage) {
            return;
        }
        if log.write(record.line(stage, outcome)) {
            self.server.metrics.audited();
        } else {
            self.server.metrics.audit_lost();
        }
        for _ in 0..log.take_failed() {
            self.server.metrics.audit_lost();
        }
    }
}

/// The body of a watch: each of its frames is an event.
#[derive(Debug)]
pub(crate) struct Watched {
    body: ResponseBody,
    exchange: Exchange,
}

impl Watched {
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let size = frame.data_ref().map_or(0, Bytes::len);
            self.exchange.server.metrics.watch_event(&self.exchange.labels, size);
        }
        polled
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let exchange = &self.exchange;
        exchange.server.metrics.watch_closed(&exchange.labels);
        exchange.write(Stage::ResponseComplete, Some(&exchange.outcome));
    }
}

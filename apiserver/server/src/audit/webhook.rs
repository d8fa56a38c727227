//! Audit webhook: a thread that sends events to a URL in batches, as upstream's `EventList`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver_http::{AuditBackend, QueueRoom, RoomPart, is_flushed};
use reqwest::{Certificate, Client, Identity, StatusCode, redirect};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use crate::pki;

/// Capacity of the queue: upstream's. Unit: events.
const CAPACITY: usize = 10_000;

/// Largest batch: events with bodies are large, and the receiver holds a batch in memory. Upstream's number for batches
/// that it truncates. Unit: bytes.
const LARGEST: usize = 10 * 1024 * 1024;

/// Pauses before a batch is sent again. Together they outlast the restart of a receiver.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15)];

/// Time limit of one call: upstream's for calls of webhooks.
const CALL: Duration = Duration::from_secs(30);

/// Longest wait for the receiver at the end of the process.
const PATIENCE: Duration = Duration::from_secs(5);

/// Destination of the events.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    pub(crate) url: String,
    /// CAs of the receiver. Default: those of the system.
    pub(crate) ca: Option<PathBuf>,
    /// Client certificate and its key.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    /// File with a bearer token.
    pub(crate) token: Option<PathBuf>,
    /// Largest batch. Unit: events.
    pub(crate) batch: usize,
    /// Longest time that an event waits for others.
    pub(crate) wait: Duration,
}

#[derive(Debug)]
enum Message {
    Event(String, RoomPart),
    /// Requests a reply once all events before this are sent or lost.
    Flush(SyncSender<()>),
}

/// Queue of the webhook.
#[derive(Debug)]
pub(crate) struct Webhook {
    sender: Sender<Message>,
    room: QueueRoom,
    lost: Arc<AtomicU64>,
    /// Number of events that are neither sent nor lost.
    waiting: Arc<AtomicU64>,
}

impl Webhook {
    /// Starts the thread.
    ///
    /// # Errors
    /// A file of the destination cannot be used, or no thread can be started.
    pub(crate) fn start(destination: Destination) -> anyhow::Result<Self> {
        let client = FileClient::open(destination)?;
        let (webhook, messages) = Self::queue();
        let (lost, waiting) = (Arc::clone(&webhook.lost), Arc::clone(&webhook.waiting));
        let batches = Batches { client, messages, lost, waiting, is_reported: false };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("audit-webhook".to_owned());
        // The thread ends with the last sender.
        thread.spawn(move || runtime.block_on(batches.send_all()))?;
        Ok(webhook)
    }

    fn queue() -> (Self, Receiver<Message>) {
        let (sender, messages) = channel(CAPACITY);
        let room = QueueRoom::default();
        (Self { sender, room, lost: Arc::default(), waiting: Arc::default() }, messages)
    }

    /// Waits until all queued events are sent or lost. If they are not after this time, returns the number of those that wait.
    fn unsent_after(&self, patience: Duration) -> Option<u64> {
        let is_full =
            |reply| matches!(self.sender.try_send(Message::Flush(reply)), Err(TrySendError::Full(_)));
        (!is_flushed(patience, is_full)).then(|| self.waiting())
    }

    fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl AuditBackend for Webhook {
    fn offer(&self, event: &str) -> bool {
        let Some(part) = self.room.take(event) else { return false };
        // Counted before, because the thread may send it at once.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let is_queued = self.sender.try_send(Message::Event(event.to_owned(), part)).is_ok();
        if !is_queued {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_queued
    }

    fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    fn flush(&self) {
        if let Some(events) = self.unsent_after(PATIENCE) {
            tracing::error!(
                events,
                seconds = PATIENCE.as_secs(),
                "the audit webhook is not flushed: its receiver is too slow, and these events are lost when the process ends"
            );
        }
    }
}

/// Events that are sent together.
#[derive(Debug, Default)]
struct Batch {
    events: Vec<String>,
    /// Room of the events in the queue: they are in memory until they are sent or lost.
    parts: Vec<RoomPart>,
    flush: Option<SyncSender<()>>,
}

/// Sender of the batches.
struct Batches {
    client: FileClient,
    messages: Receiver<Message>,
    lost: Arc<AtomicU64>,
    waiting: Arc<AtomicU64>,
    is_reported: bool,
}

impl Batches {
    async fn send_all(mut self) {
        while let Some(first) = self.messages.recv().await {
            let Batch { events, parts, flush } = self.collect(first).await;
            if !events.is_empty() {
                self.send(&events).await;
                self.waiting.fetch_sub(number(&events), Ordering::Relaxed);
            }
            drop(parts);
            if let Some(reply) = flush {
                let _ = reply.send(());
            }
        }
    }

    /// Collects events until the batch is full, or the first event has waited long enough, or the process ends.
    async fn collect(&mut self, first: Message) -> Batch {
        let (limit, end) = (self.client.destination.batch, Instant::now() + self.client.destination.wait);
        let (mut batch, mut size, mut next) = (Batch::default(), 0_usize, Some(first));
        while let Some(message) = next {
            match message {
                Message::Event(event, part) => {
                    size = size.saturating_add(event.len());
                    batch.events.push(event);
                    batch.parts.push(part);
                }
                Message::Flush(reply) => return Batch { flush: Some(reply), ..batch },
            }
            if batch.events.len() >= limit || size >= LARGEST {
                break;
            }
            next = tokio::time::timeout_at(end, self.messages.recv()).await.ok().flatten();
        }
        batch
    }

    /// Sends a batch, again after errors that may pass.
    async fn send(&mut self, events: &[String]) {
        let body = event_list(events);
        let mut pauses = PAUSES.iter();
        let error = loop {
            let error = match self.client.send(body.clone()).await {
                Ok(()) => {
                    self.is_reported = false;
                    return;
                }
                Err(Failure::Lasting(error)) => break error,
                Err(Failure::Passing(error)) => error,
            };
            match pauses.next() {
                Some(pause) => tokio::time::sleep(*pause).await,
                None => break error,
            }
        };
        self.lost.fetch_add(number(events), Ordering::Relaxed);
        if !std::mem::replace(&mut self.is_reported, true) {
            let url = &self.client.destination.url;
            tracing::error!(url, error, "cannot send audit events to the webhook; events are lost");
        }
    }
}

fn number(events: &[String]) -> u64 {
    u64::try_from(events.len()).unwrap_or(u64::MAX)
}

fn event_list(events: &[String]) -> String {
    let items = events.join(",");
    format!(r#"{{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{{}},"items":[{items}]}}"#)
}

/// Failure of a call, in the words of the other side.
enum Failure {
    /// Another attempt may succeed.
    Passing(String),
    /// No attempt succeeds.
    Lasting(String),
}

/// Client that follows its files: a renewed certificate or token is used from the next batch on.
struct FileClient {
    destination: Destination,
    files: Files,
    client: Client,
}

#[derive(Debug, Default, PartialEq)]
struct Files {
    ca: Option<String>,
    certificate: Option<String>,
}

impl FileClient {
    fn open(destination: Destination) -> anyhow::Result<Self> {
        let files = Files::read(&destination)?;
        let client = files.client()?;
        Ok(Self { destination, files, client })
    }

    async fn send(&mut self, body: String) -> Result<(), Failure> {
        let token = self.refresh().map_err(|error| Failure::Passing(format!("{error:#}")))?;
        let mut call = self.client.post(&self.destination.url).header("content-type", "application/json");
        if let Some(token) = token {
            call = call.bearer_auth(token);
        }
        let answer = call.body(body).send().await.map_err(|error| Failure::Passing(chain(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let text = format!("the answer is {status}");
        let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        Err(if is_passing { Failure::Passing(text) } else { Failure::Lasting(text) })
    }

    /// Reads the files again; returns the token.
    fn refresh(&mut self) -> anyhow::Result<Option<String>> {
        let files = Files::read(&self.destination)?;
        if files != self.files {
            self.client = files.client()?;
            self.files = files;
        }
        let token = self.destination.token.as_deref().map(pki::read).transpose()?;
        Ok(token.map(|token| token.trim().to_owned()))
    }
}

impl Files {
    fn read(destination: &Destination) -> anyhow::Result<Self> {
        let ca = destination.ca.as_deref().map(pki::read).transpose()?;
        let both = |(certificate, key): &(PathBuf, PathBuf)| -> anyhow::Result<String> {
            Ok(pki::read(certificate)? + "\n" + &pki::read(key)?)
        };
        Ok(Self { ca, certificate: destination.certificate.as_ref().map(both).transpose()? })
    }

    fn client(&self) -> anyhow::Result<Client> {
        // A redirect would send the events to an address that no administrator has named.
        let builder = Client::builder().redirect(redirect::Policy::none()).https_only(true);
        let mut builder = builder.timeout(CALL).no_proxy();
        if let Some(certificate) = &self.certificate {
            let identity = Identity::from_pem(certificate.as_bytes());
            builder = builder.identity(identity.context("clientCertFile: no certificate with a key in PEM")?);
        }
        if let Some(ca) = &self.ca {
            let found =
                Certificate::from_pem_bundle(ca.as_bytes()).context("caFile: no certificates in PEM")?;
            if found.is_empty() {
                bail!("caFile: no certificates in PEM");
            }
            builder = builder.tls_certs_only(found);
        }
        builder.build().context("the HTTP client cannot be made")
    }
}

/// Returns an error with its causes, without the URL, which the log names already.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_events_that_wait_for_the_receiver_are_limited_in_bytes() {
        let (webhook, mut messages) = Webhook::queue();
        let event = "x".repeat(1024 * 1024);
        let queued = (0..100).filter(|_| webhook.offer(&event)).count();
        assert_eq!(queued, 64, "these are less than the queue's number of events");
        let sending = messages.try_recv().unwrap();
        assert!(!webhook.offer(&event), "an event that is being sent is in memory, too");
        drop(sending);
        assert!(webhook.offer(&event));
    }

    #[test]
    fn a_flush_ends_while_the_receiver_hangs_and_counts_the_events_that_are_not_sent() {
        let short = Duration::from_millis(50);
        let (webhook, messages) = Webhook::queue();
        assert!(webhook.offer("{}"));
        assert_eq!(webhook.unsent_after(short), Some(1), "the queue has room for the request");
        let queued = 1 + (0..CAPACITY).filter(|_| webhook.offer("{}")).count();
        assert_eq!(webhook.unsent_after(short), u64::try_from(queued).ok(), "the queue is full");
        drop(messages);
        assert_eq!(webhook.unsent_after(PATIENCE), u64::try_from(queued).ok(), "the thread has ended");
    }
}

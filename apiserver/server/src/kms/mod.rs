//! KMS provider, version 2: a plug-in of a key management system seals the seeds of values.
//!
//! Values are sealed and opened in synchronous code, between two writes of a store. The calls to the plug-in are made by a
//! thread of its own, and the caller waits for it. That is rare: a seed stays in memory.

mod client;
mod messages;
#[cfg(test)]
mod outage_tests;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self as blocking, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver_machinery::encryption::{KmsPlugin, KmsProvider, KmsSeeds, OpenError, SEED, SealedSeed};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use storage_contract::Outage;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Notify, mpsc};

use self::client::Client;

/// Intervals of the plug-in's status: while it is well, and while it is not.
const STATUS: Intervals = Intervals { well: Duration::from_secs(60), failing: Duration::from_secs(10) };

/// Longest time of one call. Upstream's default.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);

/// Seeds that the plug-in opens at a time.
const AT_ONCE: usize = 8;

/// Intervals of the plug-in's status.
#[derive(Debug, Clone, Copy)]
struct Intervals {
    well: Duration,
    failing: Duration,
}

/// Settings of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KmsSettings {
    /// Name, which is in each value.
    pub(crate) name: String,
    pub(crate) socket: PathBuf,
    pub(crate) timeout: Duration,
}

impl KmsSettings {
    /// Checks and parses the settings of a configuration.
    ///
    /// # Errors
    /// Names the field.
    pub(crate) fn parse(name: &str, endpoint: &str, timeout: Option<&str>) -> anyhow::Result<Self> {
        if name.is_empty() || name.contains(':') {
            bail!("name: must not be empty or have a colon");
        }
        let socket = endpoint.strip_prefix("unix://").filter(|path| path.starts_with('/'));
        let socket = socket.with_context(|| format!("endpoint: {endpoint:?} must be unix:///PATH"))?;
        let timeout = timeout.map(|text| crate::cli::duration(text).map_err(anyhow::Error::msg));
        let timeout = timeout.transpose().context("timeout")?.unwrap_or(TIMEOUT);
        Ok(Self { name: name.to_owned(), socket: PathBuf::from(socket), timeout })
    }

    /// Starts the thread of a provider, and waits for its first seed for as long as one call may take. If the plug-in does
    /// not answer, the thread goes on.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(self) -> anyhow::Result<Arc<KmsProvider>> {
        self.start_with(STATUS)
    }

    fn start_with(self, intervals: Intervals) -> anyhow::Result<Arc<KmsProvider>> {
        let Self { name, socket, timeout } = self;
        let (seeds, hasten) = (KmsSeeds::default(), Arc::new(Notify::new()));
        let (calls, received) = mpsc::unbounded_channel();
        let (begun, first) = blocking::channel();
        let thread = Thread {
            name: name.clone(),
            socket,
            timeout,
            intervals,
            seeds: seeds.clone(),
            hasten: Arc::clone(&hasten),
        };
        let spawned = std::thread::Builder::new()
            .name(format!("kms-{name}"))
            .spawn(move || thread.run(received, begun));
        spawned.context("the thread of the KMS plug-in cannot be started")?;
        let _ = first.recv_timeout(timeout * 2);
        let plugin = Arc::new(Plugin { calls, hasten, patience: timeout * 2 });
        Ok(Arc::new(KmsProvider::new(name, plugin, seeds)))
    }
}

/// Call to open a seed.
struct Call {
    sealed: SealedSeed,
    answer: blocking::Sender<Result<Vec<u8>, OpenError>>,
}

/// Plug-in, as values use it. The thread ends when the last one is dropped.
#[derive(Debug)]
struct Plugin {
    calls: mpsc::UnboundedSender<Call>,
    hasten: Arc<Notify>,
    /// Longest time that a caller waits: the call itself, and those before it.
    patience: Duration,
}

impl KmsPlugin for Plugin {
    fn open(&self, sealed: &SealedSeed) -> Result<Vec<u8>, OpenError> {
        let (answer, answered) = blocking::channel();
        let call = Call { sealed: sealed.clone(), answer };
        let ended = || OpenError::NoAnswer("its thread has ended".to_owned());
        self.calls.send(call).map_err(|_| ended())?;
        match waiting(|| answered.recv_timeout(self.patience)) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                Err(OpenError::NoAnswer(format!("no answer in {:?}", self.patience)))
            }
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }

    fn hasten(&self) {
        self.hasten.notify_one();
    }
}

/// Waits for a plug-in, which may be slow. Other tasks of this thread go on, such as the renewal of the controller lease.
fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    // With one thread for all tasks, there is no other one for them.
    if matches!(flavor, Ok(RuntimeFlavor::MultiThread)) { tokio::task::block_in_place(wait) } else { wait() }
}

/// Thread that calls the plug-in.
struct Thread {
    name: String,
    socket: PathBuf,
    timeout: Duration,
    intervals: Intervals,
    seeds: KmsSeeds,
    hasten: Arc<Notify>,
}

impl Thread {
    fn run(self, calls: mpsc::UnboundedReceiver<Call>, begun: blocking::Sender<()>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "the KMS plug-in cannot be called"),
        };
        runtime.block_on(async {
            let client = Client::new(self.socket.clone(), self.timeout);
            tokio::select! {
                () = open_seeds(client.clone(), calls) => {}
                () = self.follow(client, begun) => {}
            }
        });
    }

    /// Follows the status of the plug-in, and makes a new seed whenever its key id changes.
    async fn follow(&self, client: Client, begun: blocking::Sender<()>) {
        let mut outage = Outage::default();
        loop {
            let result = self.renew(&client).await;
            let _ = begun.send(());
            let pause = match result {
                Ok(()) => {
                    outage = Outage::default();
                    self.intervals.well
                }
                Err(error) => {
                    if outage.should_log() {
                        tracing::error!(
                            provider = self.name,
                            error,
                            "the KMS plug-in cannot be used; retrying"
                        );
                    }
                    self.intervals.failing
                }
            };
            // A write that needs a seed does not wait for the interval.
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.hasten.notified() => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn renew(&self, client: &Client) -> Result<(), String> {
        let key_id = client.status().await?;
        self.seeds.forget_unused(Instant::now());
        if self.seeds.confirm(&key_id, Instant::now()) {
            return Ok(());
        }
        let mut seed = [0_u8; SEED];
        aws_lc_rs::rand::fill(&mut seed).map_err(|_| "the system has no randomness".to_owned())?;
        let sealed = client.seal(&seed).await?;
        if sealed.key_id != key_id {
            // The key changes just now, and the next status names the new one.
            let other = sealed.key_id;
            return Err(format!("its status names the key {key_id:?}, and it has sealed with {other:?}"));
        }
        tracing::info!(
            provider = self.name,
            key_id = sealed.key_id,
            "new values are sealed with this key of the KMS"
        );
        self.seeds.replace(&seed, sealed, Instant::now());
        Ok(())
    }
}

/// Opens seeds, some at a time, until all plug-ins of the thread are dropped.
async fn open_seeds(client: Client, mut calls: mpsc::UnboundedReceiver<Call>) {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(()) = running.next(), if !running.is_empty() => {}
            call = calls.recv(), if running.len() < AT_ONCE => {
                let Some(Call { sealed, answer }) = call else { return };
                let client = client.clone();
                running.push(async move {
                    // The caller may have gone.
                    let _ = answer.send(client.open(sealed).await);
                });
            }
        }
    }
}

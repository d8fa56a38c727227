//! Flood: all attacks at the same time, until it is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::attacks;
use crate::target::Target;

/// Tries of an attack: those in which the server behaved as it should, and the others.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tries {
    pub(crate) good: usize,
    pub(crate) bad: usize,
}

/// Tries of each attack.
type AllTries = BTreeMap<&'static str, Tries>;

/// Running flood. It has a thread of its own, so that it does not delay the client whose latency is measured.
pub(crate) struct Flood {
    end: CancellationToken,
    thread: JoinHandle<AllTries>,
}

impl Flood {
    pub(crate) fn start(target: &Arc<Target>) -> Self {
        let (target, end) = (Arc::clone(target), CancellationToken::new());
        let until = end.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run(&target, &until))
        });
        Self { end, thread }
    }

    /// Stops it. Returns the tries of each attack.
    pub(crate) async fn stop(self) -> AllTries {
        self.end.cancel();
        tokio::task::spawn_blocking(move || self.thread.join().unwrap()).await.unwrap()
    }
}

async fn run(target: &Arc<Target>, end: &CancellationToken) -> AllTries {
    let mut clients = JoinSet::new();
    for attack in attacks::all() {
        for _ in 0..attack.clients {
            let (target, end) = (Arc::clone(target), end.clone());
            let (name, pause, attempt) = (attack.name, attack.pause, attack.attempt);
            clients.spawn(async move {
                let mut tries = Tries::default();
                let attack = async {
                    loop {
                        match attempt(&target).await {
                            true => tries.good += 1,
                            false => tries.bad += 1,
                        }
                        tokio::time::sleep(pause).await;
                    }
                };
                end.run_until_cancelled(attack).await;
                (name, tries)
            });
        }
    }
    let mut all = AllTries::new();
    while let Some(client) = clients.join_next().await {
        let (name, tries) = client.unwrap();
        let sum = all.entry(name).or_default();
        sum.good += tries.good;
        sum.bad += tries.bad;
    }
    all
}

//! Calls of etcd, with a deadline, and with retries of those that may be repeated safely.

use std::future::Future;
use std::time::Duration;

use etcd_client::{Error, KvClient};
use storage_contract::{StoreError, StoreResult};

use crate::error;

/// Largest response: a page of 500 of the largest values would not fit the default of 4 MiB.
const LARGEST_ANSWER: usize = 1024 * 1024 * 1024;

/// First pause before a retry, and the longest: another member answers at once, and a store without any member must
/// report that within a second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// Number of retries per member: the client picks members at random, including dead ones.
const TRIES: u32 = 3;

/// Client for calls of etcd.
#[derive(Clone)]
pub(crate) struct Calls {
    kv: KvClient,
    /// Deadline of every call.
    pub(crate) deadline: Duration,
    tries: u32,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Calls {
    /// Creates the client for so many members.
    pub(crate) fn new(kv: KvClient, members: usize, deadline: Duration) -> Self {
        let tries = u32::try_from(members).unwrap_or(u32::MAX).saturating_mul(TRIES);
        Self { kv: kv.max_decoding_message_size(LARGEST_ANSWER), deadline, tries }
    }

    /// Makes a call, and retries it if `again` allows that for its error.
    async fn call<T, F>(
        &self,
        again: fn(&Error) -> bool,
        call: impl Fn(KvClient) -> F + Send + Sync,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let (mut pause, mut tries) = (PAUSES.0, self.tries);
        loop {
            match call(self.kv.clone()).await {
                Err(error) if again(&error) && tries > 0 => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                    tries -= 1;
                }
                other => return other,
            }
        }
    }

    /// Reads, within the deadline.
    pub(crate) async fn reading<T, F>(
        &self,
        operation: &'static str,
        call: impl Fn(KvClient) -> F + Send + Sync,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        match tokio::time::timeout(self.deadline, self.call(error::may_pass, call)).await {
            Ok(result) => result.map_err(|error| error::read(operation, error)),
            Err(elapsed) => Err(StoreError::Unavailable { operation, source: Box::new(elapsed) }),
        }
    }

    /// Writes, and retries only if no request has left the client. The caller keeps the deadline.
    pub(crate) async fn writing<T, F>(&self, call: impl Fn(KvClient) -> F + Send + Sync) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.call(error::never_sent, call).await
    }
}

//! Limit of the requests with which the leader writes to the host cluster, for all kinds of objects together.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

/// Largest number of requests in flight. A slow answer, e.g. of a webhook for one namespace, holds up one of them, and
/// the host gets no more of them at a time after an outage.
pub(crate) const IN_FLIGHT: usize = 8;

/// Least time between two requests: a host that is back gets 20 of them per second.
const INTERVAL: Duration = Duration::from_millis(50);

/// Returns when this process may write to the host. If it no longer may, the future does not complete.
type Permit = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Limit of one term of the leader. Clones share it.
#[derive(Clone, Default)]
pub struct WriteLimit(Arc<Shared>);

struct Shared {
    slots: Semaphore,
    /// Time at which the next request may begin.
    next: Mutex<Option<Instant>>,
    permit: Option<Permit>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { slots: Semaphore::new(IN_FLIGHT), next: Mutex::default(), permit: None }
    }
}

impl std::fmt::Debug for WriteLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteLimit").finish_non_exhaustive()
    }
}

impl WriteLimit {
    /// Creates the limit of a term. `permit` completes while the process is the leader: another one may have taken over
    /// between the decision on a write and the write. Without a permit (the default), the process is the only one.
    pub fn with_permit(permit: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { permit: Some(Box::new(permit)), ..Shared::default() }))
    }

    /// Sends a request that reads, when it is its turn.
    pub(crate) async fn read<T>(&self, request: impl Future<Output = T>) -> T {
        self.send(false, request).await
    }

    /// Sends a request that writes, when it is its turn, and only if this process still is the leader.
    pub(crate) async fn write<T>(&self, request: impl Future<Output = T>) -> T {
        self.send(true, request).await
    }

    async fn send<T>(&self, is_write: bool, request: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _slot = self.0.slots.acquire().await;
        {
            // Those behind wait for the lock, in their order.
            let mut next = self.0.next.lock().await;
            if let Some(at) = *next {
                tokio::time::sleep_until(at).await;
            }
            *next = Some(Instant::now() + INTERVAL);
        }
        if is_write && let Some(permit) = &self.0.permit {
            permit().await;
        }
        request.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ho_32_at_most_eight_requests_are_in_flight_and_twenty_begin_in_a_second() {
        let (limit, begun) = (WriteLimit::default(), Instant::now());
        let [running, most] = [0, 0].map(AtomicUsize::new);
        let request = async |time: Duration| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(time).await;
            running.fetch_sub(1, Ordering::SeqCst);
        };
        join_all((0..41).map(|_| limit.read(request(Duration::ZERO)))).await;
        let taken = begun.elapsed();
        assert!((Duration::from_secs(2)..Duration::from_millis(2100)).contains(&taken), "{taken:?}");
        join_all((0..20).map(|_| limit.write(request(Duration::from_secs(10))))).await;
        assert_eq!(most.load(Ordering::SeqCst), IN_FLIGHT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_former_leader_writes_nothing() {
        let is_leader = Arc::new(AtomicBool::new(true));
        let permit = Arc::clone(&is_leader);
        let limit = WriteLimit::with_permit(move || {
            let is_leader = permit.load(Ordering::SeqCst);
            if is_leader { std::future::ready(()).boxed() } else { std::future::pending().boxed() }
        });
        assert_eq!(limit.write(async { 1 }).await, 1);
        is_leader.store(false, Ordering::SeqCst);
        let late = tokio::time::timeout(Duration::from_secs(60), limit.write(async { 2 })).await;
        assert!(late.is_err());
        assert_eq!(limit.read(async { 3 }).await, 3);
    }
}

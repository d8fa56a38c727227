//! Limit on the rate of requests to one workload cluster: a token bucket, as in client-go.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Largest rate of requests to one workload cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRate {
    /// Requests per second, in the long run. Range: more than 0. Default: 20, as upstream.
    pub qps: f64,
    /// Requests that may be sent at once, after a time with fewer requests. Minimum: 1. Default: 30, as upstream.
    pub burst: u32,
}

impl Default for RequestRate {
    fn default() -> Self {
        Self { qps: 20.0, burst: 30 }
    }
}

impl RequestRate {
    /// Returns the time that one request uses up.
    fn interval(self) -> Duration {
        Duration::try_from_secs_f64(1.0 / self.qps).unwrap_or_default()
    }
}

/// Limiter of the requests of one client and of its clones. Requests are sent in the order in which they arrive.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    interval: Duration,
    /// Time by which requests may be ahead of the rate.
    tolerance: Duration,
    /// Time at which all earlier requests are paid for.
    paid: Mutex<Instant>,
}

impl RateLimiter {
    pub(crate) fn new(rate: RequestRate) -> Self {
        let interval = rate.interval();
        let tolerance = interval.saturating_mul(rate.burst.saturating_sub(1));
        Self { interval, tolerance, paid: Mutex::new(Instant::now()) }
    }

    /// Counts a request. Returns the time for which it waits.
    fn reserve(&self, now: Instant) -> Duration {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*paid).max(now);
        *paid = start.checked_add(self.interval).unwrap_or(start);
        start.saturating_duration_since(now).saturating_sub(self.tolerance)
    }

    /// Counts a request, and waits until it may be sent.
    ///
    /// Cancel safety: may be dropped at any moment; the request stays counted.
    pub(crate) async fn wait(&self) {
        let wait = self.reserve(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_sent_at_once_and_then_requests_follow_at_the_rate() {
        let limiter = RateLimiter::new(RequestRate { qps: 10.0, burst: 3 });
        let now = Instant::now();
        let waits: Vec<u128> = (0..5).map(|_| limiter.reserve(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = now + Duration::from_millis(300);
        assert_eq!(limiter.reserve(later).as_millis(), 0, "the rate was kept");
        assert_eq!(limiter.reserve(later).as_millis(), 100);
        let idle = now + Duration::from_secs(60);
        let waits: Vec<u128> = (0..4).map(|_| limiter.reserve(idle).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100], "no more than a burst is saved up");
    }

    #[test]
    fn no_rate_ends_the_process() {
        let extremes = [(f64::MIN_POSITIVE, u32::MAX), (f64::MAX, 0), (0.0, 1), (f64::NAN, 1), (-1.0, 1)];
        for (qps, burst) in extremes {
            let limiter = RateLimiter::new(RequestRate { qps, burst });
            let now = Instant::now();
            limiter.reserve(now);
            limiter.reserve(now);
        }
    }
}

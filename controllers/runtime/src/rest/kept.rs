//! Results of reads of one kind, by query.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use controllers_infrastructure::CloudResult;

use crate::SteadyClock;

/// Age up to which a failure is shared: callers that waited for the call do not repeat it.
const FAILURE: Duration = Duration::from_secs(2);

/// Time after which a result that no look has used is dropped: its cluster is gone, or a list of the project serves it.
const UNUSED: Duration = Duration::from_hours(2);

/// Interval of the search for unused results.
const SWEEP: Duration = Duration::from_mins(5);

/// Time and result of one read.
type Read<T> = Option<(Instant, CloudResult<Arc<T>>)>;

/// Result of one query. One caller at a time reads, and those that wait share the result.
type Slot<T> = Arc<tokio::sync::Mutex<Read<T>>>;

/// Results of reads of one kind, by query.
#[derive(Debug)]
pub(crate) struct Kept<T>(Mutex<Slots<T>>);

#[derive(Debug)]
struct Slots<T> {
    by_query: HashMap<String, (Instant, Slot<T>)>,
    swept: Option<Instant>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(Slots { by_query: HashMap::new(), swept: None }))
    }
}

impl<T> Kept<T> {
    /// Returns the result of a query, at most `age` old.
    ///
    /// # Errors
    /// That of the read.
    pub(crate) async fn get(
        &self,
        clock: &SteadyClock,
        query: &str,
        age: Duration,
        read: impl Future<Output = CloudResult<T>>,
    ) -> CloudResult<Arc<T>> {
        let slot = self.slot(clock, query);
        let mut kept = slot.lock().await;
        match kept.as_ref() {
            Some((at, Ok(found))) if clock.since(*at) <= age => return Ok(Arc::clone(found)),
            Some((at, Err(error))) if clock.since(*at) <= FAILURE => return Err(error.clone()),
            _ => {}
        }
        // A result is as old as its request; a failure is as old as its response, which may take a minute.
        let requested = clock.now();
        let result = read.await.map(Arc::new);
        let at = if result.is_ok() { requested } else { clock.now() };
        *kept = Some((at, result.clone()));
        result
    }

    /// Reads the result of a query now, and keeps it for others. They do not wait for it.
    ///
    /// # Errors
    /// That of the read.
    pub(crate) async fn read(
        &self,
        clock: &SteadyClock,
        query: &str,
        read: impl Future<Output = CloudResult<T>>,
    ) -> CloudResult<Arc<T>> {
        let requested = clock.now();
        let found = Arc::new(read.await?);
        // A look that reads the same at this moment keeps its own.
        if let Ok(mut kept) = self.slot(clock, query).try_lock() {
            *kept = Some((requested, Ok(Arc::clone(&found))));
        }
        Ok(found)
    }

    /// Returns the result of a query if it is kept and at most `age` old.
    pub(crate) async fn known(&self, clock: &SteadyClock, query: &str, age: Duration) -> Option<Arc<T>> {
        let slot = {
            let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(&slots.by_query.get(query)?.1)
        };
        let kept = slot.lock().await;
        match kept.as_ref()? {
            (at, Ok(found)) if clock.since(*at) <= age => Some(Arc::clone(found)),
            _ => None,
        }
    }

    fn slot(&self, clock: &SteadyClock, query: &str) -> Slot<T> {
        let now = clock.now();
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.swept.is_none_or(|at| now.saturating_duration_since(at) >= SWEEP) {
            slots.swept = Some(now);
            slots.by_query.retain(|_, (used, _)| now.saturating_duration_since(*used) < UNUSED);
        }
        let (used, slot) = slots.by_query.entry(query.to_owned()).or_insert_with(|| (now, Slot::default()));
        *used = now;
        Arc::clone(slot)
    }
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::{CloudError, ErrorClass};

    use super::*;

    #[tokio::test]
    async fn a_result_serves_until_its_age_and_a_failure_for_a_moment() {
        let begin = Instant::now();
        let passed = Arc::new(Mutex::new(Duration::ZERO));
        let shown = Arc::clone(&passed);
        let clock = SteadyClock::new(move || begin + *shown.lock().unwrap());
        let kept: Kept<u32> = Kept::default();
        let age = Duration::from_secs(590);
        let advance = |by: Duration| *passed.lock().unwrap() += by;
        assert_eq!(*kept.get(&clock, "a", age, async { Ok(1) }).await.unwrap(), 1);
        advance(age);
        assert_eq!(*kept.get(&clock, "a", age, async { Ok(2) }).await.unwrap(), 1);
        assert_eq!(*kept.get(&clock, "b", age, async { Ok(3) }).await.unwrap(), 3, "of another query");
        assert_eq!(*kept.read(&clock, "a", async { Ok(4) }).await.unwrap(), 4, "a direct read");
        assert_eq!(*kept.get(&clock, "a", age, async { Ok(5) }).await.unwrap(), 4, "which is kept");
        advance(age + Duration::from_secs(1));
        let refused = || async { Err(CloudError::new(ErrorClass::Broken, "list networks", "502")) };
        let error = kept.get(&clock, "a", age, refused()).await.unwrap_err();
        assert_eq!(error.to_string(), "list networks: 502");
        assert!(kept.get(&clock, "a", age, async { Ok(6) }).await.is_err(), "those that waited share it");
        advance(Duration::from_secs(3));
        assert_eq!(*kept.get(&clock, "a", age, async { Ok(7) }).await.unwrap(), 7);
        advance(UNUSED);
        kept.get(&clock, "c", age, async { Ok(8) }).await.unwrap();
        assert_eq!(kept.0.lock().unwrap().by_query.len(), 1, "unused results are dropped");
    }
}

//! Lookups that all machines of a deployment make at the same time: their answers are kept for a moment.

use std::fmt::Debug;
use std::time::Duration;

use controllers_infrastructure::{CloudResult, Flavor, Image, ImageQuery};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Age up to which an answer is used again: machines that are created together share it, and later ones read anew.
const AGE: Duration = Duration::from_secs(30);

/// State of an image that can change no more but by its deletion.
const ACTIVE: &str = "active";

/// Answers by query. Callers that need an answer at the same time wait for one call.
#[derive(Debug)]
struct Answers<Q, T>(Mutex<Vec<(Q, Instant, Vec<T>)>>);

impl<Q, T> Default for Answers<Q, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Q: Clone + PartialEq, T: Clone> Answers<Q, T> {
    /// Returns a known answer, or makes the call. An answer without results is not kept, because its caller waits for
    /// them; neither is one that `is_final` rejects.
    async fn get(
        &self,
        query: &Q,
        call: impl Future<Output = CloudResult<Vec<T>>>,
        is_final: impl Fn(&T) -> bool,
    ) -> CloudResult<Vec<T>> {
        let mut known = self.0.lock().await;
        known.retain(|(_, requested, _)| requested.elapsed() < AGE);
        if let Some((_, _, found)) = known.iter().find(|(known, ..)| known == query) {
            return Ok(found.clone());
        }
        let requested = Instant::now();
        let found = call.await?;
        if !found.is_empty() && found.iter().all(is_final) {
            known.push((query.clone(), requested, found.clone()));
        }
        Ok(found)
    }
}

/// Flavors and images of a project.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    flavors: Answers<(), Flavor>,
    images: Answers<ImageQuery, Image>,
}

impl Lookups {
    /// Returns the flavors.
    pub(crate) async fn flavors(
        &self,
        call: impl Future<Output = CloudResult<Vec<Flavor>>>,
    ) -> CloudResult<Vec<Flavor>> {
        self.flavors.get(&(), call, |_| true).await
    }

    /// Returns the images that match a query.
    pub(crate) async fn images(
        &self,
        query: &ImageQuery,
        call: impl Future<Output = CloudResult<Vec<Image>>>,
    ) -> CloudResult<Vec<Image>> {
        self.images.get(query, call, |image| image.status == ACTIVE).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_used_again_for_a_moment_if_it_has_results_that_stay() {
        let (answers, calls) = (Answers::default(), AtomicUsize::new(0));
        let ask = async |query: &'static str, found: Vec<u32>| {
            let call = async {
                calls.fetch_add(1, Ordering::Relaxed);
                Ok(found)
            };
            answers.get(&query, call, |number| *number < 10).await.unwrap()
        };
        assert_eq!(ask("a", vec![1]).await, [1]);
        assert_eq!(ask("a", vec![2]).await, [1], "known");
        assert!(ask("b", vec![]).await.is_empty());
        assert_eq!(ask("b", vec![3]).await, [3], "nothing was known");
        assert_eq!(ask("c", vec![10]).await, [10]);
        assert_eq!(ask("c", vec![4]).await, [4], "the first answer was not final");
        tokio::time::advance(AGE).await;
        assert_eq!(ask("a", vec![5]).await, [5]);
        assert_eq!(calls.load(Ordering::Relaxed), 6);
    }
}

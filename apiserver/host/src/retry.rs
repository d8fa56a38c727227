//! Retry of requests to the host, with the number of tries and the pauses of upstream's clients of reviews.

use std::future::Future;
use std::time::Duration;

/// Number of tries: upstream's number.
const TRIES: u32 = 5;

/// Pause before the second try, which grows by half with each further one: upstream's numbers.
const PAUSE: Duration = Duration::from_millis(500);

/// Time limit of all tries: a request is waiting for the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Calls until there is an answer, or an error that another try would not change.
pub(crate) async fn with_retries<T, F>(call: impl Fn() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let calling = async {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match call().await {
                Err(error) if is_temporary(&error) => {
                    tokio::time::sleep(pause).await;
                    pause = pause * 3 / 2;
                }
                other => return other,
            }
        }
        call().await
    };
    let late = || kube::Error::Service("the host took too long to answer".into());
    tokio::time::timeout(PATIENCE, calling).await.unwrap_or_else(|_| Err(late()))
}

/// Returns true if the host reported a failure that may be temporary. A host that cannot be reached is not retried:
/// the waiting request should learn that at once.
fn is_temporary(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 429 | 500 | 504))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use kube::core::Status;
    use tokio::time::Instant;

    use super::*;

    fn failure(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("no", "No").with_code(code)))
    }

    #[tokio::test(start_paused = true)]
    async fn transient_errors_are_tried_five_times_and_others_once() {
        for (code, expected, seconds) in [(500, 5, 4.0), (429, 5, 4.0), (403, 1, 0.0), (503, 1, 0.0)] {
            let (tries, started) = (AtomicU32::new(0), Instant::now());
            let answer = with_retries(|| async {
                tries.fetch_add(1, Ordering::Relaxed);
                Err::<(), _>(failure(code))
            });
            assert!(matches!(answer.await, Err(kube::Error::Api(status)) if status.code == code));
            assert_eq!(tries.load(Ordering::Relaxed), expected, "{code}");
            assert!(
                (started.elapsed().as_secs_f32() - seconds).abs() < 0.1,
                "{code}: {:?}",
                started.elapsed()
            );
        }
        let tries = AtomicU32::new(0);
        let answer = with_retries(|| async {
            if tries.fetch_add(1, Ordering::Relaxed) < 2 { Err(failure(504)) } else { Ok(7) }
        });
        assert_eq!(answer.await.unwrap(), 7);
        let started = Instant::now();
        assert!(with_retries(std::future::pending::<Result<(), kube::Error>>).await.is_err());
        assert_eq!(started.elapsed(), PATIENCE);
    }
}

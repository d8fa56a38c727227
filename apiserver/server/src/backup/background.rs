//! Thread for the backups of a running server. Requests come first: a backup compresses, encrypts and parses the whole store.

use anyhow::Context;
use tokio::sync::oneshot;

/// Increment of the thread's `nice` value. Beside busy threads it gets a tenth of a processor, and all of one that is idle. With
/// less, a backup of a large store on a busy machine would take longer than the history of the store reaches back.
const NICE: i32 = 10;

/// Does work on a thread of its own with a low priority, and returns the result. The work goes on if the caller is dropped.
///
/// # Errors
/// The system starts no thread; the work panics.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    let (result, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("backup".to_owned()).spawn(move || {
        // On Linux, the value is one of the thread. A sandbox may refuse the change.
        if let Err(error) = rustix::process::nice(NICE) {
            tracing::debug!(%error, "the thread of a backup has the priority of the others");
        }
        // The caller may have gone.
        let _ = result.send(work());
    });
    thread.context("the thread of a backup cannot be started")?;
    ended.await.context("the thread of a backup has panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bk_01_a_backup_of_a_running_server_has_a_lower_priority_than_its_requests() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        assert_eq!(run(priority).await.unwrap(), (before + NICE).min(19));
        assert_eq!(priority(), before, "the priority of other threads is as it was");
        let panics: fn() = || panic!("a test");
        let error = run(panics).await.unwrap_err();
        assert!(error.to_string().contains("has panicked"), "{error}");
    }
}

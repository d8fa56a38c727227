//! Source of the users of Keystone's tokens, with a cache of the answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_access::{IDENTITY_STALE, ReviewFailed, TokenHash, TokenHasher, TokenSource, User};
use async_trait::async_trait;
use aws_lc_rs::error::Unspecified;
use jiff::Timestamp;
use moka::future::Cache;
use moka::ops::compute::{CompResult, Op};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::client::{KeystoneClient, Undecided};
use crate::identity::ValidatedToken;

/// Time for which a good answer is used: the delay of a revocation.
const GOOD: Duration = Duration::from_secs(60);

/// Time for which a refusal is used: guesses do not reach Keystone again.
const BAD: Duration = Duration::from_secs(10);

/// Longest time for which the last good answer is used while Keystone is silent.
const STALE: Duration = Duration::from_secs(10 * 60);

/// Time after a request without an answer in which no other one is sent: no client waits for a Keystone that is silent.
const PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of cached answers: some thousand clients, and as many guessed tokens.
const MOST: u64 = 8192;

/// Maximum number of requests in flight: a client that guesses tokens must not flood Keystone.
const AT_ONCE: usize = 32;

/// Longest wait for a place among them.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Answer of Keystone.
#[derive(Debug, Clone)]
struct Answer {
    at: Instant,
    token: Option<Arc<ValidatedToken>>,
}

impl Answer {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < if self.token.is_some() { GOOD } else { BAD }
    }

    fn is_usable(&self) -> bool {
        self.is_fresh() || (self.token.is_some() && self.at.elapsed() < STALE)
    }
}

/// Source of the users of Keystone's tokens.
pub struct KeystoneTokens {
    client: KeystoneClient,
    answers: Cache<TokenHash, Answer>,
    hasher: TokenHasher,
    in_flight: Semaphore,
    silence: Mutex<Option<(Instant, Undecided)>>,
}

impl std::fmt::Debug for KeystoneTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeystoneTokens").finish_non_exhaustive()
    }
}

impl KeystoneTokens {
    /// Creates a source that asks this Keystone.
    ///
    /// # Errors
    /// [`Unspecified`] if the system has no random numbers.
    pub fn new(client: KeystoneClient) -> Result<Self, Unspecified> {
        Ok(Self {
            client,
            answers: Cache::builder().max_capacity(MOST).time_to_live(STALE).build(),
            hasher: TokenHasher::new()?,
            in_flight: Semaphore::new(AT_ONCE),
            silence: Mutex::default(),
        })
    }

    /// Returns a usable answer. Requests with the same token share one request to Keystone.
    async fn answer(&self, token: &str) -> Result<Answer, Undecided> {
        let hash = self.hasher.hash(token);
        if let Some(answer) = self.answers.get(&hash).await.filter(Answer::is_fresh) {
            return Ok(answer);
        }
        let renewed = self.answers.entry(hash).and_try_compute_with(async |known| {
            let known = known.map(moka::Entry::into_value);
            if known.as_ref().is_some_and(Answer::is_fresh) {
                return Ok(Op::Nop);
            }
            match self.ask(token).await {
                Ok(found) => Ok(Op::Put(Answer { at: Instant::now(), token: found.map(Arc::new) })),
                Err(_) if known.as_ref().is_some_and(Answer::is_usable) => Ok(Op::Nop),
                Err(error) => Err(error),
            }
        });
        match renewed.await? {
            CompResult::Inserted(entry)
            | CompResult::ReplacedWith(entry)
            | CompResult::Unchanged(entry)
            | CompResult::Removed(entry) => Ok(entry.into_value()),
            CompResult::StillNone(_) => Err(undecided("the answer of Keystone was lost")),
        }
    }

    /// Asks Keystone, unless it was silent a moment ago.
    async fn ask(&self, token: &str) -> Result<Option<ValidatedToken>, Undecided> {
        if let Some((at, error)) = self.silence().as_ref().filter(|(at, _)| at.elapsed() < PAUSE) {
            tracing::trace!(since = ?at.elapsed(), "Keystone is not asked");
            return Err(error.clone());
        }
        let waiting = tokio::time::timeout(LONGEST_WAIT, self.in_flight.acquire()).await;
        let Ok(Ok(_permit)) = waiting else {
            return Err(undecided("too many tokens wait for Keystone"));
        };
        let answer = self.client.validate(token).await;
        if let Err(error) = &answer {
            tracing::warn!("{}", error.text);
        }
        let silence = answer.as_ref().err().filter(|error| error.is_silence);
        *self.silence() = silence.map(|error| (Instant::now(), error.clone()));
        answer
    }

    // Nothing under the lock panics.
    fn silence(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Undecided)>> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn undecided(text: &str) -> Undecided {
    Undecided { text: text.to_owned(), is_silence: false }
}

#[async_trait]
impl TokenSource for KeystoneTokens {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        let answer = self.answer(token).await.map_err(|Undecided { text, .. }| {
            ReviewFailed(format!(
                "{text}. Try again, or use a client certificate of this endpoint (`capstan kubeconfig` makes one)"
            ))
        })?;
        let Some(found) = &answer.token else { return Ok(None) };
        let mut user = match found.user(Timestamp::now()) {
            Ok(user) => user,
            Err(reason) => {
                tracing::info!(reason, "a token of Keystone is not accepted");
                return Ok(None);
            }
        };
        if !answer.is_fresh() {
            user.extra.insert(IDENTITY_STALE.to_owned(), vec![answer.at.elapsed().as_secs().to_string()]);
        }
        Ok(Some(user))
    }
}

#[cfg(test)]
mod tests;

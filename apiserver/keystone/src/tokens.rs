//! Source of the users of Keystone's tokens, with a cache of the answers.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_access::{
    CLOCK, IDENTITY_STALE, InFlight, Overloaded, ReviewFailed, TokenHash, TokenHasher, TokenSource, User,
};
use async_trait::async_trait;
use aws_lc_rs::error::Unspecified;
use jiff::Timestamp;
use moka::future::Cache;
use moka::ops::compute::{CompResult, Op};
use tokio::time::Instant;

use crate::client::{KeystoneClient, Undecided};
use crate::identity::ValidatedToken;

/// Default type of the service whose access rules count: that of container services.
pub const SERVICE_TYPE: &str = "container-infra";

/// Default and longest time for which a good answer is used: the delay of a revocation.
pub const LONGEST_TTL: Duration = Duration::from_secs(60);

/// Longest time for which a refusal is used: guesses do not reach Keystone again.
const REFUSED_TTL: Duration = Duration::from_secs(10);

/// Longest time for which the last good answer is used while Keystone is silent.
const STALE: Duration = Duration::from_secs(10 * 60);

/// Time after a request without an answer in which no other one is sent: no client waits for a Keystone that is silent.
const PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of cached answers: some thousand clients, and as many guessed tokens.
const MOST: u64 = 8192;

/// Maximum number of requests in flight: a client that guesses tokens must not flood Keystone.
const AT_ONCE: usize = 32;

/// Maximum number of requests in flight for clients of one address, so that its guesses keep no other token waiting.
const PER_ADDRESS: usize = 4;

/// Maximum number of requests that wait to be sent.
const MOST_WAITING: usize = 256;

/// Time without any answer, after which a Keystone with a full queue counts as silent: as long as a request waits in the
/// queue. With answers, the queue is full because of a flood.
const SILENT_AFTER: Duration = Duration::from_secs(2);

/// Answer of Keystone.
#[derive(Debug, Clone)]
struct Answer {
    at: Instant,
    token: Option<Arc<ValidatedToken>>,
}

impl Answer {
    /// Returns true if the answer names a user, and is recent enough to be used while Keystone is silent.
    fn is_usable(&self) -> bool {
        self.token.is_some() && self.at.elapsed() < STALE
    }
}

/// Answer that is used for a request.
struct Used {
    answer: Answer,
    /// True if it is an old one, because Keystone is silent.
    is_stale: bool,
}

impl Used {
    fn fresh(answer: Answer) -> Self {
        Self { answer, is_stale: false }
    }
}

/// Contact with Keystone so far.
#[derive(Debug, Default)]
struct Contact {
    /// Last request without an answer, if no later one had an answer.
    silence: Option<(Instant, Undecided)>,
    /// Time of the last answer, whatever it was.
    answered: Option<Instant>,
}

/// Source of the users of Keystone's tokens.
pub struct KeystoneTokens {
    client: KeystoneClient,
    answers: Cache<TokenHash, Answer>,
    hasher: TokenHasher,
    in_flight: InFlight,
    contact: Mutex<Contact>,
    /// Time for which a good answer is used.
    ttl: Duration,
    /// Type of the service whose access rules count.
    service_type: String,
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
            in_flight: InFlight::new(AT_ONCE, PER_ADDRESS, MOST_WAITING),
            contact: Mutex::default(),
            ttl: LONGEST_TTL,
            service_type: SERVICE_TYPE.to_owned(),
        })
    }

    /// Compares requests with the access rules for a service of this type. Without this, [`SERVICE_TYPE`].
    #[must_use]
    pub fn with_service_type(self, service_type: String) -> Self {
        Self { service_type, ..self }
    }

    /// Uses a good answer for this time, and a refusal for ten seconds of it at most. Without this, [`LONGEST_TTL`]. Zero
    /// sends each token to Keystone at each request.
    #[must_use]
    pub fn with_cache_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    fn is_fresh(&self, answer: &Answer) -> bool {
        let ttl = if answer.token.is_some() { self.ttl } else { self.ttl.min(REFUSED_TTL) };
        answer.at.elapsed() < ttl
    }

    /// Returns a usable answer. Requests with the same token share one request to Keystone. Only while Keystone is silent, an
    /// old answer is usable: a Keystone that answers something else may not know the token any more.
    async fn answer(&self, token: &str, address: Option<IpAddr>) -> Result<Used, Undecided> {
        let hash = self.hasher.hash(token);
        if let Some(answer) = self.answers.get(&hash).await.filter(|answer| self.is_fresh(answer)) {
            return Ok(Used::fresh(answer));
        }
        let renewed = self.answers.entry(hash).and_try_compute_with(async |known| {
            let known = known.map(moka::Entry::into_value);
            if known.as_ref().is_some_and(|known| self.is_fresh(known)) {
                return Ok(Op::Nop);
            }
            match self.ask(token, address).await {
                Ok(found) => Ok(Op::Put(Answer { at: Instant::now(), token: found.map(Arc::new) })),
                Err(error) if error.is_silence && known.as_ref().is_some_and(Answer::is_usable) => {
                    Ok(Op::Nop)
                }
                Err(error) => Err(error),
            }
        });
        match renewed.await? {
            CompResult::Inserted(entry) | CompResult::ReplacedWith(entry) | CompResult::Removed(entry) => {
                Ok(Used::fresh(entry.into_value()))
            }
            // Another request has renewed it, or Keystone is silent.
            CompResult::Unchanged(entry) => {
                let answer = entry.into_value();
                Ok(Used { is_stale: !self.is_fresh(&answer), answer })
            }
            CompResult::StillNone(_) => Err(undecided("the answer of Keystone was lost")),
        }
    }

    /// Asks Keystone, unless it was silent a moment ago.
    async fn ask(&self, token: &str, address: Option<IpAddr>) -> Result<Option<ValidatedToken>, Undecided> {
        if let Some((at, error)) = self.contact().silence.as_ref().filter(|(at, _)| at.elapsed() < PAUSE) {
            tracing::trace!(since = ?at.elapsed(), "Keystone is not asked");
            return Err(error.clone());
        }
        // The user is not known yet.
        let source = InFlight::source(address);
        let entered = self.in_flight.enter(&source).await;
        let _permit = entered.map_err(|Overloaded| self.overloaded())?;
        let answer = self.client.validate(token).await;
        if let Err(error) = &answer {
            tracing::warn!("{}", error.text);
        }
        self.note(answer.as_ref().err().filter(|error| error.is_silence));
        answer
    }

    /// Notes an answer of Keystone, or its silence.
    fn note(&self, silence: Option<&Undecided>) {
        let (now, mut contact) = (Instant::now(), self.contact());
        contact.silence = silence.map(|error| (now, error.clone()));
        if silence.is_none() {
            contact.answered = Some(now);
        }
    }

    /// Returns the error of a token that has waited too long, or has found no place in the queue.
    fn overloaded(&self) -> Undecided {
        let is_silence = self.contact().answered.is_none_or(|at| at.elapsed() >= SILENT_AFTER);
        Undecided { is_silence, ..undecided("too many tokens wait for Keystone") }
    }

    // Nothing under the lock panics.
    fn contact(&self) -> std::sync::MutexGuard<'_, Contact> {
        self.contact.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time by which the end of a token is judged.
fn now() -> Timestamp {
    let seconds = i64::try_from(CLOCK.time().as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

fn undecided(text: &str) -> Undecided {
    Undecided { text: text.to_owned(), is_silence: false }
}

#[async_trait]
impl TokenSource for KeystoneTokens {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        self.review_from(token, None).await
    }

    async fn review_from(&self, token: &str, address: Option<IpAddr>) -> Result<Option<User>, ReviewFailed> {
        let answered = self.answer(token, address).await;
        let Used { answer, is_stale } = answered.map_err(|Undecided { text, .. }| {
            ReviewFailed(format!(
                "{text}. Try again, or use a client certificate of this endpoint (`capstan kubeconfig` makes one)"
            ))
        })?;
        let Some(found) = &answer.token else { return Ok(None) };
        let mut user = match found.user(now(), &self.service_type) {
            Ok(user) => user,
            Err(reason) => {
                tracing::info!(reason, "a token of Keystone is not accepted");
                return Ok(None);
            }
        };
        if is_stale {
            user.extra.insert(IDENTITY_STALE.to_owned(), vec![answer.at.elapsed().as_secs().to_string()]);
        }
        Ok(Some(user))
    }
}

#[cfg(test)]
mod tests;

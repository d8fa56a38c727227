//! Cache of the host's answers about Secrets.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use tokio::time::Instant;

/// Lifetime of a cached answer: reconciles come in bursts that read the same few Secrets.
pub(super) const LIFETIME: Duration = Duration::from_secs(5);

/// Pause after the host did not answer: one request per pause finds out that it is back, whatever the number of
/// readers.
pub(super) const PAUSE: Duration = Duration::from_secs(5);

/// Least time between two refusals with 403 that remove a copy. A kube-apiserver reads its RBAC objects within seconds
/// after its start.
pub(super) const REFUSED: Duration = Duration::from_secs(30);

/// Time after which the copy in the store of an unchanged Secret is written again, so that its age is known.
const REFRESH: Duration = Duration::from_secs(10 * 60);

/// Maximum number of cached answers: bootstrap data is some 20 KiB each, so this is below 100 MiB.
const MOST: usize = 4096;

/// Key of a Secret: namespace and name.
pub(super) type Key = (String, String);

/// Secret as the host last returned it, or that there is none; and the time since then.
pub(super) type Aged = (Option<Secret>, Duration);

#[derive(Default)]
pub(super) struct Cache {
    answers: HashMap<Key, CachedSecret>,
    paused_until: Option<Instant>,
}

/// Good answer: the Secret, or that there is none.
#[derive(Clone)]
pub(super) struct CachedSecret {
    pub(super) at: Instant,
    /// Age of the answer at `at`. It is over zero for a copy that is older than the clock of this machine.
    age_before: Duration,
    pub(super) secret: Option<Secret>,
    /// Time of the first refusal since the answer.
    refused_at: Option<Instant>,
    /// Time at which the copy in the store was written.
    stored_at: Instant,
}

impl CachedSecret {
    /// Returns the answer with its age.
    pub(super) fn aged(self) -> Aged {
        (self.secret, self.at.elapsed().saturating_add(self.age_before))
    }
}

/// Effect of a refusal on the copy of a Secret.
pub(super) enum Refusal {
    /// There was no answer before.
    NoAnswer,
    /// The answer stays valid.
    Kept(Box<CachedSecret>),
    /// The refusal was repeated, and the answer was removed.
    Removed,
}

impl Cache {
    pub(super) fn fresh(&self, key: &Key) -> Option<CachedSecret> {
        self.answers.get(key).filter(|answer| answer.at.elapsed() < LIFETIME).cloned()
    }

    /// Returns the last good answer, however old.
    pub(super) fn last(&self, key: &Key) -> Option<CachedSecret> {
        self.answers.get(key).cloned()
    }

    /// Forgets an answer.
    pub(super) fn forget(&mut self, key: &Key) {
        self.answers.remove(key);
    }

    pub(super) fn pause(&mut self) {
        self.paused_until = Some(Instant::now() + PAUSE);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Returns true if the host answered about this Secret in the last `time`.
    pub(super) fn is_in_use(&self, key: &Key, time: Duration) -> bool {
        self.answers.get(key).is_some_and(|answer| answer.at.elapsed() < time)
    }

    /// Records a refusal. A repeated one that is believed removes the answer: a copy must not outlive the permission.
    pub(super) fn refuse(&mut self, key: &Key, is_believed: bool) -> Refusal {
        let Some(answer) = self.answers.get_mut(key) else { return Refusal::NoAnswer };
        if !is_believed {
            answer.refused_at = None;
            return Refusal::Kept(Box::new(answer.clone()));
        }
        let first = *answer.refused_at.get_or_insert_with(Instant::now);
        if first.elapsed() < REFUSED {
            return Refusal::Kept(Box::new(answer.clone()));
        }
        self.answers.remove(key);
        Refusal::Removed
    }

    /// Adopts a copy of an earlier process as the last answer.
    pub(super) fn adopt(&mut self, key: &Key, secret: Secret, age: Duration) {
        let now = Instant::now();
        let at = now.checked_sub(age.max(LIFETIME)).unwrap_or(now);
        let age_before = age.saturating_sub(now.duration_since(at));
        let answer = CachedSecret { at, age_before, secret: Some(secret), refused_at: None, stored_at: at };
        self.answers.insert(key.clone(), answer);
    }

    /// Keeps an answer. Returns true if the copy in the store must follow.
    pub(super) fn keep(&mut self, key: &Key, secret: Option<Secret>) -> bool {
        self.paused_until = None;
        if self.answers.len() >= MOST && !self.answers.contains_key(key) {
            let oldest = self.answers.iter().min_by_key(|(_, answer)| answer.at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.answers.remove(&oldest);
            }
        }
        let now = Instant::now();
        let before = self.answers.get(key).map(|answer| (&answer.secret, answer.stored_at));
        let stored_at = match before {
            Some((None, stored_at)) if secret.is_none() => Some(stored_at),
            Some((before, stored_at)) if *before == secret => {
                Some(stored_at).filter(|at| now.duration_since(*at) < REFRESH)
            }
            _ => None,
        };
        let answer = CachedSecret {
            at: now,
            age_before: Duration::ZERO,
            secret,
            refused_at: None,
            stored_at: stored_at.unwrap_or(now),
        };
        self.answers.insert(key.clone(), answer);
        stored_at.is_none()
    }
}

//! Calls as a client library makes them: an attempt without a response is repeated on a new connection.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Request, StatusCode};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use crate::record::{Call, Realm, Recorder};

/// Time limit of an attempt. A frozen server accepts connections, and never answers.
const ATTEMPT: Duration = Duration::from_secs(3);

/// Number of attempts. A load balancer notices a dead server within two seconds.
const ATTEMPTS: usize = 6;

/// Pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(300);

/// Code of a request that a server does not begin, because it shuts down. Client libraries repeat it.
const TOO_MANY_REQUESTS: u16 = 429;

/// Connects with a kubeconfig.
pub(crate) async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    // The library repeats a call after a 503. Here each 503 counts.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Response of a call.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Object(Value),
    Refused(u16),
    /// The outcome is unknown.
    None,
}

/// One user.
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) realm: Realm,
    kubeconfig: PathBuf,
    client: Client,
    recorder: Recorder,
}

impl Caller {
    pub(crate) async fn new(
        user: &str,
        realm: Realm,
        kubeconfig: &Path,
        recorder: &Recorder,
    ) -> anyhow::Result<Self> {
        let client = connect(kubeconfig).await?;
        let kubeconfig = kubeconfig.to_owned();
        Ok(Self { user: user.to_owned(), realm, kubeconfig, client, recorder: recorder.clone() })
    }

    /// Makes a call, and records it. Returns true beside the answer if an attempt may have been carried out without
    /// a response.
    pub(crate) async fn call(
        &mut self,
        method: &'static str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<(Answer, bool)> {
        let begun = self.recorder.now();
        let (mut broken, mut answer) = (0, Answer::None);
        let mut recorded = None;
        for _ in 0..ATTEMPTS {
            let request = Request::builder().method(method).uri(path);
            let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
            let request = request.header("content-type", "application/json").body(bytes)?;
            match tokio::time::timeout(ATTEMPT, self.client.request::<Value>(request)).await {
                Ok(Ok(object)) => {
                    recorded = Some((StatusCode::OK.as_u16(), String::new()));
                    answer = Answer::Object(object);
                    break;
                }
                Ok(Err(kube::Error::Api(status))) if status.code == TOO_MANY_REQUESTS => {}
                Ok(Err(kube::Error::Api(status))) => {
                    recorded = Some((status.code, status.message.clone()));
                    answer = Answer::Refused(status.code);
                    break;
                }
                Ok(Err(_)) | Err(_) => {
                    broken += 1;
                    self.client = connect(&self.kubeconfig).await?;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        let ended = self.recorder.now();
        let (user, realm) = (self.user.clone(), self.realm);
        self.recorder.lock().calls.push(Call { user, realm, method, begun, ended, broken, answer: recorded });
        Ok((answer, broken > 0))
    }
}

//! Users: each writes one object, and reads it and its neighbors.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{anyhow, bail};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::call::{Answer, Caller};
use crate::record::{Realm, Recorder, Write};

/// Namespace of the objects.
pub(crate) const NAMESPACE: &str = "team";

/// Path of the objects. A MachineDrainRule has no controller that writes it.
const COLLECTION: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machinedrainrules";

/// Annotation with the number of the write.
pub(crate) const COUNT: &str = "example.com/count";

/// User of the command line.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) realm: Realm,
    /// Number of writers, and of readers.
    pub(crate) tasks: usize,
    pub(crate) kubeconfig: PathBuf,
}

impl FromStr for Identity {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut parts = text.splitn(4, ':');
        let wrong = || anyhow!("{text:?} is not NAME:REALM:TASKS:KUBECONFIG");
        let mut next = || parts.next().ok_or_else(wrong);
        let (name, realm, tasks, kubeconfig) = (next()?.to_owned(), next()?, next()?, next()?.into());
        let tasks = tasks.parse().map_err(|_| wrong())?;
        let realm = match realm {
            "own" => Realm::Own,
            "denied" => Realm::Denied,
            "host" => Realm::Host,
            "aggregated" => Realm::Aggregated,
            _ => bail!("{realm:?} is no realm"),
        };
        Ok(Self { name, realm, tasks, kubeconfig })
    }
}

/// Starts the writers and the readers of each user. `pace` is the pause between two calls of one of them.
pub(crate) async fn start(
    identities: &[Identity],
    pace: Duration,
    recorder: &Recorder,
    stop: &CancellationToken,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    for Identity { name, realm, tasks: count, kubeconfig } in identities {
        for number in 0..*count {
            let writer = Caller::new(name, *realm, kubeconfig, recorder).await?;
            let reader = Caller::new(name, *realm, kubeconfig, recorder).await?;
            let (object, recorder) = (format!("{name}-{number}"), recorder.clone());
            let (write_end, read_end) = (stop.clone(), stop.clone());
            tasks.spawn(async move { write(writer, &object, pace, &recorder, &write_end).await });
            tasks.spawn(async move { read(reader, pace, &read_end).await });
        }
    }
    Ok(())
}

/// State of a writer, who alone writes its object.
#[derive(Debug, Default)]
struct Writer {
    /// The object as last read or written.
    current: Option<Value>,
    /// Number of the last acknowledged write.
    acknowledged: u64,
    /// Number of the last attempted write.
    attempted: u64,
}

async fn write(
    mut caller: Caller,
    name: &str,
    pace: Duration,
    recorder: &Recorder,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let mut writer = Writer::default();
    let path = format!("{COLLECTION}/{name}");
    while stop.run_until_cancelled(tokio::time::sleep(pace)).await.is_some() {
        let Some(mut object) = writer.current.take() else {
            let answer = caller.call("GET", &path, &Value::Null).await?.0;
            writer.read(&answer, name, recorder);
            if matches!(answer, Answer::Refused(404)) && writer.acknowledged == 0 {
                let answer = caller.call("POST", COLLECTION, &rule(name)).await?.0;
                writer.read(&answer, name, recorder);
            }
            continue;
        };
        writer.attempted += 1;
        object["metadata"]["annotations"][COUNT] = json!(writer.attempted.to_string());
        // An attempt without a response may have been made. Then the object is read again.
        if let (Answer::Object(object), false) = caller.call("PUT", &path, &object).await? {
            writer.acknowledge(object, name, recorder);
        }
    }
    // The last state must contain the last acknowledged write.
    let answer = caller.call("GET", &path, &Value::Null).await?.0;
    writer.read(&answer, name, recorder);
    Ok(())
}

impl Writer {
    fn acknowledge(&mut self, object: Value, name: &str, recorder: &Recorder) {
        self.acknowledged = self.attempted;
        recorder.lock().writes.push(Write { object: name.to_owned(), revision: revision(&object) });
        self.current = Some(object);
    }

    /// Compares the object with the acknowledged writes.
    fn read(&mut self, answer: &Answer, name: &str, recorder: &Recorder) {
        let found = match answer {
            Answer::Object(object) => count(object),
            Answer::Refused(404) if self.acknowledged > 0 => 0,
            Answer::Refused(_) | Answer::None => return,
        };
        if found < self.acknowledged || found > self.attempted {
            recorder.lock().contradictions.push(format!(
                "object {name} has write {found}; acknowledged {}, attempted {}",
                self.acknowledged, self.attempted
            ));
        }
        if let Answer::Object(object) = answer {
            self.current = Some(object.clone());
        }
    }
}

async fn read(mut caller: Caller, pace: Duration, stop: &CancellationToken) -> anyhow::Result<()> {
    while stop.run_until_cancelled(tokio::time::sleep(pace)).await.is_some() {
        caller.call("GET", COLLECTION, &Value::Null).await?;
    }
    Ok(())
}

/// Returns the revision of an object.
pub(crate) fn revision(object: &Value) -> u64 {
    let text = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns the number of the write in an object; zero after its creation.
fn count(object: &Value) -> u64 {
    let annotations = object.pointer("/metadata/annotations");
    let text = annotations.and_then(|all| all.get(COUNT)).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn rule(name: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {COUNT: "0"}},
        "spec": {"drain": {"behavior": "Skip"}, "pods": [{"selector": {"matchLabels": {"app": "skipped"}}}]}})
}

//! Runner of the suite: sends the requests of the cases, and keeps the normalized responses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::Full;
use regex::Regex;
use serde_json::{Value, json};

use crate::case::{Area, RequestStep, SuiteCase, widget};
use crate::client::{Client, ReceivedResponse};
use crate::normalizer::Normalizer;
use crate::transcript::{Transcript, Transcripts};

/// Number of cases that run concurrently: some of them wait for streams.
const CONCURRENT_CASES: usize = 12;

/// Longest wait for a value that a controller writes: those of a kube-controller-manager take some seconds.
const UNTIL_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two requests for such a value.
const UNTIL_PAUSE: Duration = Duration::from_millis(200);

/// User agent of requests for which the case names none.
const DEFAULT_USER_AGENT: &str = "conformance/1";

/// Case with the responses to its steps.
pub(crate) struct PlayedCase<'a> {
    /// `area/name`.
    pub(crate) id: String,
    pub(crate) case: &'a SuiteCase,
    pub(crate) responses: Vec<ReceivedResponse>,
}

/// Server under test.
#[derive(Debug, Clone)]
pub struct ServerUnderTest {
    /// Client of the server.
    pub client: Client,
    /// Clients of other users, by name.
    pub users: BTreeMap<String, Client>,
    /// Prefix of the names of namespaces, so that one server can run the suite more than once.
    pub prefix: String,
    /// True if requests go through a host cluster, which answers some paths itself.
    pub through_host: bool,
    /// True for a real kube-apiserver, where every preparation must succeed. Elsewhere a failed preparation
    /// is one more difference.
    pub real: bool,
}

impl ServerUnderTest {
    /// Runs every case whose `area/name` contains `filter`.
    ///
    /// # Errors
    /// Returns an error if the server does not respond, or a case's preparation fails.
    pub async fn run(&self, areas: &[Area], filter: &str) -> anyhow::Result<Transcripts> {
        let played = self.play(areas, filter).await?;
        Ok(played.into_iter().map(|played| (played.id.clone(), self.transcript(&played))).collect())
    }

    /// Sends the requests of every case whose `area/name` contains `filter`.
    pub(crate) async fn play<'a>(
        &self,
        areas: &'a [Area],
        filter: &str,
    ) -> anyhow::Result<Vec<PlayedCase<'a>>> {
        let cases = areas.iter().flat_map(|area| area.cases.iter().map(move |case| (area, case)));
        let cases = cases.filter(|(area, case)| !self.through_host || !(area.direct || case.direct));
        let cases: Vec<_> = cases
            .map(|(area, case)| (format!("{}/{}", area.name, case.name), case))
            .filter(|(id, _)| id.contains(filter))
            .collect();
        let results = futures::stream::iter(cases).map(|(id, case)| async move {
            let responses = self.case(case).await.with_context(|| id.clone())?;
            anyhow::Ok(PlayedCase { id, case, responses })
        });
        results.buffer_unordered(CONCURRENT_CASES).try_collect().await
    }

    fn transcript(&self, played: &PlayedCase<'_>) -> Transcript {
        let case = played.case;
        let mut normalizer = Normalizer::new(&self.namespace(case), case.managed, self.through_host);
        let steps = case.steps.iter().zip(&played.responses);
        steps.map(|(step, response)| normalizer.normalized(step, response)).collect()
    }

    /// Returns the name of the namespace of a case.
    pub(crate) fn namespace(&self, case: &SuiteCase) -> String {
        format!("{}{}", self.prefix, case.name)
    }

    async fn case(&self, case: &SuiteCase) -> anyhow::Result<Vec<ReceivedResponse>> {
        let namespace = self.namespace(case);
        let mut variables = Variables::new(&namespace);
        self.prepare(case, &namespace, &variables).await?;
        let mut responses = Vec::new();
        for step in &case.steps {
            let response = self.send_until(step, &variables).await?;
            if let Err(error) = variables.save(step, &response)
                && self.real
            {
                return Err(error);
            }
            if self.real && step.setup && response.status >= 300 {
                bail!("{}: {} {}", step.request, response.status, String::from_utf8_lossy(&response.body));
            }
            responses.push(response);
        }
        Ok(responses)
    }

    /// Creates the namespace of a case, and the Widgets that exist before its first request.
    async fn prepare(&self, case: &SuiteCase, namespace: &str, variables: &Variables) -> anyhow::Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let create = RequestStep {
            request: "POST /api/v1/namespaces".to_owned(),
            body: Some(object),
            ..RequestStep::default()
        };
        let given = case.given.iter().map(|object| RequestStep {
            request: "POST {w}".to_owned(),
            widget: Some(object.clone()),
            ..RequestStep::default()
        });
        for step in std::iter::once(create).chain(given) {
            let made = self.send(&step, variables).await?;
            if made.status != 201 {
                bail!("{}: {}", step.request, String::from_utf8_lossy(&made.body));
            }
        }
        Ok(())
    }

    /// Sends a request until the response has the values of `until`.
    async fn send_until(
        &self,
        step: &RequestStep,
        variables: &Variables,
    ) -> anyhow::Result<ReceivedResponse> {
        let end = Instant::now() + UNTIL_TIMEOUT;
        loop {
            let response = self.send(step, variables).await?;
            let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
            let has = |(pointer, value): (&String, &Value)| body.pointer(pointer) == Some(value);
            if step.until.iter().all(has) || Instant::now() > end {
                return Ok(response);
            }
            tokio::time::sleep(UNTIL_PAUSE).await;
        }
    }

    async fn send(&self, step: &RequestStep, variables: &Variables) -> anyhow::Result<ReceivedResponse> {
        let line = variables.fill(&step.request)?;
        let (method, path) = line.split_once(' ').context("a request is a method and a path")?;
        let body = body(step, variables)?;
        let mut request = Request::builder().method(method).uri(path).header(HOST, "127.0.0.1");
        let given = |name: &str| step.headers.keys().any(|header| header.eq_ignore_ascii_case(name));
        if !given(USER_AGENT.as_str()) {
            request = request.header(USER_AGENT, DEFAULT_USER_AGENT);
        }
        if !given(CONTENT_TYPE.as_str()) && !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in step.headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(name, variables.fill(value)?);
        }
        let client = match &step.user {
            None => &self.client,
            Some(user) => {
                self.users.get(user).with_context(|| format!("{line}: there is no client of {user}"))?
            }
        };
        client.send(request.body(Full::new(Bytes::from(body)))?, step.events).await
    }
}

fn body(step: &RequestStep, variables: &Variables) -> anyhow::Result<Vec<u8>> {
    if let Some(value) = &step.body {
        return Ok(variables.fill(&value.to_string())?.into_bytes());
    }
    if let Some(value) = &step.widget {
        return Ok(variables.fill(&widget(value).to_string())?.into_bytes());
    }
    if let Some(text) = &step.text {
        return Ok(variables.fill(text)?.into_bytes());
    }
    let bytes = step.bytes.as_deref().unwrap_or_default();
    STANDARD.decode(bytes).with_context(|| format!("{}: bytes are not base64", step.request))
}

/// Variables of a case: the text that replaces each name.
struct Variables(BTreeMap<String, String>);

impl Variables {
    fn new(namespace: &str) -> Self {
        let widgets =
            |version: &str| format!("/apis/lab.example.io/{version}/namespaces/{namespace}/widgets");
        Self(BTreeMap::from([
            ("ns".to_owned(), namespace.to_owned()),
            ("w".to_owned(), widgets("v1")),
            ("wb".to_owned(), widgets("v1beta1")),
            ("q".to_owned(), format!("/api/v1/namespaces/{namespace}/resourcequotas")),
        ]))
    }

    fn fill(&self, text: &str) -> anyhow::Result<String> {
        let pattern = Regex::new(r"\{repeat:(.+?):(\d+)\}")?;
        let mut filled = pattern
            .replace_all(text, |found: &regex::Captures<'_>| {
                let times = found.get(2).and_then(|times| times.as_str().parse().ok()).unwrap_or_default();
                found.get(1).map(|what| what.as_str().repeat(times)).unwrap_or_default()
            })
            .into_owned();
        for (name, value) in &self.0 {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        Ok(filled)
    }

    fn save(&mut self, step: &RequestStep, response: &ReceivedResponse) -> anyhow::Result<()> {
        for (name, pointer) in &step.save {
            if let Some(header) = pointer.strip_prefix("header:") {
                let value = response.headers.get(header).and_then(|value| value.to_str().ok());
                let value = value.with_context(|| format!("{}: there is no {header}", step.request))?;
                self.0.insert(name.clone(), value.to_owned());
                continue;
            }
            let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
            let value = body.pointer(pointer).with_context(|| {
                let body = String::from_utf8_lossy(&response.body);
                anyhow!("{}: {pointer} is not in the response {body}", step.request)
            })?;
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.0.insert(name.clone(), value);
        }
        Ok(())
    }
}

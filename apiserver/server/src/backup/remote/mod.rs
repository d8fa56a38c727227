//! Objects of S3 or Swift below one prefix, as places of backups.

mod body;
mod parts;
mod s3;
mod swift;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use aws_lc_rs::digest;
use reqwest::{Certificate, Method, Response, StatusCode};

use self::body::{FileBody, FilePart};
use self::s3::S3;
use self::swift::Swift;
use crate::config::{Backup, Destination};
use crate::pki;

/// Timeout of a connection: even a distant service connects within a second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest pause within a response. Unlike a timeout of the whole response, it does not limit the size of a backup.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// Intervals before the retries of a call. All of them can be repeated: the name of an object has its time.
const PAUSES: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(2), Duration::from_secs(8)];

/// Most bytes of one upload: the limit of both services for an object that is written at once. S3 gets larger ones in parts.
const LARGEST: u64 = 5 * 1024 * 1024 * 1024;

/// Most bytes of an error that a message repeats.
const MESSAGE: usize = 300;

/// Digest of an object.
pub(super) type Digest = [u8; 32];

/// Action on the objects.
#[derive(Debug, Clone, Copy)]
enum Action<'a> {
    /// Lists the names, from this position.
    List(Option<&'a str>),
    Put(&'a str),
    Get(&'a str),
    Delete(&'a str),
    /// Begins an upload in parts.
    Begin(&'a str),
    /// Writes a part, with its number from 1.
    Part(Upload<'a>, u16),
    /// Makes the object of the parts with these tags.
    Complete(Upload<'a>, &'a [String]),
    /// Removes all parts.
    Abort(Upload<'a>),
}

/// Upload in parts.
#[derive(Debug, Clone, Copy)]
struct Upload<'a> {
    /// Name of the object.
    name: &'a str,
    /// Id that the service has given.
    id: &'a str,
}

/// Body of a call.
#[derive(Debug, Clone, Copy)]
enum Content<'a> {
    None,
    File(FilePart<'a>),
    Text(&'a str),
}

impl Action<'_> {
    const fn method(&self) -> Method {
        match self {
            Self::List(_) | Self::Get(_) => Method::GET,
            Self::Put(_) | Self::Part(..) => Method::PUT,
            Self::Delete(_) | Self::Abort(_) => Method::DELETE,
            Self::Begin(_) | Self::Complete(..) => Method::POST,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::List(_) => "list".to_owned(),
            Self::Put(name) => format!("write {name}"),
            Self::Get(name) => format!("read {name}"),
            Self::Delete(name) => format!("delete {name}"),
            Self::Begin(name) => format!("begin to write {name}"),
            Self::Part(upload, number) => format!("write part {number} of {}", upload.name),
            Self::Complete(upload, _) => format!("complete {}", upload.name),
            Self::Abort(upload) => format!("remove the parts of {}", upload.name),
        }
    }
}

/// Part of a list of objects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    /// Names below the prefix, without it.
    names: Vec<String>,
    /// Position of the next part.
    next: Option<String>,
}

#[derive(Debug)]
enum Service {
    S3(S3),
    Swift(Swift),
}

/// Objects below one prefix.
#[derive(Debug)]
pub(super) struct Remote {
    http: reqwest::Client,
    service: Service,
    /// URL for people, without parameters.
    name: String,
}

impl Remote {
    /// Reads the credentials of a destination, and logs in to Swift. Returns `None` for a path.
    ///
    /// # Errors
    /// Credentials that are missing; a cloud that refuses them.
    pub(super) async fn open(destination: &Destination, settings: &Backup) -> anyhow::Result<Option<Self>> {
        let (service, ca, name) = match destination {
            Destination::File(_) => return Ok(None),
            Destination::S3(bucket) => {
                let name = format!("s3://{}/{}", bucket.name, bucket.path);
                let service = S3::new(bucket, &settings.s3).with_context(|| name.clone())?;
                (Service::S3(service), settings.s3.ca_file.as_deref(), name)
            }
            Destination::Swift(container) => {
                let name = format!("swift://{}/{}", container.name, container.path);
                let service = Swift::log_in(container, &settings.swift).await;
                let service = service.with_context(|| name.clone())?;
                (Service::Swift(service), settings.swift.ca_file.as_deref(), name)
            }
        };
        let name = name.trim_end_matches('/').to_owned();
        Ok(Some(Self { http: client(ca)?, service, name }))
    }

    /// Returns the URL of an object, for people.
    pub(super) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// Returns the names of all objects below the prefix.
    ///
    /// # Errors
    /// The service's.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<String>> {
        let (mut names, mut position) = (Vec::new(), None);
        loop {
            let text = self.send(Action::List(position.as_deref()), Content::None).await?.text().await;
            let text = text.map_err(reqwest::Error::without_url);
            let text = text.with_context(|| format!("{}: cannot list", self.name))?;
            let page = match &self.service {
                Service::S3(s3) => s3.page(&text),
                Service::Swift(swift) => swift.page(&text),
            };
            let page = page.with_context(|| format!("{}: its list is not understood", self.name))?;
            names.extend(page.names);
            position = page.next;
            if position.is_none() {
                return Ok(names);
            }
        }
    }

    /// Writes a file as an object.
    ///
    /// # Errors
    /// A file that is too large; the service's.
    pub(super) async fn put(&self, name: &str, file: &Path) -> anyhow::Result<()> {
        let size = std::fs::metadata(file).with_context(|| format!("{}", file.display()))?.len();
        if let Service::S3(s3) = &self.service
            && size > s3.part_size()
        {
            return self.put_in_parts(s3, name, file, size).await;
        }
        if size > LARGEST {
            bail!("{}: {size} bytes are more than one object may have ({LARGEST})", self.url(name));
        }
        let whole = FilePart { path: file, start: 0, size };
        self.send(Action::Put(name), Content::File(whole)).await.map(drop)
    }

    /// Reads an object, writes it, and returns its SHA-256.
    ///
    /// # Errors
    /// The service's, or those of the output.
    pub(super) async fn get(&self, name: &str, out: &mut impl Write) -> anyhow::Result<Digest> {
        let named = || format!("{}: cannot be read", self.url(name));
        let mut response = self.send(Action::Get(name), Content::None).await?;
        let mut context = digest::Context::new(&digest::SHA256);
        while let Some(bytes) =
            response.chunk().await.map_err(reqwest::Error::without_url).with_context(named)?
        {
            context.update(&bytes);
            out.write_all(&bytes)?;
        }
        out.flush()?;
        digest_of(context)
    }

    /// Deletes an object. One that does not exist is no error.
    ///
    /// # Errors
    /// The service's.
    pub(super) async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.send(Action::Delete(name), Content::None).await.map(drop)
    }

    async fn send(&self, action: Action<'_>, content: Content<'_>) -> anyhow::Result<Response> {
        let mut pauses = PAUSES.iter();
        loop {
            let (error, is_passing) = match self.send_once(action, content).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause) if is_passing => tokio::time::sleep(*pause).await,
                _ => return Err(error.context(format!("{}: cannot {}", self.name, action.describe()))),
            }
        }
    }

    /// Makes one call. An error has true if the same call may succeed soon.
    async fn send_once(
        &self,
        action: Action<'_>,
        content: Content<'_>,
    ) -> Result<Response, (anyhow::Error, bool)> {
        let (url, headers) = match &self.service {
            Service::S3(s3) => (s3.url(action), Vec::new()),
            Service::Swift(swift) => (swift.url(action).map_err(|error| (error, false))?, swift.headers()),
        };
        let mut request = self.http.request(action.method(), url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        match content {
            Content::None => {}
            Content::Text(text) => request = request.body(text.to_owned()),
            Content::File(part) => {
                let body = FileBody::open(part).map_err(|error| (error, false))?;
                request =
                    request.header(http::header::CONTENT_LENGTH, body.size()).body(reqwest::Body::wrap(body));
            }
        }
        let response =
            request.send().await.map_err(|error| (anyhow::Error::new(error.without_url()), true))?;
        let status = response.status();
        let is_gone = matches!(action, Action::Delete(_)) && status == StatusCode::NOT_FOUND;
        if status.is_success() || is_gone {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        Err((anyhow::anyhow!("{}", refusal(status, &text)), is_passing))
    }
}

/// Returns the SHA-256 of a file.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn digest_of_file(path: &Path) -> anyhow::Result<Digest> {
    let mut hashing = Hashing(digest::Context::new(&digest::SHA256));
    let mut file = File::open(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    std::io::copy(&mut file, &mut hashing).with_context(|| format!("{}", path.display()))?;
    digest_of(hashing.0)
}

struct Hashing(digest::Context);

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn digest_of(context: digest::Context) -> anyhow::Result<Digest> {
    Ok(context.finish().as_ref().try_into()?)
}

/// Returns the text about a refusal: the status, and the code and message of the service.
fn refusal(status: StatusCode, body: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text.to_owned())
    };
    let parts: Vec<String> = ["Code", "Message"].into_iter().filter_map(element).collect();
    let text = if parts.is_empty() { body.trim().to_owned() } else { parts.join(": ") };
    let text: String = text.chars().filter(|c| !c.is_control()).take(MESSAGE).collect();
    let remedy = match status {
        StatusCode::NOT_FOUND if text.starts_with("NoSuchKey") => "; is the name right?",
        StatusCode::NOT_FOUND => "; does the bucket or container exist? Capstan creates none",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; check the credentials, and whether they may list, read, write and delete there"
        }
        _ => "",
    };
    format!("the service answers {status} {text}{remedy}")
}

fn client(ca: Option<&Path>) -> anyhow::Result<reqwest::Client> {
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        // A signature is valid for one address.
        .redirect(reqwest::redirect::Policy::none());
    let builder = match ca {
        None => builder,
        Some(path) => {
            let certificates = Certificate::from_pem_bundle(pki::read(path)?.as_bytes());
            builder.tls_certs_merge(certificates.with_context(|| format!("{}", path.display()))?)
        }
    };
    Ok(builder.build()?)
}

/// Returns the name of an object without the prefix, if it is directly below it.
fn below<'k>(path: &str, key: &'k str) -> Option<&'k str> {
    let name = if path.is_empty() { key } else { key.strip_prefix(path)?.strip_prefix('/')? };
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Returns the key of an object below a prefix.
fn key(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_code_of_the_service_and_the_remedy() {
        let body = "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>";
        let text = refusal(StatusCode::NOT_FOUND, body);
        assert!(text.ends_with("NoSuchKey: none; is the name right?"), "{text}");
        let body =
            "<?xml?><Error><Code>NoSuchBucket</Code><Message>It is\nnot there</Message><Key>k</Key></Error>";
        let text = refusal(StatusCode::NOT_FOUND, body);
        assert_eq!(
            text,
            "the service answers 404 Not Found NoSuchBucket: It isnot there; does the bucket or container exist? \
             Capstan creates none"
        );
        assert!(refusal(StatusCode::BAD_GATEWAY, &"x".repeat(5000)).len() < 400);
    }

    #[test]
    fn only_objects_directly_below_the_prefix_count() {
        assert_eq!(below("a/b", "a/b/c"), Some("c"));
        for other in ["a/b", "a/b/", "a/bc", "a/b/c/d", "c"] {
            assert_eq!(below("a/b", other), None, "{other}");
        }
        assert_eq!((below("", "c"), below("", "c/d")), (Some("c"), None));
        assert_eq!((key("", "c"), key("a", "c")), ("c".to_owned(), "a/c".to_owned()));
    }
}

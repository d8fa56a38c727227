//! Destinations of backups: a directory, a bucket of S3, or a container of Swift.

use std::path::PathBuf;

use anyhow::{Context, bail};
use reqwest::Url;
use serde::Deserialize;

/// Region of a bucket whose destination names none: that of S3 itself, and what other programs accept as any.
const REGION: &str = "us-east-1";

/// Default size of a part: an upload over 64 MiB takes long enough that a lost connection should not repeat all of it.
/// Unit: MiB.
const PART_SIZE: u64 = 64;

/// Sizes of a part that S3 allows. Unit: MiB.
const PART_SIZES: std::ops::RangeInclusive<u64> = 5..=5120;

/// Credentials for S3.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct S3 {
    /// File with `aws_access_key_id`, `aws_secret_access_key` and, if need be, `aws_session_token`, as the AWS tools read
    /// it. Its profile `default` counts. Default: the environment variables of the same names in capitals.
    pub(crate) credentials_file: Option<PathBuf>,
    /// PEM file with the CA of the endpoint. Default: the CAs of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// Size of the parts in which a larger backup is uploaded, from 5 to 5120. Default: 64. Unit: MiB.
    #[serde(rename = "partSizeMiB")]
    pub(crate) part_size: Option<u64>,
}

impl S3 {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match self.part_size {
            Some(size) if !PART_SIZES.contains(&size) => {
                bail!("backup.s3.partSizeMiB: must be from {} to {}", PART_SIZES.start(), PART_SIZES.end())
            }
            _ => Ok(()),
        }
    }

    /// Returns the size of a part in bytes.
    pub(crate) fn part_size(&self) -> u64 {
        self.part_size.unwrap_or(PART_SIZE).saturating_mul(1024 * 1024)
    }
}

/// Credentials for Swift.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Swift {
    /// File `clouds.yaml` with the login. Must be set for a destination in Swift.
    pub(crate) clouds_file: Option<PathBuf>,
    /// Name of the cloud in that file. Default: `openstack`.
    pub(crate) cloud: Option<String>,
    /// PEM file with the CA of the cloud. Default: the CAs of the system.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Place for backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Path of a directory or a file.
    File(PathBuf),
    /// Objects of S3.
    S3(Bucket),
    /// Objects of Swift.
    Swift(Container),
}

/// Bucket, with a prefix of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    /// Without slashes at its ends. May be empty.
    pub(crate) path: String,
    pub(crate) endpoint: Url,
    pub(crate) region: String,
    /// True if the name of the bucket is a part of the host's name.
    pub(crate) is_virtual: bool,
}

/// Container, with a prefix of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Without slashes at its ends. May be empty.
    pub(crate) path: String,
    /// Region in the catalog of the cloud. `None`: the only one.
    pub(crate) region: Option<String>,
}

impl Destination {
    /// Parses a path, or a URL: `file:PATH`, `s3://BUCKET/PREFIX?endpoint=URL`, `swift://CONTAINER/PREFIX`.
    ///
    /// # Errors
    /// A scheme or a parameter that is unknown, or a part that is missing.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let path = text.strip_prefix("file://").or_else(|| text.strip_prefix("file:"));
        if let Some(path) = path {
            return Ok(Self::File(path.into()));
        }
        match text.split_once("://") {
            None => Ok(Self::File(text.into())),
            Some(("s3", _)) => Ok(Self::S3(bucket(&Parts::parse(text)?)?)),
            Some(("swift", _)) => Ok(Self::Swift(container(&Parts::parse(text)?)?)),
            Some((scheme, _)) => bail!("{text}: the scheme {scheme} is none of file, s3 and swift"),
        }
    }

    /// Returns the directory of a scheduled backup, which must have an absolute path.
    pub(super) fn check_scheduled(&self) -> anyhow::Result<()> {
        match self {
            Self::File(path) if !path.is_absolute() => {
                bail!("{}: must be file: and the absolute path of a directory", path.display())
            }
            _ => Ok(()),
        }
    }
}

/// Parts of a URL.
struct Parts {
    name: String,
    path: String,
    parameters: Vec<(String, String)>,
}

impl Parts {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let url = Url::parse(text).with_context(|| format!("{text}: is no URL"))?;
        if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
            bail!(
                "{text}: must have no user, password or port; S3 takes the endpoint as ?endpoint=https://HOST:PORT"
            );
        }
        let name = url.host_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            bail!("{text}: has no name of a bucket or container");
        }
        let path = url.path().trim_matches('/').to_owned();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !path.chars().all(is_plain) || path.split('/').any(|part| matches!(part, "." | "..")) {
            bail!("{text}: its path must consist of letters, digits, dots, dashes, underscores and slashes");
        }
        let parameters = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned()));
        Ok(Self { name, path, parameters: parameters.collect() })
    }
}

fn bucket(parts: &Parts) -> anyhow::Result<Bucket> {
    let (mut endpoint, mut region, mut style) = (None, REGION, None);
    for (name, value) in &parts.parameters {
        match (name.as_str(), value.as_str()) {
            ("endpoint", text) => endpoint = Some(text),
            ("region", text) => region = text,
            ("style", "path") => style = Some(false),
            ("style", "virtual") => style = Some(true),
            ("style", other) => bail!("the parameter style is {other:?}, and must be path or virtual"),
            (other, _) => bail!("the parameter {other:?} is none of endpoint, region and style"),
        }
    }
    let own = format!("https://s3.{region}.amazonaws.com");
    let text = endpoint.unwrap_or(&own);
    let parsed = Url::parse(text).with_context(|| format!("the endpoint {text:?} is no URL"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        bail!("the endpoint {text:?} must begin with https:// or http://");
    }
    Ok(Bucket {
        name: parts.name.clone(),
        path: parts.path.clone(),
        region: region.to_owned(),
        is_virtual: style.unwrap_or_else(|| endpoint.is_none()),
        endpoint: parsed,
    })
}

fn container(parts: &Parts) -> anyhow::Result<Container> {
    let mut region = None;
    for (name, value) in &parts.parameters {
        match name.as_str() {
            "region" => region = Some(value.clone()),
            other => bail!("the parameter {other:?} is unknown; a container has only region"),
        }
    }
    Ok(Container { name: parts.name.clone(), path: parts.path.clone(), region })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_02_each_scheme_has_its_parts() {
        let file = |path: &str| Destination::File(path.into());
        for (text, expected) in [("file:/a/b", file("/a/b")), ("file:///a/b", file("/a/b")), ("b", file("b"))]
        {
            assert_eq!(Destination::parse(text).unwrap(), expected, "{text}");
        }
        let parsed =
            Destination::parse("s3://b/prod/eu/?endpoint=https%3A%2F%2Frgw.example%3A8443&region=r").unwrap();
        let Destination::S3(bucket) = parsed else { panic!("{parsed:?}") };
        assert_eq!(
            (bucket.name.as_str(), bucket.path.as_str(), bucket.region.as_str()),
            ("b", "prod/eu", "r")
        );
        assert_eq!((bucket.endpoint.as_str(), bucket.is_virtual), ("https://rgw.example:8443/", false));
        let parsed = Destination::parse("s3://b?region=eu-west-1").unwrap();
        let Destination::S3(bucket) = parsed else { panic!("{parsed:?}") };
        assert_eq!(
            (bucket.endpoint.as_str(), bucket.is_virtual),
            ("https://s3.eu-west-1.amazonaws.com/", true)
        );
        let parsed = Destination::parse("swift://Backups_1/prod?region=two").unwrap();
        let Destination::Swift(container) = parsed else { panic!("{parsed:?}") };
        assert_eq!((container.name.as_str(), container.path.as_str()), ("Backups_1", "prod"));
        assert_eq!(container.region.as_deref(), Some("two"));
    }

    #[test]
    fn destinations_that_would_be_a_guess_are_refused() {
        for (text, reason) in [
            ("ftp://a/b", "none of file, s3 and swift"),
            ("s3://", "no name of a bucket"),
            ("s3://user:key@b/p", "must have no user"),
            ("s3://b:9000/p", "?endpoint="),
            ("s3://b/p?endpoint=rgw.example", "endpoint"),
            ("s3://b/p?endpoint=ftp://x", "must begin with https://"),
            ("s3://b/p?style=other", "must be path or virtual"),
            ("s3://b/p?key=secret", "none of endpoint"),
            ("swift://c/p?endpoint=x", "unknown"),
            ("swift://c/a%20b", "its path must consist"),
        ] {
            let error = format!("{:#}", Destination::parse(text).unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

//! Protocol of S3: signed URLs, and lists in XML. `rusty-s3` signs and parses.

use std::time::Duration;

use anyhow::{Context, bail};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Credentials, S3Action, UrlStyle};

use super::{Action, Page, Upload, below, key};
use crate::config::{self, S3 as Settings};
use crate::pki;

/// Lifetime of a signature. An upload may take longer: the service compares the time when it begins.
const LIFETIME: Duration = Duration::from_mins(15);

/// Bucket with credentials.
#[derive(Debug)]
pub(super) struct S3 {
    bucket: rusty_s3::Bucket,
    credentials: Credentials,
    path: String,
    part_size: u64,
}

impl S3 {
    pub(super) fn new(bucket: &config::Bucket, settings: &Settings) -> anyhow::Result<Self> {
        let style = if bucket.is_virtual { UrlStyle::VirtualHost } else { UrlStyle::Path };
        let (endpoint, region) = (bucket.endpoint.clone(), bucket.region.clone());
        let credentials = match &settings.credentials_file {
            Some(path) => {
                let found = parse(&pki::read(path)?);
                found.with_context(|| {
                    format!(
                        "{}: its profile default has no aws_access_key_id with an aws_secret_access_key",
                        path.display()
                    )
                })?
            }
            None => Credentials::from_env().context(
                "no credentials: set backup.s3.credentialsFile in the configuration, or AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY",
            )?,
        };
        match rusty_s3::Bucket::new(endpoint, style, bucket.name.clone(), region) {
            Ok(own) => {
                let part_size = settings.part_size();
                Ok(Self { bucket: own, credentials, path: bucket.path.clone(), part_size })
            }
            Err(error) => bail!("the endpoint {} cannot be used: {error}", bucket.endpoint),
        }
    }

    /// Returns the size up to which an object is written at once, and of the parts of a larger one. Unit: bytes.
    pub(super) const fn part_size(&self) -> u64 {
        self.part_size
    }

    /// Returns the body of the call that completes an upload.
    pub(super) fn completion(&self, upload: Upload<'_>, tags: &[String]) -> String {
        let key = key(&self.path, upload.name);
        let tags = tags.iter().map(String::as_str);
        let action = self.bucket.complete_multipart_upload(Some(&self.credentials), &key, upload.id, tags);
        action.body()
    }

    /// Returns the signed URL of a call.
    pub(super) fn url(&self, action: Action<'_>) -> Url {
        let credentials = Some(&self.credentials);
        match action {
            Action::List(position) => {
                let mut list = self.bucket.list_objects_v2(credentials);
                if !self.path.is_empty() {
                    list.with_prefix(format!("{}/", self.path));
                }
                if let Some(position) = position {
                    list.with_continuation_token(position);
                }
                list.sign(LIFETIME)
            }
            Action::Put(name) => self.bucket.put_object(credentials, &key(&self.path, name)).sign(LIFETIME),
            Action::Get(name) => self.bucket.get_object(credentials, &key(&self.path, name)).sign(LIFETIME),
            Action::Delete(name) => {
                self.bucket.delete_object(credentials, &key(&self.path, name)).sign(LIFETIME)
            }
            Action::Begin(name) => {
                self.bucket.create_multipart_upload(credentials, &key(&self.path, name)).sign(LIFETIME)
            }
            Action::Part(Upload { name, id }, number) => {
                self.bucket.upload_part(credentials, &key(&self.path, name), number, id).sign(LIFETIME)
            }
            Action::Complete(Upload { name, id }, tags) => {
                let tags = tags.iter().map(String::as_str);
                let key = key(&self.path, name);
                self.bucket.complete_multipart_upload(credentials, &key, id, tags).sign(LIFETIME)
            }
            Action::Abort(Upload { name, id }) => {
                self.bucket.abort_multipart_upload(credentials, &key(&self.path, name), id).sign(LIFETIME)
            }
        }
    }

    /// Parses a part of a list.
    pub(super) fn page(&self, text: &str) -> anyhow::Result<Page> {
        let parsed = ListObjectsV2::parse_response(text)?;
        let names = parsed.contents.iter().filter_map(|object| {
            let key = percent_decode_str(&object.key).decode_utf8().ok()?;
            below(&self.path, &key).map(str::to_owned)
        });
        Ok(Page { names: names.collect(), next: parsed.next_continuation_token })
    }
}

/// Parses the profile `default` of a file of the AWS tools.
fn parse(text: &str) -> Option<Credentials> {
    let (mut is_default, mut values) = (false, [None, None, None]);
    for line in text.lines().map(str::trim) {
        if let Some(profile) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_default = profile.trim() == "default";
        } else if is_default && let Some((name, value)) = line.split_once('=') {
            let position = match name.trim() {
                "aws_access_key_id" => 0,
                "aws_secret_access_key" => 1,
                "aws_session_token" => 2,
                _ => continue,
            };
            values[position] = Some(value.trim().to_owned());
        }
    }
    match values {
        [Some(id), Some(secret), None] => Some(Credentials::new(id, secret)),
        [Some(id), Some(secret), Some(token)] => Some(Credentials::new_with_token(id, secret, token)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_those_of_the_profile_default() {
        let text = "[other]\naws_access_key_id = no\n\n[default]\n# comment\naws_access_key_id = id\n\
                    aws_secret_access_key=se=cret\nregion = x\n[last]\naws_secret_access_key = no\n";
        let found = parse(text).unwrap();
        assert_eq!((found.key(), found.secret(), found.token()), ("id", "se=cret", None));
        let with_token = parse(&text.replace("region = x", "aws_session_token = t")).unwrap();
        assert_eq!(with_token.token(), Some("t"));
        assert!(parse("[default]\naws_access_key_id = id\n").is_none() && parse("").is_none());
    }
}

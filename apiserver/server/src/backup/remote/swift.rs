//! Protocol of Swift: URLs of an account with a token, and lists in JSON.

use anyhow::{Context, bail};
use controllers_infrastructure::Credentials;
use controllers_infrastructure_openstack::ObjectStoreAccess;
use reqwest::Url;
use serde::Deserialize;

use super::{Action, Page, below, key};
use crate::config::{self, Swift as Settings};
use crate::pki;

/// Name of the cloud in `clouds.yaml` that other programs use by default, too.
const CLOUD: &str = "openstack";

/// Container with a token.
#[derive(Debug)]
pub(super) struct Swift {
    access: ObjectStoreAccess,
    container: String,
    path: String,
}

/// Object in a list.
#[derive(Debug, Deserialize)]
struct Listed {
    name: String,
}

impl Swift {
    pub(super) async fn log_in(container: &config::Container, settings: &Settings) -> anyhow::Result<Self> {
        let file = settings.clouds_file.as_deref();
        let file = file.context("no login: set backup.swift.cloudsFile in the configuration")?;
        let credentials = Credentials {
            clouds_yaml: pki::read(file)?,
            cloud_name: settings.cloud.clone().unwrap_or_else(|| CLOUD.to_owned()),
            ca_certificate: settings.ca_file.as_deref().map(pki::read).transpose()?,
            region: container.region.clone(),
            identity: None,
        };
        let access = ObjectStoreAccess::log_in(&credentials).await;
        let access = access.with_context(|| format!("{}: the login failed", file.display()))?;
        Ok(Self { access, container: container.name.clone(), path: container.path.clone() })
    }

    /// Returns the URL of a call.
    pub(super) fn url(&self, action: Action<'_>) -> anyhow::Result<Url> {
        let account = &self.access.url;
        let mut url = Url::parse(account).with_context(|| format!("{account}: is no URL"))?;
        let append = |url: &mut Url, parts: &[&str]| {
            let mut segments = url.path_segments_mut().ok()?;
            segments.pop_if_empty().extend(parts.iter().flat_map(|part| part.split('/')));
            Some(())
        };
        let named = || format!("{account}: cannot be the URL of an account");
        match action {
            Action::List(position) => {
                append(&mut url, &[&self.container]).with_context(named)?;
                let mut query = url.query_pairs_mut();
                query.append_pair("format", "json");
                if !self.path.is_empty() {
                    query.append_pair("prefix", &format!("{}/", self.path));
                }
                if let Some(position) = position {
                    query.append_pair("marker", position);
                }
            }
            Action::Put(name) | Action::Get(name) | Action::Delete(name) => {
                append(&mut url, &[&self.container, &key(&self.path, name)]).with_context(named)?;
            }
            Action::Begin(_) | Action::Part(..) | Action::Complete(..) | Action::Abort(_) => {
                bail!("Swift has no uploads in parts");
            }
        }
        Ok(url)
    }

    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        vec![("x-auth-token", self.access.token.clone())]
    }

    /// Parses a part of a list. The next one begins after its last name; only an empty one is the last.
    pub(super) fn page(&self, text: &str) -> anyhow::Result<Page> {
        let listed: Vec<Listed> =
            if text.trim().is_empty() { Vec::new() } else { serde_json::from_str(text)? };
        let next = listed.last().map(|object| object.name.clone());
        let names = listed.iter().filter_map(|object| below(&self.path, &object.name).map(str::to_owned));
        Ok(Page { names: names.collect(), next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swift(path: &str) -> Swift {
        let access =
            ObjectStoreAccess { url: "http://swift/v1/AUTH_a".to_owned(), token: "secret".to_owned() };
        Swift { access, container: "backups".to_owned(), path: path.to_owned() }
    }

    #[test]
    fn urls_are_below_the_container_and_the_token_is_not_shown() {
        let it = swift("prod/eu");
        let url = |action| it.url(action).unwrap().to_string();
        assert_eq!(url(Action::Put("b")), "http://swift/v1/AUTH_a/backups/prod/eu/b");
        assert_eq!(url(Action::List(None)), "http://swift/v1/AUTH_a/backups?format=json&prefix=prod%2Feu%2F");
        let next = swift("").url(Action::List(Some("b"))).unwrap();
        assert_eq!(next.as_str(), "http://swift/v1/AUTH_a/backups?format=json&marker=b");
        assert!(!format!("{it:?}").contains("secret"));
    }

    #[test]
    fn a_list_goes_on_after_its_last_name() {
        let page =
            swift("prod").page(r#"[{"name": "prod/a"}, {"subdir": "x", "name": "prod/b/c"}]"#).unwrap();
        assert_eq!(page, Page { names: vec!["a".to_owned()], next: Some("prod/b/c".to_owned()) });
        assert_eq!(swift("prod").page("[]").unwrap(), Page::default());
        assert!(swift("prod").page("<html>").is_err());
    }
}

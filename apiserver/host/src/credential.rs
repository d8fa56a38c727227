//! Credential of Capstan in the host cluster: the files that it is in, and its end.

use std::path::Path;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::AuthInfo;
use x509_parser::pem::parse_x509_pem;

/// Times before the end of the credential at which there is a warning: a week to plan, and a day to act.
const WARNINGS: [Duration; 2] = [Duration::from_secs(7 * 86_400), Duration::from_secs(86_400)];

/// Returns true from a week before the end of a credential on.
pub(crate) fn ends_soon(end: Timestamp, now: Timestamp) -> bool {
    left(end, now) <= WARNINGS[0]
}

/// Returns the time until the end; zero after it.
fn left(end: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(now)).unwrap_or_default()
}

/// Number of warnings about one credential.
#[derive(Debug, Default)]
pub(crate) struct Notice(usize);

impl Notice {
    /// Returns true once when a time of [`WARNINGS`] has come.
    pub(crate) fn is_due(&mut self, end: Timestamp, now: Timestamp) -> bool {
        let left = left(end, now);
        let passed = WARNINGS.iter().filter(|before| left <= **before).count();
        let is_due = passed > self.0;
        self.0 = self.0.max(passed);
        is_due
    }
}

/// Notices about the credentials of one connection. A new credential has its own.
#[derive(Debug, Default)]
pub struct CredentialNotices {
    end: Option<Timestamp>,
    notice: Notice,
}

impl CredentialNotices {
    /// Returns the end of a credential, once within a week of it and once within a day.
    pub fn due(&mut self, end: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        if self.end != end {
            *self = Self { end, notice: Notice::default() };
        }
        end.filter(|end| self.notice.is_due(*end, now))
    }
}

/// Returns a hash of a kubeconfig and of the files that it names. The file of a token is not in it: each request reads
/// it.
pub(crate) fn fingerprint(kubeconfig: &Path, config: &kube::Config) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    let AuthInfo { client_certificate, client_key, .. } = &config.auth_info;
    let files = [client_certificate, client_key].into_iter().flatten().map(Path::new);
    for file in [kubeconfig].into_iter().chain(files) {
        hash.update(&std::fs::read(file).unwrap_or_default());
        hash.update(b"\n");
    }
    for certificate in config.root_cert.iter().flatten() {
        hash.update(certificate);
    }
    hash.finish().as_ref().to_vec()
}

/// Returns the end of the client certificate; `None` if there is none or it cannot be read.
pub(crate) fn end(identity: &AuthInfo) -> Option<Timestamp> {
    let pem = match (&identity.client_certificate_data, &identity.client_certificate) {
        (Some(data), _) => STANDARD.decode(data).ok()?,
        (None, Some(path)) => std::fs::read(path).ok()?,
        (None, None) => return None,
    };
    let (_, pem) = parse_x509_pem(&pem).ok()?;
    let end = pem.parse_x509().ok()?.validity().not_after.timestamp();
    Timestamp::from_second(end).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_credential_is_announced_a_week_and_a_day_before() {
        let end: Timestamp = "2027-01-08T00:00:00Z".parse().unwrap();
        let mut notice = Notice::default();
        let table = [
            ("2026-12-31T23:59:59Z", false),
            ("2027-01-01T00:00:00Z", true),
            ("2027-01-06T00:00:00Z", false),
            ("2027-01-07T00:00:00Z", true),
            ("2027-01-07T12:00:00Z", false),
            ("2027-02-01T00:00:00Z", false),
        ];
        for (now, expected) in table {
            assert_eq!(notice.is_due(end, now.parse().unwrap()), expected, "{now}");
        }
        assert!(Notice::default().is_due(end, "2027-02-01T00:00:00Z".parse().unwrap()), "ended already");
    }

    #[test]
    fn c2_each_credential_has_its_own_notices() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let (first, second) = (at("2027-01-08T00:00:00Z"), at("2027-02-08T00:00:00Z"));
        let mut notices = CredentialNotices::default();
        assert_eq!(notices.due(None, at("2027-01-02T00:00:00Z")), None);
        assert_eq!(notices.due(Some(first), at("2026-12-02T00:00:00Z")), None);
        assert_eq!(notices.due(Some(first), at("2027-01-02T00:00:00Z")), Some(first));
        assert_eq!(notices.due(Some(first), at("2027-01-03T00:00:00Z")), None);
        assert_eq!(notices.due(Some(second), at("2027-01-07T12:00:00Z")), None, "it was renewed");
        assert_eq!(notices.due(Some(second), at("2027-02-07T12:00:00Z")), Some(second));
    }
}

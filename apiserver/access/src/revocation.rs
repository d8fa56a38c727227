//! Revocations of client certificates, and the test whether one applies.

use std::collections::{HashMap, HashSet};

/// Client certificate, as revocations name it.
#[derive(Debug, Clone, Copy)]
pub struct RevocableCertificate<'a> {
    /// SHA-256 in lower-case hex.
    pub fingerprint: &'a str,
    /// CN of the issuer.
    pub issuer: &'a str,
    /// Serial number in lower-case hex, without leading zeros.
    pub serial_number: &'a str,
    /// Begin of the validity, in seconds since 1970.
    pub not_before: i64,
    /// CN of the subject.
    pub user: &'a str,
    /// Each O of the subject.
    pub groups: &'a [String],
}

/// Selection of certificates that are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revocation {
    /// Certificate with this SHA-256.
    Fingerprint(String),
    /// Certificate of an issuer with this serial number.
    Serial {
        /// CN of the issuer.
        issuer: String,
        /// Serial number in lower-case hex.
        number: String,
    },
    /// Certificates of a user.
    User {
        /// CN of the subject.
        name: String,
        /// Certificates that became valid before it, in seconds since 1970.
        issued_before: i64,
    },
    /// Certificates with a group.
    Group {
        /// O of the subject.
        name: String,
        /// Certificates that became valid before it, in seconds since 1970.
        issued_before: i64,
    },
}

/// All revocations, by what they select: the test takes a few lookups, however many there are.
#[derive(Debug, Default)]
pub struct Revocations {
    fingerprints: HashSet<String>,
    serials: HashMap<String, HashSet<String>>,
    users: HashMap<String, i64>,
    groups: HashMap<String, i64>,
}

impl FromIterator<Revocation> for Revocations {
    fn from_iter<I: IntoIterator<Item = Revocation>>(all: I) -> Self {
        let mut revocations = Self::default();
        for revocation in all {
            match revocation {
                Revocation::Fingerprint(fingerprint) => {
                    revocations.fingerprints.insert(fingerprint);
                }
                Revocation::Serial { issuer, number } => {
                    revocations.serials.entry(issuer).or_default().insert(number);
                }
                Revocation::User { name, issued_before } => {
                    latest(&mut revocations.users, name, issued_before)
                }
                Revocation::Group { name, issued_before } => {
                    latest(&mut revocations.groups, name, issued_before)
                }
            }
        }
        revocations
    }
}

fn latest(times: &mut HashMap<String, i64>, name: String, time: i64) {
    let newest = times.entry(name).or_insert(time);
    *newest = (*newest).max(time);
}

impl Revocations {
    /// Returns true if the certificate is refused.
    pub fn revokes(&self, certificate: &RevocableCertificate<'_>) -> bool {
        let is_older = |time: Option<&i64>| time.is_some_and(|time| certificate.not_before < *time);
        self.fingerprints.contains(certificate.fingerprint)
            || self.serials.get(certificate.issuer).is_some_and(|all| all.contains(certificate.serial_number))
            || is_older(self.users.get(certificate.user))
            || certificate.groups.iter().any(|group| is_older(self.groups.get(group)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_revoked_by_what_names_it_and_newer_ones_are_not() {
        let groups = ["ops".to_owned(), "dev".to_owned()];
        let certificate = RevocableCertificate {
            fingerprint: "ab",
            issuer: "ca",
            serial_number: "1f",
            not_before: 1000,
            user: "alice",
            groups: &groups,
        };
        let serial =
            |issuer: &str, number: &str| Revocation::Serial { issuer: issuer.into(), number: number.into() };
        let user = |name: &str, issued_before| Revocation::User { name: name.into(), issued_before };
        let group = |name: &str, issued_before| Revocation::Group { name: name.into(), issued_before };
        for (revocations, expected) in [
            (vec![], false),
            (vec![Revocation::Fingerprint("ab".into())], true),
            (vec![Revocation::Fingerprint("cd".into())], false),
            (vec![serial("ca", "1f")], true),
            (vec![serial("other", "1f"), serial("ca", "2f")], false),
            (vec![user("alice", 1001)], true),
            (vec![user("alice", 1000), user("bob", 2000)], false),
            (vec![user("alice", 1001), user("alice", 500)], true),
            (vec![group("dev", 1001)], true),
            (vec![group("dev", 1000), group("other", 2000)], false),
        ] {
            let all: Revocations = revocations.iter().cloned().collect();
            assert_eq!(all.revokes(&certificate), expected, "{revocations:?}");
        }
    }
}

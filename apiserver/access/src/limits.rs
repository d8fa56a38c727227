//! Limits of a token besides the permissions of its user: access rules, and the client certificate that it belongs to.

use std::collections::BTreeMap;

/// Longest path that an access rule can allow. Keystone has shorter patterns, and the comparison takes time for each
/// character. Unit: bytes.
const LONGEST_PATH: usize = 4096;

/// Limits of a token. The authenticator does not enforce them: it knows neither the request nor the certificate of an unknown
/// CA. The server must compare each request with them before authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenLimits {
    /// Access rules. `None` allows all requests.
    pub requests: Option<AccessRules>,
    /// Thumbprint of the client certificate on whose connections the token is valid, as
    /// [`crate::PeerCertificate::thumbprint`] returns it. `None` allows any connection.
    pub certificate: Option<String>,
}

/// Access rules of an application credential in Keystone. Its tokens are for requests that one of the rules allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRules {
    /// Type of the service whose rules these are.
    service_type: String,
    rules: Vec<AccessRule>,
}

/// Access rule for one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRule {
    /// Method, such as `GET`. The comparison is exact.
    pub method: String,
    /// Pattern of the path. `*` and `{name}` are one segment or a part of one, `**` is any text, and all else is itself.
    pub path: String,
}

impl AccessRules {
    /// Creates the rules for a service of this type. Without a rule, no request is allowed.
    pub fn new(service_type: &str, rules: Vec<AccessRule>) -> Self {
        Self { service_type: service_type.to_owned(), rules }
    }

    /// Returns true if a rule allows this method on this path.
    pub fn allow(&self, method: &str, path: &str) -> bool {
        path.len() <= LONGEST_PATH
            && self.rules.iter().any(|rule| rule.method == method && matches(&parts(&rule.path), path))
    }

    /// Returns the reason of the refusal of a request with this method, with the remedy.
    pub fn absence(&self, method: &str) -> String {
        format!(
            "no access rule of its application credential has the service {:?}, the method {method:?} and the path of the \
             request. Log in with an application credential that has such a rule, or that has no access rules",
            self.service_type
        )
    }
}

/// Part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Letter(char),
    /// One letter of a segment.
    OfSegment,
    /// Further letters of the segment.
    RestOfSegment,
    /// Any text, also none.
    Anything,
}

fn parts(pattern: &str) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    while let Some(letter) = rest.chars().next() {
        let name = rest.strip_prefix('{').and_then(|name| name.split_once('}')).map(|(_, after)| after);
        if let Some(after) = rest.strip_prefix("**") {
            parts.push(Part::Anything);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('*').or(name) {
            parts.extend([Part::OfSegment, Part::RestOfSegment]);
            rest = after;
        } else {
            parts.push(Part::Letter(letter));
            rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        }
    }
    parts
}

/// Returns true if a text matches the parts of a pattern. It follows all possible matches at once, so the time grows with the
/// product of both lengths at most.
fn matches(pattern: &[Part], text: &str) -> bool {
    let mut open = BTreeMap::new();
    add(&mut open, pattern);
    for letter in text.chars() {
        let mut next = BTreeMap::new();
        for rest in open.into_values() {
            match rest.split_first() {
                Some((Part::Letter(wanted), after)) if *wanted == letter => add(&mut next, after),
                Some((Part::OfSegment, after)) if letter != '/' => add(&mut next, after),
                Some((Part::RestOfSegment, _)) if letter != '/' => add(&mut next, rest),
                Some((Part::Anything, _)) => add(&mut next, rest),
                _ => {}
            }
        }
        open = next;
    }
    open.contains_key(&0)
}

/// Adds the rest of a pattern to those that the rest of the text may match, by its length.
fn add<'a>(open: &mut BTreeMap<usize, &'a [Part]>, rest: &'a [Part]) {
    open.insert(rest.len(), rest);
    if let Some((Part::RestOfSegment | Part::Anything, after)) = rest.split_first() {
        add(open, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, path: &str) -> bool {
        let rule = AccessRule { method: "GET".to_owned(), path: pattern.to_owned() };
        AccessRules::new("container-infra", vec![rule]).allow("GET", path)
    }

    #[test]
    fn ia_52_a_pattern_has_segments_names_and_any_text() {
        for (pattern, path, expected) in [
            ("/apis", "/apis", true),
            ("/apis", "/apis/", false),
            ("/api", "/apis", false),
            ("/apis/*", "/apis/g", true),
            ("/apis/*", "/apis/g/v1", false),
            ("/apis/*", "/apis/", false),
            ("/apis/*/v1/machines", "/apis/g/v1/machines", true),
            ("/apis/*/v1/machines", "/apis/v1/machines", false),
            ("/v1/AUTH_*/x", "/v1/AUTH_a/x", true),
            ("/namespaces/{namespace}/machines", "/namespaces/team/machines", true),
            ("/namespaces/{namespace}/machines", "/namespaces/a/b/machines", false),
            ("/namespaces/{namespace}/machines", "/namespaces//machines", false),
            ("/namespaces/{namespace/machines", "/namespaces/{namespace/machines", true),
            ("/apis/**", "/apis/g/v1/machines", true),
            ("/apis/**", "/apis", false),
            ("/**/machines/*/reboot", "/apis/g/v1/namespaces/ns/machines/m/reboot", true),
            ("/**/machines/*/reboot", "/apis/g/v1/namespaces/ns/machines/m/delete", false),
            ("**", "", true),
            ("***", "/a", true),
            ("/a.c", "/abc", false),
            ("/ü/*", "/ü/ß", true),
            ("", "/", false),
        ] {
            assert_eq!(allows(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn ia_52_method_and_service_must_be_those_of_a_rule() {
        let rule = |method: &str, path: &str| AccessRule { method: method.to_owned(), path: path.to_owned() };
        let rules = AccessRules::new("container-infra", vec![rule("GET", "/a"), rule("POST", "/b")]);
        let allowed = [("GET", "/a"), ("POST", "/b"), ("POST", "/a"), ("get", "/a"), ("HEAD", "/a")]
            .map(|(method, path)| rules.allow(method, path));
        assert_eq!(allowed, [true, true, false, false, false]);
        assert!(
            !AccessRules::new("container-infra", Vec::new()).allow("GET", "/a"),
            "an empty list allows nothing"
        );
        let words = rules.absence("POST");
        assert!(words.contains("the service \"container-infra\", the method \"POST\""), "{words}");
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_exponential_time() {
        let (pattern, path) = ("**a".repeat(40), "a".repeat(LONGEST_PATH - 1) + "b");
        assert!(!allows(&pattern, &path));
        assert!(!allows("**", &"a".repeat(LONGEST_PATH + 1)), "it is not compared");
    }
}

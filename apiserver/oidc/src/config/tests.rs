//! Tests of the authentication file: valid and invalid files. Verdicts and errors were compared with those of
//! kube-apiserver 1.36.3, which started with the same files. Errors that name this server, and some of those about the
//! form of a URL, are ours. `tests/conformance/authentication` has more files, with recorded verdicts.

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

fn parse(text: &str) -> Result<Configuration, String> {
    Configuration::parse(text, &["https://own.example"]).map_err(|error| error.to_string())
}

/// Returns the errors of a file with one authenticator. Given fields replace its own.
fn errors(fields: &str) -> String {
    let own = |name: &str, default: &str| {
        if fields.contains(name) { String::new() } else { format!("  {default}\n") }
    };
    let text = [
        own("issuer:", "issuer: {url: 'https://i.example', audiences: [a]}"),
        own("claimMappings:", "claimMappings: {username: {claim: sub, prefix: ''}}"),
        format!("  {fields}\n"),
    ]
    .concat();
    // The first field follows the dash.
    let text = format!("{HEAD}jwt:\n- {}", text.trim_start());
    parse(&text).err().unwrap_or_default()
}

#[test]
fn valid_files_are_read() {
    let ca = include_str!("ca.pem");
    for (case, fields) in [
        ("the smallest", ""),
        ("a path in the issuer", "issuer: {url: 'https://i.example/realms/a', audiences: [a]}"),
        ("a port", "issuer: {url: 'https://i.example:8443', audiences: [a]}"),
        ("a slash at the end", "issuer: {url: 'https://i.example/', audiences: [a]}"),
        ("an empty query", "issuer: {url: 'https://i.example?', audiences: [a]}"),
        (
            "another discovery",
            "issuer: {url: 'https://i.example', discoveryURL: 'https://in.example/.well-known/openid-configuration', audiences: [a]}",
        ),
        (
            "the only policy",
            "issuer: {url: 'https://i.example', audiences: [a], audienceMatchPolicy: MatchAny}",
        ),
        (
            "two audiences",
            "issuer: {url: 'https://i.example', audiences: [a, b], audienceMatchPolicy: MatchAny}",
        ),
        (
            "a CA",
            &format!("issuer: {{url: 'https://i.example', audiences: [a], certificateAuthority: {ca:?}}}"),
        ),
        ("an empty required value", "claimValidationRules: [{claim: hd}]"),
        ("a rule", "claimValidationRules: [{expression: 'claims.exp - claims.nbf <= 86400', message: m}]"),
        ("a rule without message", "claimValidationRules: [{expression: 'claims.hd == \"x\"'}]"),
        ("a prefix", "claimMappings: {username: {claim: sub, prefix: 'x:'}, groups: {claim: g, prefix: ''}}"),
        (
            "expressions",
            "claimMappings: {username: {expression: claims.sub}, groups: {expression: claims.g}, uid: {expression: claims.sub}}",
        ),
        ("a uid", "claimMappings: {username: {claim: sub, prefix: ''}, uid: {claim: id}}"),
        (
            "an extra",
            "claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: example.org/a, valueExpression: claims.a}]}",
        ),
        ("a claim email", "claimMappings: {username: {claim: email, prefix: ''}}"),
        (
            "a verified email in the name",
            "claimMappings: {username: {expression: \"claims.email_verified ? claims.email : ''\"}}",
        ),
        (
            "a verified email in a rule",
            "claimMappings: {username: {expression: claims.email}}\n  claimValidationRules: [{expression: 'claims.?email_verified.orValue(true) == true'}]",
        ),
        (
            "a verified email in an extra",
            "claimMappings: {username: {expression: claims.email}, extra: [{key: example.org/v, valueExpression: 'string(claims.email_verified)'}]}",
        ),
        (
            "a rule for users",
            "userValidationRules: [{expression: \"!user.username.startsWith('system:')\", message: m}]",
        ),
        (
            "the groups of users",
            "userValidationRules: [{expression: \"user.groups.all(g, g != 'a') && user.uid != '' && 'k' in user.extra\"}]",
        ),
    ] {
        assert_eq!(errors(fields), "", "{case}");
    }
    for (case, text) in [
        ("no authenticators", HEAD.to_owned()),
        ("an empty list", format!("{HEAD}jwt: []\n")),
        ("no anonymous requests", format!("{HEAD}anonymous: {{enabled: false}}\n")),
        (
            "an anonymous path that no request has",
            format!("{HEAD}anonymous: {{enabled: true, conditions: [{{}}]}}\n"),
        ),
        ("anonymous paths", format!("{HEAD}anonymous: {{enabled: true, conditions: [{{path: /livez}}]}}\n")),
    ] {
        assert_eq!(parse(&text).err(), None, "{case}");
    }
}

#[test]
fn an_invalid_issuer_is_refused_with_its_field() {
    for (issuer, expected) in [
        ("{audiences: [a]}", "jwt[0].issuer.url: Required value"),
        (
            "{url: 'http://i.example', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"http://i.example\": URL scheme must be https",
        ),
        (
            "{url: i.example, audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"i.example\": URL scheme must be https",
        ),
        (
            "{url: 'https://u:p@i.example', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://u:p@i.example\": URL must not contain a username or password",
        ),
        (
            "{url: 'https://@i.example', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://@i.example\": URL must not contain a username or password",
        ),
        (
            "{url: 'https://i.example ', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://i.example \": the host of the URL must not contain spaces or backslashes",
        ),
        (
            "{url: 'https://i.example\\a', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://i.example\\\\a\": the host of the URL must not contain spaces or backslashes",
        ),
        (
            "{url: \"https://i.example/\\t\", audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://i.example/\\t\": URL must not contain control characters",
        ),
        (
            "{url: 'https://i.example/%zz', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://i.example/%zz\": each % in the URL must precede two hexadecimal digits",
        ),
        (
            "{url: 'https://i.example?a=b', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://i.example?a=b\": URL must not contain a query",
        ),
        (
            "{url: 'https://i.example#a', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://i.example#a\": URL must not contain a fragment",
        ),
        (
            "{url: 'https://own.example', audiences: [a]}",
            "jwt[0].issuer.url: Invalid value: \"https://own.example\": URL must not overlap with disallowed issuers: [https://own.example]",
        ),
    ] {
        assert_eq!(errors(&format!("issuer: {issuer}")), expected);
    }
}

#[test]
fn another_invalid_field_of_an_issuer_is_refused_with_its_path() {
    for (issuer, expected) in [
        (
            "{url: 'https://i.example', discoveryURL: 'https://i.example/', audiences: [a]}",
            "jwt[0].issuer.discoveryURL: Invalid value: \"https://i.example/\": discoveryURL must be different from URL",
        ),
        (
            "{url: 'https://i.example', discoveryURL: 'http://d', audiences: [a]}",
            "jwt[0].issuer.discoveryURL: Invalid value: \"http://d\": URL scheme must be https",
        ),
        (
            "{url: 'https://i.example', certificateAuthority: none, audiences: [a]}",
            "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates",
        ),
        (
            "{url: 'https://i.example', certificateAuthority: \"-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n\", audiences: [a]}",
            "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates",
        ),
        (
            "{url: 'https://i.example'}",
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        ("{url: 'https://i.example', audiences: ['']}", "jwt[0].issuer.audiences[0]: Required value"),
        (
            "{url: 'https://i.example', audiences: [a, a], audienceMatchPolicy: MatchAny}",
            "jwt[0].issuer.audiences[1]: Duplicate value: \"a\"",
        ),
        (
            "{url: 'https://i.example', audiences: [a, b]}",
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        (
            "{url: 'https://i.example', audiences: [a], audienceMatchPolicy: All}",
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"All\": audienceMatchPolicy must be empty or MatchAny for single audience",
        ),
        (
            "{url: 'https://i.example', audiences: [a], egressSelectorType: cluster}",
            "jwt[0].issuer.egressSelectorType: Invalid value: \"cluster\": this server has no egress selector; remove the field",
        ),
    ] {
        assert_eq!(errors(&format!("issuer: {issuer}")), expected);
    }
}

#[test]
fn an_invalid_mapping_is_refused_with_its_field() {
    let extra = |entry: &str| format!("{{username: {{claim: sub, prefix: ''}}, extra: [{entry}]}}");
    let both = "claim and expression can't both be set";
    for (mappings, expected) in [
        ("{}".to_owned(), "jwt[0].claimMappings.username: Required value: claim or expression is required".to_owned()),
        ("{username: {claim: sub}}".to_owned(), "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing".to_owned()),
        ("{username: {claim: sub, expression: claims.sub}}".to_owned(), format!("jwt[0].claimMappings.username: Invalid value: \"\": {both}")),
        ("{username: {expression: claims.email, prefix: a}}".to_owned(), "jwt[0].claimMappings.username.prefix: Invalid value: \"a\": may not be specified when expression is set".to_owned()),
        ("{username: {claim: sub, prefix: ''}, groups: {claim: g}}".to_owned(), "jwt[0].claimMappings.groups.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing".to_owned()),
        ("{username: {claim: sub, prefix: ''}, uid: {claim: a, expression: claims.a}}".to_owned(), format!("jwt[0].claimMappings.uid: Invalid value: \"\": {both}")),
        ("{username: {expression: claims.email}}".to_owned(), "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression".to_owned()),
        (extra("{key: '', valueExpression: claims.a}"), "jwt[0].claimMappings.extra[0].key: Required value".to_owned()),
        (extra("{key: a, valueExpression: claims.a}"), "jwt[0].claimMappings.extra[0].key: Invalid value: \"a\": must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()),
        (extra("{key: example.org/A, valueExpression: claims.a}"), "jwt[0].claimMappings.extra[0].key: Invalid value: \"example.org/A\": must be lowercase".to_owned()),
        (extra("{key: a.k8s.io/b, valueExpression: claims.a}"), "jwt[0].claimMappings.extra[0].key: Invalid value: \"a.k8s.io/b\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use".to_owned()),
        (extra("{key: kubernetes.io/b, valueExpression: claims.a}"), "jwt[0].claimMappings.extra[0].key: Invalid value: \"kubernetes.io/b\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use".to_owned()),
        (extra("{key: capstan.dev/realm, valueExpression: claims.a}"), "jwt[0].claimMappings.extra[0].key: Invalid value: \"capstan.dev/realm\": capstan.dev and its subdomains are reserved for this server".to_owned()),
        (extra("{key: a.b/c}"), "jwt[0].claimMappings.extra[0].valueExpression: Required value".to_owned()),
        (extra("{key: a.b/c, valueExpression: claims.a}, {key: a.b/c, valueExpression: claims.b}"), "jwt[0].claimMappings.extra[1].key: Duplicate value: \"a.b/c\"".to_owned()),
    ] {
        assert_eq!(errors(&format!("claimMappings: {mappings}")), expected, "{mappings}");
    }
    let found = errors("claimMappings: {username: {expression: 'claim.sub'}}");
    let expected = "jwt[0].claimMappings.username.expression: Invalid value: \"claim.sub\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'claim' (in container '')";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn an_invalid_rule_is_refused_with_its_field() {
    for (fields, expected) in [
        (
            "claimValidationRules: [{}]",
            "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
        ),
        (
            "claimValidationRules: [{claim: a, expression: 'true'}]",
            "jwt[0].claimValidationRules[0]: Invalid value: \"a\": claim and expression can't both be set",
        ),
        (
            "claimValidationRules: [{claim: a, message: m}]",
            "jwt[0].claimValidationRules[0].message: Invalid value: \"m\": may not be specified when claim is set",
        ),
        (
            "claimValidationRules: [{claim: a}, {claim: a}]",
            "jwt[0].claimValidationRules[1].claim: Duplicate value: \"a\"",
        ),
        (
            "claimValidationRules: [{expression: 'true', requiredValue: a}]",
            "jwt[0].claimValidationRules[0].requiredValue: Invalid value: \"a\": may not be specified when expression is set",
        ),
        (
            "claimValidationRules: [{expression: 'true'}, {expression: 'true'}]",
            "jwt[0].claimValidationRules[1].expression: Duplicate value: \"true\"",
        ),
        (
            "claimValidationRules: [{expression: claims.a}]",
            "jwt[0].claimValidationRules[0].expression: Invalid value: \"claims.a\": must evaluate to bool",
        ),
        ("userValidationRules: [{}]", "jwt[0].userValidationRules[0].expression: Required value"),
        (
            "userValidationRules: [{expression: 'true'}, {expression: 'true'}]",
            "jwt[0].userValidationRules[1].expression: Duplicate value: \"true\"",
        ),
        (
            "userValidationRules: [{expression: user.username}]",
            "jwt[0].userValidationRules[0].expression: Invalid value: \"user.username\": must evaluate to bool",
        ),
    ] {
        assert_eq!(errors(fields), expected, "{fields}");
    }
    let unknown = errors("userValidationRules: [{expression: \"user.name == 'a'\"}]");
    assert!(unknown.contains("undefined field 'name'"), "{unknown}");
}

#[test]
fn a_file_is_strict() {
    let one = "- issuer: {url: 'https://i.example', audiences: [a]}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n";
    for (text, expected) in [
        (format!("{HEAD}jwts: []\n"), "jwts"),
        (format!("{HEAD}jwt: []\njwt: []\n"), "jwt"),
        (errors_text("issuer: {uri: 'https://i.example'}"), "uri"),
        (errors_text("claimMappings: {username: {claims: sub}}"), "claims"),
        (format!("{HEAD}anonymous: {{enabled: 7}}\n"), "enabled"),
        (
            format!("{HEAD}anonymous: {{enabled: false, conditions: [{{path: /a}}]}}\n"),
            "anonymous.conditions: Invalid value: [\"/a\"]: enabled should be set to true when conditions are defined",
        ),
        (format!("{HEAD}jwt:\n{one}{one}"), "jwt[1].issuer.url: Duplicate value: \"https://i.example\""),
        (
            HEAD.replace("/v1", "/v2"),
            "expected apiVersion apiserver.config.k8s.io/v1 and kind AuthenticationConfiguration, found \"apiserver.config.k8s.io/v2\" and \"AuthenticationConfiguration\"",
        ),
        (
            HEAD.replace("Authentication", "Authorization"),
            "found \"apiserver.config.k8s.io/v1\" and \"AuthorizationConfiguration\"",
        ),
        (String::new(), ""),
        (format!("{HEAD}jwt:\n{}", one.repeat(65)), "jwt: Too many: 65: must have at most 64 items"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

fn errors_text(fields: &str) -> String {
    format!("{HEAD}jwt:\n- {fields}\n")
}

#[test]
fn an_older_version_has_a_warning() {
    for version in ["v1beta1", "v1alpha1"] {
        let read = parse(&HEAD.replace("/v1", &format!("/{version}"))).unwrap();
        let expected = format!(
            "apiVersion apiserver.config.k8s.io/{version} is deprecated; use apiserver.config.k8s.io/v1"
        );
        assert_eq!(read.warning, Some(expected));
    }
    assert_eq!(parse(HEAD).unwrap().warning, None);
}

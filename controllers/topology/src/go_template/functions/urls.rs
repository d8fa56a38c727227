//! URLs, read and written as Go's package `net/url` does.

use std::collections::BTreeMap;

use super::super::value::{Context, Outcome, Value, kind_name};
use super::Parameter::{Map, Text};
use super::{Function, any, function, owned, text};

pub(super) const FUNCTIONS: &[Function] =
    &[function("urlParse", &[Text], url_parse), function("urlJoin", &[Map], url_join)];

/// Part of a URL. Each has its own rule for the characters that are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    User,
    Host,
    /// Zone of an IPv6 address.
    Zone,
    Path,
    Fragment,
}

impl Part {
    /// Returns true if a character is written as its hexadecimal code.
    fn escapes(self, byte: u8) -> bool {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => false,
            b'$' | b'&' | b'+' | b',' | b';' | b'=' => false,
            b'/' | b'@' => self != Self::Path && self != Self::Fragment,
            b':' => self == Self::User,
            b'?' => self != Self::Fragment,
            b'!' | b'(' | b')' | b'*' => !matches!(self, Self::Host | Self::Zone | Self::Fragment),
            b'\'' | b'[' | b']' | b'<' | b'>' | b'"' => !matches!(self, Self::Host | Self::Zone),
            _ => true,
        }
    }
}

/// Name of a user, with a password if there is one.
#[derive(Debug)]
struct User {
    name: String,
    password: Option<String>,
}

/// Parts of a URL, without escapes.
#[derive(Debug, Default)]
struct Url {
    scheme: String,
    user: Option<User>,
    /// Host with its port.
    host: String,
    path: String,
    /// Query as it is written.
    query: String,
    /// Text after the scheme if it does not start with a slash.
    opaque: String,
    fragment: String,
}

fn url_parse(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let whole = text(arguments, 0);
    let url = parse(whole).map_err(|error| format!("unable to parse url: parse {whole:?}: {error}"))?;
    let user = url.user.as_ref().map(user_text).unwrap_or_default();
    let parts: [(&str, &str); 8] = [
        ("scheme", &url.scheme),
        ("host", &url.host),
        ("hostname", host_name(&url.host)),
        ("path", &url.path),
        ("query", &url.query),
        ("opaque", &url.opaque),
        ("fragment", &url.fragment),
        ("userinfo", &user),
    ];
    let entries: BTreeMap<String, Value> =
        parts.into_iter().map(|(name, part)| (name.to_owned(), Value::text(part))).collect();
    context.map(entries, false)
}

fn url_join(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let map = if let Value::Map(map) = any(arguments, 0) { Some(*map) } else { None };
    let part = |name: &str| match map.and_then(|map| context.get(map, name)) {
        None => Ok(String::new()),
        Some(Value::Text(text)) => Ok(text.to_string()),
        Some(other) => Err(format!(
            "unable to parse {name} key, must be of type string, but {} found",
            kind_name(&other, context)
        )),
    };
    let user = match part("userinfo")?.as_str() {
        "" => None,
        user => {
            let url = parse(&format!("proto://{user}@host"));
            url.map_err(|error| format!("unable to parse userinfo in dict: {error}"))?.user
        }
    };
    let url = Url {
        scheme: part("scheme")?,
        user,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
    };
    owned(url_text(&url))
}

fn parse(whole: &str) -> Outcome<Url> {
    let (start, fragment) = whole.split_once('#').unwrap_or((whole, ""));
    if start.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let mut url = Url { fragment: unescaped(fragment, Part::Fragment)?, ..Url::default() };
    if start == "*" {
        url.path = start.to_owned();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(start)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if has_colon_first(rest) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let authority = rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///"));
    let path = match authority {
        Some(after) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            let (user, host) =
                authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
            url.host = parse_host(host)?;
            url.user = user.map(parse_user).transpose()?;
            path
        }
        None => rest,
    };
    url.path = unescaped(path, Part::Path)?;
    Ok(url)
}

/// Splits a scheme off. It is empty if there is none.
fn split_scheme(text: &str) -> Outcome<(&str, &str)> {
    let is_of_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme".to_owned()),
        Some((scheme, rest))
            if scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && scheme.chars().all(is_of_scheme) =>
        {
            Ok((scheme, rest))
        }
        _ => Ok(("", text)),
    }
}

/// Returns true if the first segment of a path has a colon.
fn has_colon_first(path: &str) -> bool {
    path.split('/').next().is_some_and(|segment| segment.contains(':'))
}

fn parse_user(text: &str) -> Outcome<User> {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(letter);
    if !text.chars().all(is_valid) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) =
        text.split_once(':').map_or((text, None), |(name, password)| (name, Some(password)));
    let password = password.map(|password| unescaped(password, Part::User)).transpose()?;
    Ok(User { name: unescaped(name, Part::User)?, password })
}

fn parse_host(text: &str) -> Outcome<String> {
    let is_address = text.starts_with('[');
    let end = if is_address {
        text.rfind(']').ok_or("missing ']' in host")?
    } else {
        text.rfind(':').unwrap_or(text.len())
    };
    let (address, after) = text.split_at(end);
    let port = if is_address { after.strip_prefix(']').unwrap_or_default() } else { after };
    if !is_port(port) {
        return Err(format!("invalid port {port:?} after host"));
    }
    match address.find("%25").filter(|_| is_address) {
        Some(zone) => {
            let (address, zone) = address.split_at(zone);
            let parts = [(address, Part::Host), (zone, Part::Zone), (after, Part::Host)];
            parts.into_iter().map(|(text, part)| unescaped(text, part)).collect()
        }
        None => unescaped(text, Part::Host),
    }
}

/// Returns true for a port with its colon, and for no port.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|it| it.is_ascii_digit()))
}

/// Returns a host without its port, and an IPv6 address without brackets.
fn host_name(host: &str) -> &str {
    let (name, port) = host.split_at(host.rfind(':').unwrap_or(host.len()));
    let name = if is_port(port) { name } else { host };
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

fn user_text(user: &User) -> String {
    let password = user.password.as_ref().map(|it| format!(":{}", escaped(it, Part::User)));
    escaped(&user.name, Part::User) + &password.unwrap_or_default()
}

fn url_text(url: &Url) -> String {
    let mut text = String::new();
    if !url.scheme.is_empty() {
        text = format!("{}:", url.scheme);
    }
    if url.opaque.is_empty() {
        write_hierarchy(url, &mut text);
    } else {
        text.push_str(&url.opaque);
    }
    if !url.query.is_empty() {
        text = format!("{text}?{}", url.query);
    }
    if !url.fragment.is_empty() {
        text = format!("{text}#{}", escaped(&url.fragment, Part::Fragment));
    }
    text
}

/// Appends user, host and path.
fn write_hierarchy(url: &Url, text: &mut String) {
    let has_authority = !url.host.is_empty() || url.user.is_some();
    if has_authority || (!url.scheme.is_empty() && !url.path.is_empty()) {
        text.push_str("//");
    }
    if let Some(user) = &url.user {
        text.push_str(&user_text(user));
        text.push('@');
    }
    text.push_str(&escaped(&url.host, Part::Host));
    let path = if url.path == "*" { url.path.clone() } else { escaped(&url.path, Part::Path) };
    if !path.is_empty() && !path.starts_with('/') && !url.host.is_empty() {
        text.push('/');
    }
    if text.is_empty() && has_colon_first(&path) {
        text.push_str("./");
    }
    text.push_str(&path);
}

fn escaped(text: &str, part: Part) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match part.escapes(byte) {
            true => escaped.push_str(&format!("%{byte:02X}")),
            false => escaped.push(char::from(byte)),
        }
    }
    escaped
}

fn unescaped(text: &str, part: Part) -> Outcome<String> {
    let is_of_host = matches!(part, Part::Host | Part::Zone);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            if is_of_host && byte.is_ascii() && part.escapes(byte) {
                return Err(format!("invalid character {:?} in host name", char::from(byte).to_string()));
            }
            bytes.push(byte);
            continue;
        }
        let digits = after.split_at_checked(2);
        let value = digits.and_then(|(digits, _)| hexadecimal(digits));
        let is_allowed = |value: u8| match part {
            Part::Host => !value.is_ascii() || value == b'%',
            Part::Zone => matches!(value, b'%' | b' ') || !part.escapes(value),
            Part::User | Part::Path | Part::Fragment => true,
        };
        let Some((value, (_, after))) = value.filter(|value| is_allowed(*value)).zip(digits) else {
            let shown: String = String::from_utf8_lossy(after).chars().take(2).collect();
            return Err(format!("invalid URL escape {:?}", format!("%{shown}")));
        };
        bytes.push(value);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| "an escaped text is not UTF-8".to_owned())
}

/// Returns the byte of two hexadecimal digits.
fn hexadecimal(digits: &[u8]) -> Option<u8> {
    // `from_str_radix` also accepts `+8`.
    let digits = std::str::from_utf8(digits).ok().filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

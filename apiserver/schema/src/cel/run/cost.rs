//! Actual cost of a call, by its arguments.

use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::operators::{
    ADD, EQUALS, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, NOT_EQUALS,
};

use super::formats;
use super::operators::optional;
use crate::cel::estimate::LIST;
use crate::cel::macros::SORT_BY_KEYS;

/// Letters per unit of cost.
const LETTERS: u64 = 10;

/// Letters of a pattern per unit of cost, for each ten letters that are searched.
const PATTERN: u64 = 4;

/// Bytes of an IPv4 address.
const ADDRESS: u64 = 4;

/// Cost of a question to an authorizer: upstream's.
const QUESTION: u64 = 350_000;

/// Returns the cost of a call.
pub(super) fn of(name: &str, given: &[Cel]) -> u64 {
    if matches!((name, given), ("check", [Cel::Opaque(_), Cel::String(_)])) {
        return QUESTION;
    }
    of_operator(name, given).or_else(|| of_list(name, given)).or_else(|| of_text(name, given)).unwrap_or(1)
}

/// Reports whether the cost of a function depends on its overload.
pub(super) fn is_by_type(name: &str) -> bool {
    matches!(
        name,
        LESS | LESS_EQUALS | GREATER | GREATER_EQUALS | ADD | IN | "string" | "bytes" | "sort" | SORT_BY_KEYS
    )
}

fn of_operator(name: &str, given: &[Cel]) -> Option<u64> {
    let [left, right] = given else { return None };
    let both_texts =
        matches!((left, right), (Cel::String(_), Cel::String(_)) | (Cel::Bytes(_), Cel::Bytes(_)));
    match name {
        EQUALS if is_of_kubernetes(left) => Some(1),
        EQUALS | NOT_EQUALS => Some(read(size(left).min(size(right)))),
        LESS | LESS_EQUALS | GREATER | GREATER_EQUALS if both_texts => {
            Some(read(size(left).min(size(right))))
        }
        ADD if both_texts => Some(read(size(left).saturating_add(size(right)))),
        IN => matches!(right, Cel::List(_)).then(|| size(right)),
        _ => None,
    }
}

fn of_list(name: &str, given: &[Cel]) -> Option<u64> {
    let first = given.first()?;
    let making = |size: u64| size.saturating_add(1 + LIST);
    match (name, given) {
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", _) => Some(gone_over(first)),
        ("slice", [_, Cel::Int(from), Cel::Int(to)]) => {
            Some(making(u64::try_from(to.saturating_sub(*from)).unwrap_or_default()))
        }
        ("flatten", [_]) => Some(making(size(first))),
        ("flatten", [_, Cel::Int(depth)]) => {
            Some(making(size(first).saturating_mul(u64::try_from(*depth).unwrap_or_default())))
        }
        ("lists.range", [Cel::Int(most)]) => Some(making(u64::try_from(*most).unwrap_or_default())),
        ("reverse", [Cel::List(_)]) => Some(making(size(first))),
        ("distinct" | "sort", [Cel::List(items)]) | (SORT_BY_KEYS, [_, Cel::List(items)]) => {
            let length = u64::try_from(items.len()).unwrap_or(u64::MAX);
            let pairs = length.saturating_mul(length);
            // For texts, the letters are compared as well.
            let of_texts = matches!(items.first(), Some(Cel::String(_) | Cel::Bytes(_)));
            let letters = if of_texts { pairs / LETTERS } else { 0 };
            Some(making(pairs.saturating_mul(2).saturating_add(letters)))
        }
        ("sets.contains" | "sets.intersects", [left, right]) => {
            Some(size(left).saturating_mul(size(right)).saturating_add(1))
        }
        ("sets.equivalent", [left, right]) => {
            Some(size(left).saturating_mul(size(right)).saturating_mul(2).saturating_add(1))
        }
        _ => None,
    }
}

fn of_text(name: &str, given: &[Cel]) -> Option<u64> {
    let first = given.first()?;
    let on = size(first);
    match (name, given) {
        ("startsWith" | "endsWith", [_, part]) => Some(read(size(part))),
        ("bytes", [Cel::String(_)]) | ("string", [Cel::Bytes(_)]) | ("format" | "strings.quote", _) => {
            Some(read(on))
        }
        ("contains", [_, part]) => Some(read(on).saturating_mul(read(size(part)))),
        ("matches" | "find" | "findAll", [_, pattern, ..]) => Some(matching(on, size(pattern))),
        ("validate", [format, text]) => Some(matching(size(text), formats::pattern(format))),
        ("jsonpatch.escapeKey" | "url" | "lowerAscii" | "upperAscii" | "substring" | "trim", _) => {
            Some(read(on))
        }
        ("replace" | "split" | "ip.isCanonical", _) => Some(read(on.saturating_mul(2))),
        ("join", [Cel::List(items), ..]) => {
            let between = given.get(1).map_or(0, size);
            let gaps = size(first).saturating_sub(1).saturating_mul(between);
            let letters = items.iter().map(size).fold(gaps, u64::saturating_add);
            Some(read(letters.saturating_mul(2)))
        }
        (
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
            [Cel::String(_), ..],
        ) => Some(read(on)),
        _ => None,
    }
}

/// Returns the cost of checking whether a network, whose prefix has so many bytes, contains an address or a network.
pub(super) fn containing(name: &str, bytes: u64, other: &Cel) -> u64 {
    let mut cost = read(bytes.saturating_mul(2));
    if name == "containsCIDR" {
        cost = cost.saturating_add(read(bytes)).saturating_add(1);
    }
    if let Cel::String(_) = other { cost.saturating_add(read(size(other))) } else { cost }
}

/// Returns the cost of reading letters.
fn read(letters: u64) -> u64 {
    letters.div_ceil(LETTERS)
}

/// Returns the cost of matching a pattern. An empty text has a cost as well.
fn matching(letters: u64, pattern: u64) -> u64 {
    read(letters.saturating_add(1)).saturating_mul(pattern.div_ceil(PATTERN))
}

/// Returns the number of entries or letters; 1 for other values.
fn size(value: &Cel) -> u64 {
    let size = match value {
        Cel::String(text) => text.chars().count(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        Cel::Opaque(inner) => {
            return match (optional(value), inner.runtime_type_name()) {
                (Some(Some(inner)), _) => size(inner),
                (_, "net.IP" | "net.CIDR") => ADDRESS,
                _ => 1,
            };
        }
        _ => 1,
    };
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// Returns the cost of reading a value with its content. Texts count in bytes, and fewer than ten bytes cost nothing.
fn gone_over(value: &Cel) -> u64 {
    let bytes = |length: usize| u64::try_from(length).unwrap_or(u64::MAX) / LETTERS;
    match value {
        Cel::String(text) => bytes(text.len()),
        Cel::Bytes(data) => bytes(data.len()),
        Cel::List(items) => items.iter().map(gone_over).fold(0, u64::saturating_add),
        Cel::Map(map) => {
            let entries = map.map.iter();
            let each =
                entries.map(|(key, value)| gone_over(&Cel::from(key)).saturating_add(gone_over(value)));
            each.fold(0, u64::saturating_add)
        }
        _ => 1,
    }
}

/// Reports whether a value has a type that Kubernetes adds.
fn is_of_kubernetes(value: &Cel) -> bool {
    let Cel::Opaque(inner) = value else { return false };
    let name = inner.runtime_type_name();
    name.starts_with("net.") || name.starts_with("kubernetes.")
}

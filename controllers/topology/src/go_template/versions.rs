//! Semantic versions and their constraints.

use std::cmp::Ordering;
use std::rc::Rc;

use super::value::{Context, Outcome, Value, Width, type_name};

/// Semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    numbers: [u64; 3],
    pre: String,
    build: String,
    original: String,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

/// Parts of a version or of a constraint's version, as texts.
struct Parts<'a> {
    numbers: Vec<&'a str>,
    pre: &'a str,
    build: &'a str,
}

/// Splits a version. An optional `v` comes first.
fn split(text: &str) -> Option<Parts<'_>> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (numbers, pre) = match text.split_once('-') {
        Some((numbers, pre)) => (numbers, Some(pre)),
        None => (text, None),
    };
    let is_label = |text: &str| {
        text.split('.').all(|part| {
            !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
        })
    };
    if pre.is_some_and(|pre| !is_label(pre)) || build.is_some_and(|build| !is_label(build)) {
        return None;
    }
    let numbers: Vec<&str> = numbers.split('.').collect();
    (numbers.len() <= 3).then_some(Parts {
        numbers,
        pre: pre.unwrap_or_default(),
        build: build.unwrap_or_default(),
    })
}

const INVALID: &str = "Invalid Semantic Version";

fn parse(text: &str) -> Outcome<Version> {
    let parts = split(text).ok_or(INVALID)?;
    let mut numbers = [0; 3];
    for (number, part) in numbers.iter_mut().zip(&parts.numbers) {
        if part.is_empty() || !part.chars().all(|digit| digit.is_ascii_digit()) {
            return Err(INVALID.to_owned());
        }
        *number = part.parse().map_err(|_| INVALID.to_owned())?;
    }
    for part in parts.pre.split('.') {
        if part.len() > 1 && part.starts_with('0') && part.chars().all(|digit| digit.is_ascii_digit()) {
            return Err("Version segment starts with 0".to_owned());
        }
    }
    Ok(Version {
        numbers,
        pre: parts.pre.to_owned(),
        build: parts.build.to_owned(),
        original: text.to_owned(),
    })
}

/// Parses a version.
pub(super) fn parse_value(text: &str) -> Outcome<Value> {
    Ok(Value::Version(Rc::new(parse(text)?)))
}

fn compare(left: &Version, right: &Version) -> Ordering {
    left.numbers.cmp(&right.numbers).then_with(|| compare_pre(&left.pre, &right.pre))
}

/// Compares pre-release labels. A version without a label is later.
fn compare_pre(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(left), Some(right)) => match (left.parse::<u64>(), right.parse::<u64>()) {
                (Ok(left), Ok(right)) => left.cmp(&right),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => left.cmp(right),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Calls a method of a version.
pub(super) fn method(
    version: &Version,
    name: &str,
    arguments: &[Value],
    context: &Context,
) -> Outcome<Value> {
    let [major, minor, patch] = version.numbers;
    let number = |value: u64| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX), Width::Uint64);
    let plain = match name {
        "Major" => number(major),
        "Minor" => number(minor),
        "Patch" => number(patch),
        "Prerelease" => Value::text(&version.pre),
        "Metadata" => Value::text(&version.build),
        "Original" => Value::text(&version.original),
        "String" => Value::text(&version.to_string()),
        "Compare" | "Equal" | "LessThan" | "GreaterThan" => {
            let [Value::Version(other)] = arguments else {
                return Err(format!("wrong arguments for {name}: want one *semver.Version"));
            };
            let order = compare(version, other);
            return Ok(match name {
                "Equal" => Value::Bool(order == Ordering::Equal),
                "LessThan" => Value::Bool(order == Ordering::Less),
                "GreaterThan" => Value::Bool(order == Ordering::Greater),
                _ => Value::Integer(
                    match order {
                        Ordering::Less => -1,
                        Ordering::Equal => 0,
                        Ordering::Greater => 1,
                    },
                    Width::Int,
                ),
            });
        }
        _ => {
            let kind = type_name(&Value::Version(Rc::new(version.clone())), context);
            return Err(format!("can't evaluate field {name} in type {kind}"));
        }
    };
    if arguments.is_empty() {
        Ok(plain)
    } else {
        Err(format!("wrong number of args for {name}: want 0 got {}", arguments.len()))
    }
}

/// Condition on a version.
struct Condition {
    operator: String,
    version: Version,
    /// Number of leading numbers that are given. The others match any number.
    given: usize,
}

/// Reports whether a version satisfies a constraint.
pub(super) fn satisfies(constraint: &str, version: &str) -> Outcome<bool> {
    let alternatives: Vec<Vec<Condition>> = constraint.split("||").map(conditions).collect::<Outcome<_>>()?;
    let version = parse(version)?;
    Ok(alternatives.iter().any(|conditions| conditions.iter().all(|condition| condition.holds(&version))))
}

/// Parses conditions that must all hold, with commas or spaces between them.
fn conditions(text: &str) -> Outcome<Vec<Condition>> {
    let improper = || format!("improper constraint: {text}");
    let text = ranges(text);
    let mut found = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(improper());
    }
    while !rest.is_empty() {
        let is_operator = |letter: char| matches!(letter, '=' | '!' | '<' | '>' | '~' | '^');
        let end = rest.find(|letter| !is_operator(letter)).unwrap_or(rest.len());
        let (operator, after) = rest.split_at_checked(end).ok_or_else(improper)?;
        let after = after.trim_start();
        let end = after.find(|letter: char| letter == ',' || letter.is_whitespace()).unwrap_or(after.len());
        let (version, after) = after.split_at_checked(end).ok_or_else(improper)?;
        found.push(condition(operator, version).ok_or_else(improper)?);
        let next = after.trim_start();
        rest = next.strip_prefix(',').map_or(next, str::trim_start);
        if rest.is_empty() && next.starts_with(',') {
            return Err(improper());
        }
    }
    Ok(found)
}

/// Rewrites `a - b` as two conditions.
fn ranges(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [from, "-", to] => format!(">={from} <={to}"),
        _ => text.to_owned(),
    }
}

const OPERATORS: [&str; 12] = ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"];

fn condition(operator: &str, text: &str) -> Option<Condition> {
    if !OPERATORS.contains(&operator) {
        return None;
    }
    let parts = split(text)?;
    let is_any = |part: &&&str| matches!(**part, "x" | "X" | "*");
    let given = parts.numbers.iter().take_while(|part| !is_any(part)).count();
    let mut numbers = [0; 3];
    for (number, part) in numbers.iter_mut().zip(parts.numbers.iter().take(given)) {
        *number = part.parse().ok()?;
    }
    let rest_is_valid =
        parts.numbers.iter().skip(given).all(|part| is_any(&part) || part.parse::<u64>().is_ok());
    let version = Version {
        numbers,
        pre: parts.pre.to_owned(),
        build: parts.build.to_owned(),
        original: text.to_owned(),
    };
    rest_is_valid.then(|| Condition { operator: operator.to_owned(), version, given })
}

impl Condition {
    fn holds(&self, version: &Version) -> bool {
        let is_partial = self.given < 3;
        if !version.pre.is_empty() && self.version.pre.is_empty() && (self.operator != "!=" || is_partial) {
            return false;
        }
        let order = compare(version, &self.version);
        let prefix = |count: usize| {
            version.numbers.iter().zip(&self.version.numbers).take(count).all(|(one, other)| one == other)
        };
        match self.operator.as_str() {
            "!=" if is_partial => {
                let is_same_label = compare_pre(&version.pre, &self.version.pre) == Ordering::Equal;
                !prefix(self.given.max(1)) || (self.given == 2 && !is_same_label)
            }
            "!=" => order != Ordering::Equal,
            ">" if is_partial => {
                let count = self.given.max(1);
                version.numbers.iter().take(count).gt(self.version.numbers.iter().take(count))
            }
            ">" => order == Ordering::Greater,
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" if is_partial => {
                let count = self.given.max(1);
                version.numbers.iter().take(count).le(self.version.numbers.iter().take(count))
            }
            "<=" | "=<" => order != Ordering::Greater,
            "^" => order != Ordering::Less && self.is_compatible(version),
            "" | "=" if !is_partial => order == Ordering::Equal,
            _ => order != Ordering::Less && self.is_near(version),
        }
    }

    /// Reports whether only the patch number differs, or the minor number if none is given.
    fn is_near(&self, version: &Version) -> bool {
        let [major, minor, _] = self.version.numbers;
        if self.version.numbers == [0; 3] && self.given != 1 && self.given != 2 {
            return true;
        }
        version.numbers.first() == Some(&major) && (self.given == 1 || version.numbers.get(1) == Some(&minor))
    }

    /// Reports whether the first number that is not 0 is the same.
    fn is_compatible(&self, version: &Version) -> bool {
        let [major, minor, patch] = self.version.numbers;
        let [new_major, new_minor, new_patch] = version.numbers;
        if major > 0 || self.given == 1 {
            return new_major == major;
        }
        if new_major > 0 {
            return false;
        }
        if minor > 0 || self.given == 2 {
            return new_minor == minor;
        }
        new_minor == 0 && (new_patch == patch)
    }
}

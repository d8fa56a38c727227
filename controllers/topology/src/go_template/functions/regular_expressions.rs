//! Regular expressions.

use regex::{Captures, Regex, RegexBuilder};

use super::super::value::{Context, Outcome, Value};
use super::Parameter::{Int, Text};
use super::{Function, function, integer, owned, text};

/// Largest compiled expression, so that one expression cannot take seconds. Unit: bytes.
const LARGEST: usize = 256 * 1024;

/// Work of compiling an expression, in the bytes that [`Context::charge`] counts. It takes up to 1 ms.
const COMPILATION: usize = 64 * 1024;

pub(super) const FUNCTIONS: &[Function] = &[
    function("regexMatch", &[Text, Text], |context, arguments| {
        Ok(Value::Bool(compiled(arguments, context).is_ok_and(|found| found.is_match(text(arguments, 1)))))
    }),
    function("mustRegexMatch", &[Text, Text], |context, arguments| {
        Ok(Value::Bool(compiled(arguments, context)?.is_match(text(arguments, 1))))
    }),
    function("regexFind", &[Text, Text], find),
    function("mustRegexFind", &[Text, Text], find),
    function("regexFindAll", &[Text, Text, Int], find_all),
    function("mustRegexFindAll", &[Text, Text, Int], find_all),
    function("regexReplaceAll", &[Text, Text, Text], replace_all),
    function("mustRegexReplaceAll", &[Text, Text, Text], replace_all),
    function("regexReplaceAllLiteral", &[Text, Text, Text], replace_literally),
    function("mustRegexReplaceAllLiteral", &[Text, Text, Text], replace_literally),
    function("regexSplit", &[Text, Text, Int], split),
    function("mustRegexSplit", &[Text, Text, Int], split),
    function("regexQuoteMeta", &[Text], |_, arguments| {
        let mut quoted = String::new();
        for letter in text(arguments, 0).chars() {
            if "\\.+*?()|[]{}^$".contains(letter) {
                quoted.push('\\');
            }
            quoted.push(letter);
        }
        owned(quoted)
    }),
];

fn compiled(arguments: &[Value], context: &Context) -> Outcome<Regex> {
    context.charge(COMPILATION)?;
    let expression = text(arguments, 0);
    RegexBuilder::new(&with_ascii_classes(expression))
        .size_limit(LARGEST)
        .build()
        .map_err(|error| format!("error parsing regexp: {expression:?}: {error}"))
}

/// Returns an expression with Go's meaning of Perl classes and word boundaries: they know ASCII characters only.
fn with_ascii_classes(expression: &str) -> String {
    let mut translated = String::with_capacity(expression.len());
    let mut letters = expression.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            translated.push(letter);
            continue;
        }
        match letters.next() {
            // Classes can be nested, so a class is right within another one, too.
            Some('d') => translated.push_str("[0-9]"),
            Some('D') => translated.push_str("[^0-9]"),
            Some('s') => translated.push_str(r"[\t\n\f\r ]"),
            Some('S') => translated.push_str(r"[^\t\n\f\r ]"),
            Some('w') => translated.push_str("[0-9A-Za-z_]"),
            Some('W') => translated.push_str("[^0-9A-Za-z_]"),
            Some(boundary @ ('b' | 'B')) => translated.push_str(&format!("(?-u:\\{boundary})")),
            other => {
                translated.push(letter);
                translated.extend(other);
            }
        }
    }
    translated
}

/// Returns the largest number of results. A negative number stands for all.
fn most(value: i64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn find(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let found = compiled(arguments, context)?.find(text(arguments, 1)).map(|found| found.as_str().to_owned());
    owned(found.unwrap_or_default())
}

fn find_all(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let expression = compiled(arguments, context)?;
    let found = expression.find_iter(text(arguments, 1)).take(most(integer(arguments, 2)));
    context.texts(found.map(|found| found.as_str()))
}

fn replace_all(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let replacement = text(arguments, 2);
    replaced(context, arguments, |captures, to| captures.expand(replacement, to))
}

fn replace_literally(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let replacement = text(arguments, 2);
    replaced(context, arguments, |_, to| to.push_str(replacement))
}

fn replaced(
    context: &Context,
    arguments: &[Value],
    expand: impl Fn(&Captures<'_>, &mut String),
) -> Outcome<Value> {
    let (expression, whole) = (compiled(arguments, context)?, text(arguments, 1));
    let (mut result, mut end) = (String::new(), 0);
    for captures in expression.captures_iter(whole) {
        let Some(found) = captures.get(0) else { continue };
        result.push_str(whole.get(end..found.start()).unwrap_or_default());
        expand(&captures, &mut result);
        context.check_length(result.len())?;
        end = found.end();
    }
    result.push_str(whole.get(end..).unwrap_or_default());
    owned(result)
}

fn split(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let (expression, whole) = (compiled(arguments, context)?, text(arguments, 1));
    let most = most(integer(arguments, 2));
    if most == 0 {
        return context.texts(Vec::<&str>::new());
    }
    context.texts(expression.splitn(whole, most))
}

//! Paths with slashes.

use super::super::value::Value;
use super::Parameter::Text;
use super::{Function, function, owned, text};

pub(super) const FUNCTIONS: &[Function] = &[
    function("base", &[Text], |_, arguments| owned(base(text(arguments, 0)))),
    function("osBase", &[Text], |_, arguments| owned(base(text(arguments, 0)))),
    function("dir", &[Text], |_, arguments| owned(directory(text(arguments, 0)))),
    function("osDir", &[Text], |_, arguments| owned(directory(text(arguments, 0)))),
    function("clean", &[Text], |_, arguments| owned(clean(text(arguments, 0)))),
    function("osClean", &[Text], |_, arguments| owned(clean(text(arguments, 0)))),
    function("ext", &[Text], |_, arguments| owned(extension(text(arguments, 0)))),
    function("osExt", &[Text], |_, arguments| owned(extension(text(arguments, 0)))),
    function("isAbs", &[Text], |_, arguments| Ok(Value::Bool(text(arguments, 0).starts_with('/')))),
    function("osIsAbs", &[Text], |_, arguments| Ok(Value::Bool(text(arguments, 0).starts_with('/')))),
];

fn base(path: &str) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if name.is_empty() { "/".to_owned() } else { name.to_owned() }
}

fn directory(path: &str) -> String {
    clean(path.rfind('/').and_then(|end| path.get(..=end)).unwrap_or_default())
}

fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.').and_then(|dot| name.get(dot..)).unwrap_or_default().to_owned()
}

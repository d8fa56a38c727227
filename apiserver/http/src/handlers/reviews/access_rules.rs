//! Access rules of the token of a request in self-reviews. A request that no rule allows gets 403, whatever the user may do,
//! so a review that knows permissions alone would be wrong.

use apiserver_access::{Attributes, Rules, User};
use apiserver_machinery::resource::Registry;
use apiserver_machinery::reviews;

use crate::request::request_info::ResourcePath;

/// Any value, in a question. As a segment of a path, only a pattern for any segment matches it.
const ANY: &str = "*";

/// Verbs of requests for resources, with their methods. Other verbs are permissions without a request of their own.
const VERBS: [(&str, &str); 8] = [
    ("get", "GET"),
    ("list", "GET"),
    ("watch", "GET"),
    ("create", "POST"),
    ("update", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
    ("deletecollection", "DELETE"),
];

/// Methods of requests for other paths.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Reason why the list of a user's permissions is not the list of what the token may do.
const LIMITED: &str = "the application credential of the token has access rules, which this list leaves out: each request also \
    needs a rule with its method and its path";

/// Kind of the objects in question, as the server has it.
#[derive(Debug)]
struct Served<'a> {
    is_namespaced: bool,
    versions: Vec<&'a str>,
}

/// Request that the user must be able to send: its method, and the paths of which one is enough.
#[derive(Debug, PartialEq, Eq)]
struct Need {
    method: String,
    paths: Vec<String>,
}

/// Returns the refusal of the requests in question by the access rules of the user's token, if they refuse one.
pub(super) fn refusal(registry: &Registry, attributes: &Attributes) -> Option<String> {
    let rules = attributes.user.limits.as_ref()?.requests.as_ref()?;
    let is_allowed = |need: &Need| need.paths.iter().any(|path| rules.allow(&need.method, path));
    let needs = needs(attributes, served(registry, attributes).as_ref());
    let missing = needs.iter().find(|need| !is_allowed(need))?;
    Some(attributes.refusal(&rules.absence(&missing.method)))
}

/// Adds to the permissions of a user that the token does not have all of them.
pub(super) fn noted(mut rules: Rules, user: &User) -> Rules {
    if user.limits.as_ref().is_some_and(|limits| limits.requests.is_some()) {
        let known = Some(rules.unknown).filter(|text| !text.is_empty());
        rules.unknown = known.into_iter().chain([LIMITED.to_owned()]).collect::<Vec<_>>().join("; ");
    }
    rules
}

fn served<'a>(registry: &'a Registry, attributes: &Attributes) -> Option<Served<'a>> {
    let (group, plural) = (attributes.group.as_str(), attributes.resource.as_str());
    let kinds = registry.resources().iter().filter(|it| it.group == group && it.plural == plural);
    let kinds: Vec<_> = kinds.collect();
    if let Some(first) = kinds.first() {
        let versions = kinds.iter().map(|it| it.version.as_str()).collect();
        return Some(Served { is_namespaced: first.namespaced, versions });
    }
    let review = reviews::ALL.iter().find(|it| it.group == group && it.plural == plural)?;
    Some(Served { is_namespaced: review.namespaced, versions: vec![reviews::VERSION] })
}

/// Returns the requests that a question is about. All of them must be allowed.
fn needs(attributes: &Attributes, served: Option<&Served<'_>>) -> Vec<Need> {
    if !attributes.is_resource() {
        return of_path(attributes);
    }
    let versions = match (attributes.version.as_str(), served) {
        ("", Some(served)) => served.versions.clone(),
        ("", None) => vec![ANY],
        (version, _) => vec![version],
    };
    // The core group has another root than all others.
    let group = attributes.group.as_str();
    let groups = if group == ANY { vec!["", ANY] } else { vec![group] };
    let mut needs = Vec::new();
    for (verb, method) in VERBS {
        if ![ANY, verb].contains(&attributes.verb.as_str()) {
            continue;
        }
        for namespace in namespaces(attributes, served, verb) {
            for group in &groups {
                let of_version = |version: &&str| path(attributes, verb, (*group, *version, namespace));
                let paths = versions.iter().map(of_version).collect();
                needs.push(Need { method: method.to_owned(), paths });
            }
        }
    }
    needs
}

fn of_path(attributes: &Attributes) -> Vec<Need> {
    let need = |method: String| Need { method, paths: vec![attributes.path.clone()] };
    match attributes.verb.as_str() {
        "" => Vec::new(),
        ANY => METHODS.into_iter().map(|method| need(method.to_owned())).collect(),
        verb => vec![need(verb.to_uppercase())],
    }
}

/// Returns the namespaces in the paths; an empty one is none.
fn namespaces<'a>(attributes: &'a Attributes, served: Option<&Served<'_>>, verb: &str) -> Vec<&'a str> {
    let is_namespaced = served.map(|it| it.is_namespaced);
    match (is_namespaced, attributes.namespace.as_str()) {
        (Some(false), _) => vec![""],
        (None, "") if attributes.resource == ANY => vec!["", ANY],
        (None, "") => vec![""],
        // One request lists the objects of all namespaces. Others are for one namespace each.
        (Some(true), "") if matches!(verb, "list" | "watch") => vec![""],
        (Some(true), "") => vec![ANY],
        (_, namespace) => vec![namespace],
    }
}

fn path(attributes: &Attributes, verb: &str, (group, version, namespace): (&str, &str, &str)) -> String {
    let Attributes { resource, subresource, name, .. } = attributes;
    let is_of_object = !subresource.is_empty() || matches!(verb, "get" | "update" | "patch" | "delete");
    let name = match (is_of_object, name.is_empty()) {
        // A new object has its name in the body, and a list in a selector.
        (false, _) => "",
        (true, true) => ANY,
        (true, false) => name.as_str(),
    };
    let path = ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.clone(),
        name: name.to_owned(),
        subresource: subresource.clone(),
    };
    path.to_path("")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns attributes from `verb group/version/namespace/resource/name/subresource`.
    fn asked(text: &str) -> Attributes {
        let (verb, rest) = text.split_once(' ').unwrap();
        let parts: Vec<String> = rest.split('/').map(str::to_owned).collect();
        let parts: [String; 6] = parts.try_into().unwrap();
        let [group, version, namespace, resource, name, subresource] = parts;
        let verb = verb.to_owned();
        Attributes { verb, group, version, namespace, resource, name, subresource, ..Attributes::default() }
    }

    fn shown(needs: &[Need]) -> Vec<String> {
        needs.iter().map(|need| format!("{} {}", need.method, need.paths.join(" or "))).collect()
    }

    #[test]
    fn ia_52_a_question_about_a_resource_is_one_about_its_requests() {
        let machines = Served { is_namespaced: true, versions: vec!["v2", "v1"] };
        let classes = Served { is_namespaced: false, versions: vec!["v1"] };
        let (machines, classes) = (Some(&machines), Some(&classes));
        let table = [
            ("get g/v1/ns/machines/m/", machines, vec!["GET /apis/g/v1/namespaces/ns/machines/m"]),
            ("get g/v1/ns/machines//", machines, vec!["GET /apis/g/v1/namespaces/ns/machines/*"]),
            ("get g/v1//machines//", machines, vec!["GET /apis/g/v1/namespaces/*/machines/*"]),
            ("list g/v1/ns/machines/m/", machines, vec!["GET /apis/g/v1/namespaces/ns/machines"]),
            ("watch g/v1//machines//", machines, vec!["GET /apis/g/v1/machines"]),
            (
                "create g//ns/machines//",
                machines,
                vec!["POST /apis/g/v2/namespaces/ns/machines or /apis/g/v1/namespaces/ns/machines"],
            ),
            (
                "create g/v1/ns/machines//reboot",
                machines,
                vec!["POST /apis/g/v1/namespaces/ns/machines/*/reboot"],
            ),
            (
                "update g/v1/ns/machines/m/status",
                machines,
                vec!["PUT /apis/g/v1/namespaces/ns/machines/m/status"],
            ),
            ("deletecollection g/*//machines//", machines, vec!["DELETE /apis/g/*/namespaces/*/machines"]),
            ("delete g/v1/ns/classes/c/", classes, vec!["DELETE /apis/g/v1/classes/c"]),
            ("patch /v1/ns/others/o/", None, vec!["PATCH /api/v1/namespaces/ns/others/o"]),
            ("list //a/others//", None, vec!["GET /api/*/namespaces/a/others"]),
            (
                "list */*//*//",
                None,
                vec![
                    "GET /api/*/*",
                    "GET /apis/*/*/*",
                    "GET /api/*/namespaces/*/*",
                    "GET /apis/*/*/namespaces/*/*",
                ],
            ),
            ("use g/v1//classes/c/", classes, vec![]),
        ];
        for (text, served, expected) in table {
            assert_eq!(shown(&needs(&asked(text), served)), expected, "{text}");
        }
        let all = needs(&asked("* g/v1/ns/machines//"), machines);
        assert_eq!(all.len(), VERBS.len(), "{all:?}");
    }

    #[test]
    fn ia_52_a_question_about_a_path_is_one_about_its_method() {
        let found = |verb: &str| {
            let (verb, path) = (verb.to_owned(), "/metrics".to_owned());
            shown(&needs(&Attributes { verb, path, ..Attributes::default() }, None))
        };
        assert_eq!(found("get"), ["GET /metrics"]);
        assert_eq!(found(""), [""; 0]);
        assert_eq!(found(ANY).len(), METHODS.len());
    }
}

//! A machine sees only its own: two machines, every kind and every verb, and a Machine that is made anew.

use std::collections::BTreeSet;
use std::time::Instant;

use apiserver_machinery::resource::{Registry, Resource};
use serde_json::json;

use crate::caller::Verdict;
use crate::certificates::of_machine;
use crate::host::TEAM;
use crate::machine_scene::{BOOTSTRAP, CORE, INFRASTRUCTURE, Id, Machine, MachineScene, create, object};
use crate::routes::{Probe, probe, root};
use crate::server::{PATIENCE, PAUSE};

/// Group and plural of certificate signing requests.
const REQUESTS: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");

/// Subresources that are tried of every kind, besides its actions. No kind has the last one.
const SUBRESOURCES: [&str; 5] = ["status", "scale", "approval", "finalize", "nonsense"];

/// Request with the object that it is about, if it reads one object of the team.
struct Request {
    probe: Probe,
    read: Option<Id>,
    /// True if a machine may send it about any object: it creates a CertificateSigningRequest, or it patches an Event, about
    /// which the kind decides.
    is_free: bool,
}

/// Kind, and the paths of its objects.
struct Kind<'a> {
    resource: &'a Resource,
    root: String,
    collection: String,
}

impl<'a> Kind<'a> {
    fn new(resource: &'a Resource) -> Self {
        let root = root(&resource.group, &resource.version);
        let within = if resource.namespaced { format!("/namespaces/{TEAM}") } else { String::new() };
        let collection = format!("{root}{within}/{}", resource.plural);
        Self { resource, root, collection }
    }

    fn is(&self, (group, plural): (&str, &str)) -> bool {
        (self.resource.group.as_str(), self.resource.plural.as_str()) == (group, plural)
    }

    fn request(&self, verb: &'static str, method: &'static str, path: String) -> Request {
        let Resource { group, plural, kind, .. } = self.resource;
        let version = self.resource.api_version();
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        let probe = probe(&format!("{group}/{plural}"), verb, method, path, &body);
        Request { probe, read: None, is_free: false }
    }

    /// Returns the requests that read one object.
    fn reads(&self, name: &str) -> Vec<Request> {
        let Self { root, collection, .. } = self;
        let selected = format!("fieldSelector=metadata.name%3D{name}");
        let watched = collection.replacen(root, &format!("{root}/watch"), 1);
        let all = [
            ("get", format!("{collection}/{name}")),
            ("list", format!("{collection}?{selected}")),
            ("watch", format!("{collection}?watch=true&timeoutSeconds=1&{selected}")),
            ("watch", format!("{watched}/{name}?timeoutSeconds=1")),
        ];
        let read = |(verb, path)| Request { read: self.id(name), ..self.request(verb, "GET", path) };
        all.into_iter().map(read).collect()
    }

    /// Returns the object of this name, if one of this kind may belong to a machine.
    fn id(&self, name: &str) -> Option<Id> {
        let known = [
            ("cluster.x-k8s.io", "machines"),
            ("cluster.x-k8s.io", "clusters"),
            (BOOTSTRAP, "kubeadmconfigs"),
            (INFRASTRUCTURE, "openstackmachines"),
            ("", "secrets"),
            ("capstan.dev", "machineoperations"),
            REQUESTS,
        ];
        let (group, plural) = known.into_iter().find(|known| self.is(*known))?;
        Some((group, plural, name.to_owned()))
    }

    /// Returns the requests about many objects, or about objects of another namespace. `name` is the one of an own object.
    fn many(&self, name: &str) -> Vec<Request> {
        let Self { resource, root, collection } = self;
        let plural = &resource.plural;
        let all_of_it = format!("{collection}?dryRun=All");
        // The comma is a part of the value, so this selects by the namespace alone.
        let disguised = format!("fieldSelector=metadata.namespace!%3D%5C%2Cmetadata.name%3D{name}");
        let mut all = vec![
            self.request("list", "GET", collection.clone()),
            self.request("list", "GET", format!("{collection}?labelSelector=a%3Db")),
            self.request("list", "GET", format!("{collection}?{disguised}")),
            self.request("watch", "GET", format!("{collection}?watch=true&timeoutSeconds=1")),
            self.request("watch", "GET", format!("{collection}?watch=true&timeoutSeconds=1&{disguised}")),
            Request { is_free: self.is(REQUESTS), ..self.request("create", "POST", all_of_it.clone()) },
            self.request("deletecollection", "DELETE", all_of_it),
            self.request(
                "deletecollection",
                "DELETE",
                format!("{collection}?dryRun=All&fieldSelector=metadata.name%3D{name}"),
            ),
        ];
        if resource.namespaced {
            let elsewhere = format!("{root}/namespaces/elsewhere/{plural}");
            let selected = format!("{root}/{plural}?fieldSelector=metadata.name%3D{name}");
            for path in
                [format!("{root}/{plural}"), selected, elsewhere.clone(), format!("{elsewhere}/{name}")]
            {
                all.push(self.request("elsewhere", "GET", path));
            }
        }
        all
    }

    /// Returns the requests that write one object, and those about its subresources.
    fn writes(&self, name: &str) -> Vec<Request> {
        let one = format!("{}/{name}", self.collection);
        let is_event = self.is(("", "events"));
        let path = format!("{one}?dryRun=All");
        let mut all = vec![
            self.request("update", "PUT", path.clone()),
            Request { is_free: is_event, ..self.request("patch", "PATCH", path.clone()) },
            self.request("delete", "DELETE", path),
        ];
        // An apply that creates an Event is refused by the kind, and not by the authorizer.
        if !is_event {
            let applied = format!("{one}?dryRun=All&fieldManager=matrix");
            all.push(self.request("apply", "PATCH", applied));
        }
        let actions = self.resource.verbs.iter().map(|action| action.name());
        let verbs = [("get", "GET"), ("create", "POST"), ("update", "PUT"), ("patch", "PATCH")];
        for subresource in SUBRESOURCES.into_iter().chain(actions) {
            for (verb, method) in verbs {
                let query = if verb == "get" { "" } else { "?dryRun=All" };
                all.push(self.request(verb, method, format!("{one}/{subresource}{query}")));
            }
        }
        all
    }
}

/// Returns all requests of a machine: reads of each object of both machines, and all others.
fn requests(registry: &Registry, machine: &Machine, other: &Machine) -> Vec<Request> {
    let names = |of: &Machine| -> Vec<String> {
        of.own().into_iter().map(|(_, _, name)| name).chain([format!("{}-first", of.name)]).collect()
    };
    let all: BTreeSet<String> = names(machine).into_iter().chain(names(other)).collect();
    let mut found = Vec::new();
    for resource in registry.stored() {
        let kind = Kind::new(resource);
        let of_kind = |of: &Machine| {
            let own = of.own().into_iter().find(|(group, plural, _)| kind.is((*group, *plural)));
            own.map_or_else(|| of.name.to_owned(), |(_, _, name)| name)
        };
        let (own, foreign) = (of_kind(machine), of_kind(other));
        for name in &all {
            let mut reads = kind.reads(name);
            // The other ways to read an object are tried with the names that the kind has.
            reads.truncate(if [&own, &foreign].contains(&name) { reads.len() } else { 1 });
            found.extend(reads);
        }
        found.extend(kind.many(&own));
        found.extend(kind.writes(&own).into_iter().chain(kind.writes(&foreign)));
    }
    found
}

/// Sends all requests of a machine. Returns their number, and the wrong answers.
async fn walk(registry: &Registry, machine: &Machine, other: &Machine) -> (usize, Vec<String>) {
    let (own, mut wrong, mut read) = (machine.own(), Vec::new(), BTreeSet::new());
    let requests = requests(registry, machine, other);
    for request in &requests {
        let (verdict, code) = machine.caller.verdict(&request.probe).await;
        let is_own = request.read.as_ref().is_some_and(|id| own.contains(id));
        let is_right = match verdict {
            Verdict::Served if is_own => code == 200,
            Verdict::Served => request.is_free,
            Verdict::Forbidden => !is_own && !request.is_free,
            Verdict::Unauthorized | Verdict::Absent | Verdict::Failed => false,
        };
        if is_own {
            read.extend(request.read.clone());
        }
        if !is_right {
            let Probe { method, path, .. } = &request.probe;
            wrong.push(format!("machine {}: {method} {path}: {code}", machine.name));
        }
    }
    assert_eq!(read, own, "each own object was tried");
    (requests.len(), wrong)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tm_11_a_machine_reads_its_own_objects_and_nothing_else_of_any_kind() {
    let scene = MachineScene::start().await;
    let registry = apiserver_registry::registry();
    let [a, b] = &scene.machines;
    let ((sent, wrong_of_a), (_, wrong_of_b)) = tokio::join!(walk(&registry, a, b), walk(&registry, b, a));
    let wrong = [wrong_of_a, wrong_of_b].concat();
    assert!(wrong.is_empty(), "{} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sent > 40 * registry.stored().len(), "only {sent} requests");
    closes_the_bootstrap_secret(&scene).await;
    refuses_the_certificate_of_an_earlier_machine(&scene, &registry).await;
}

/// Gives the Machine `b` a node: its bootstrap Secret is closed, and the request counts.
async fn closes_the_bootstrap_secret(scene: &MachineScene) {
    let MachineScene { admin, machines: [_, b], .. } = scene;
    let closed = "capstan_machine_bootstrap_reads_total{result=\"closed\"}";
    assert!(admin.text("/metrics").await.contains(&format!("{closed} 0\n")));
    let path = format!("{CORE}/machines/b");
    let (_, mut machine) = admin.json("GET", &path, &json!({})).await;
    machine["status"] = json!({"nodeRef": {"name": "node-b"}});
    let (code, answer) = admin.json("PUT", &format!("{path}/status"), &machine).await;
    assert_eq!(code, 200, "{answer}");
    let secret = format!("/api/v1/namespaces/{TEAM}/secrets/b-data");
    let (code, answer) = b.caller.json("GET", &secret, &json!({})).await;
    assert!(code == 403 && answer.to_string().contains("the Machine has a node"), "{code} {answer}");
    assert!(admin.text("/metrics").await.contains(&format!("{closed} 1\n")));
}

/// Makes the Machine `a` anew: the certificate of the earlier one gets 401 for each kind, and the new one does not get what
/// the earlier one owned.
async fn refuses_the_certificate_of_an_earlier_machine(scene: &MachineScene, registry: &Registry) {
    let MachineScene { server, admin, machines: [a, _], .. } = scene;
    let path = format!("{CORE}/machines/a");
    let (code, answer) = admin.json("DELETE", &path, &json!({})).await;
    assert_eq!(code, 200, "{answer}");
    // The certificate is judged by the watch cache, which is milliseconds behind the store.
    let begun = Instant::now();
    while a.caller.json("GET", &path, &json!({})).await.0 != 401 {
        assert!(begun.elapsed() < PATIENCE, "the Machine is gone, and its certificate is still accepted");
        tokio::time::sleep(PAUSE).await;
    }
    create(admin, &format!("{CORE}/machines"), &object("a")).await;
    let own = a.own();
    for resource in registry.stored() {
        let kind = Kind::new(resource);
        let name = own.iter().find(|(group, plural, _)| kind.is((*group, *plural)));
        let name = name.map_or("a", |(_, _, name)| name.as_str());
        for request in kind.reads(name) {
            let (verdict, code) = a.caller.verdict(&request.probe).await;
            assert_eq!(verdict, Verdict::Unauthorized, "{}: {code}", request.probe.path);
        }
    }
    assert_eq!(a.caller.json("GET", "/apis", &json!({})).await.0, 401);
    let next = of_machine(server, admin, "a", "a-second").await;
    let operation = format!("/apis/capstan.dev/v1alpha1/namespaces/{TEAM}/machineoperations/{}", a.operation);
    let request = "/apis/certificates.k8s.io/v1/certificatesigningrequests/a-own".to_owned();
    let secret = format!("/api/v1/namespaces/{TEAM}/secrets/a-data");
    for (path, expected) in [(path, 200), (secret, 200), (operation, 403), (request, 403)] {
        let (code, answer) = next.json("GET", &path, &json!({})).await;
        assert_eq!(code, expected, "{path}: {answer}");
    }
}

//! Goldens of trees: objects in YAML, and the lines that they become.
//!
//! With `CAPSTAN_WRITE_GOLDENS=1` the tests write the goldens instead of comparing with them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use apiserver_cli::{ClusterObjects, ConditionFilter, Style, Tree, changes, names, render, view};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Reads the objects of a manifest, as if the API had returned them.
fn objects(path: &Path) -> ClusterObjects {
    let text = std::fs::read_to_string(path).unwrap();
    // Without this, the annotation `y` becomes a boolean.
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
    let mut objects = ClusterObjects::default();
    for document in documents {
        match document["kind"].as_str().unwrap_or_default() {
            "Cluster" => objects.cluster = typed(document),
            "OpenStackCluster" => objects.infrastructure = Some(typed(document)),
            "KubeadmControlPlane" => objects.control_plane = Some(typed(document)),
            "MachineDeployment" => objects.deployments.push(typed(document)),
            "MachineSet" => objects.sets.push(typed(document)),
            "Machine" => objects.machines.push(typed(document)),
            "OpenStackMachine" => objects.servers.push(typed(document)),
            "KubeadmConfig" => objects.configs.push(typed(document)),
            "MachineOperation" => objects.operations.push(typed(document)),
            _ => {}
        }
    }
    objects
}

fn typed<K: DeserializeOwned>(document: Value) -> K {
    serde_json::from_value(document).unwrap()
}

/// Renders a tree in its short and in its complete form.
fn rendered_short_and_whole(path: &Path, now: &str) -> String {
    let now: Timestamp = now.parse().unwrap();
    let tree = Tree::of(&objects(path));
    let lines = |tree: &Tree| render(tree, Style::default(), &ConditionFilter::default(), now).join("\n");
    format!("# short\n{}\n\n# all\n{}\n", lines(&tree.condensed()), lines(&tree))
}

/// Renders a tree of a manifest in each form.
fn rendered(path: &Path, now: &str) -> String {
    let now: Timestamp = now.parse().unwrap();
    let tree = Tree::of(&objects(path));
    let none = ConditionFilter::default();
    let lines = |tree: &Tree, style, filter: &ConditionFilter| render(tree, style, filter, now).join("\n");
    let short = tree.condensed();
    let plain = Style::default();
    let ascii = Style { ascii: true, width: Some(90), color: false };
    let open = ConditionFilter::parse("all!").unwrap();
    format!(
        "# short\n{}\n\n# all\n{}\n\n# ASCII, 90 columns\n{}\n\n# conditions that need attention\n{}\n\n# problems\n{}\n\n# changes\n{}\n",
        lines(&short, plain, &none),
        lines(&tree, plain, &none),
        lines(&short, ascii, &none),
        lines(&short, plain, &open),
        names(&tree).join("\n"),
        changes(&tree).join("\n"),
    )
}

fn compare(golden: &Path, text: &str) {
    if std::env::var("CAPSTAN_WRITE_GOLDENS").is_ok() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(golden, text).unwrap();
    }
    let expected = std::fs::read_to_string(golden).unwrap_or_default();
    assert_eq!(text, expected, "{}", golden.display());
}

/// Compares each manifest of a folder with its golden.
fn compare_all(manifests: &Path, goldens: &str, rendered: fn(&Path) -> String) {
    for entry in std::fs::read_dir(manifests).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_some_and(|it| it == "yaml") && name != "secrets" {
            compare(&directory().join(goldens).join(format!("{name}.txt")), &rendered(&path));
        }
    }
}

#[test]
fn each_fixture_becomes_the_lines_of_its_golden() {
    compare_all(&directory().join("fixtures"), "goldens", |path| rendered(path, "2026-11-26T12:00:00Z"));
}

#[test]
fn json_has_every_object_with_its_conditions_and_the_problems() {
    let tree = Tree::of(&objects(&directory().join("fixtures/no-valid-host.yaml")));
    let text = serde_json::to_string_pretty(&view(&tree)).unwrap() + "\n";
    compare(&directory().join("goldens/no-valid-host.json"), &text);
}

#[test]
fn colours_change_no_character_and_are_absent_without_them() {
    let tree = Tree::of(&objects(&directory().join("fixtures/no-valid-host.yaml")));
    let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
    let lines = |color| {
        let style = Style { color, ..Style::default() };
        render(&tree, style, &ConditionFilter::default(), now).join("\n")
    };
    let (plain, coloured) = (lines(false), lines(true));
    assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}[31m"));
    let mut stripped = coloured;
    for code in ["0", "1", "31", "32", "33", "90"] {
        stripped = stripped.replace(&format!("\u{1b}[{code}m"), "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn control_characters_of_messages_do_not_reach_the_terminal() {
    let mut objects = objects(&directory().join("fixtures/invalid-credentials.yaml"));
    let network = objects.infrastructure.as_mut().unwrap();
    let conditions = network.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions.iter_mut().for_each(|it| it.message = "\u{1b}]0;title\u{7}\r".to_owned());
    let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
    let tree = Tree::of(&objects);
    let all = ConditionFilter::parse("all").unwrap();
    let mut text = render(&tree, Style::default(), &all, now).concat();
    text.push_str(&changes(&tree).concat());
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

/// The recordings are not part of the repository, so the test passes without them.
#[test]
fn recorded_objects_of_upstream_become_the_lines_of_their_goldens() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/upstream/observed/without-lb");
    if recorded.is_dir() {
        compare_all(&recorded, "goldens/upstream", |path| {
            rendered_short_and_whole(path, "2026-11-26T02:10:00Z")
        });
    }
}

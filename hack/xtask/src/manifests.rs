//! Tests of the files in `manifests` that no cluster reads.

use std::process::Command;

use crate::{image, prerequisites, run};

/// Units of systemd, with the programs that they start. The programs are not installed here.
const UNITS: [(&str, &str); 2] =
    [("capstan.service", "/usr/bin/capstan "), ("capstan-etcd.service", "/usr/bin/etcd ")];

/// Highest exposure that `systemd-analyze security` may find, in tenths. A unit without settings has 96.
const EXPOSURE: &str = "--threshold=20";

#[test]
fn systemd_accepts_the_units_and_finds_them_hardened() {
    if !run::is_there("systemd-analyze") {
        return;
    }
    let units = run::root().unwrap().join("manifests/systemd");
    let home = std::env::temp_dir().join(format!("capstan-units-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    for (name, program) in UNITS {
        let unit = std::fs::read_to_string(units.join(name)).unwrap();
        assert!(unit.contains(program), "{name} does not start {program}");
        let path = home.join(name);
        std::fs::write(&path, unit.replace(program, "/bin/true ")).unwrap();
        for arguments in [&["verify"][..], &["security", "--offline=true", EXPOSURE]] {
            let output = Command::new("systemd-analyze").args(arguments).arg(&path).output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&text));
        }
    }
    std::fs::remove_dir_all(home).unwrap();
}

#[test]
fn the_chart_and_the_image_in_the_manifests_have_the_version_of_the_workspace() {
    let manifests = run::root().unwrap().join("manifests");
    let version = image::version().unwrap();
    for (file, line) in [
        ("chart/Chart.yaml", format!("version: {version}")),
        ("chart/Chart.yaml", format!("appVersion: {version}")),
        ("base/workload.yaml", format!("image: capstan:{version}")),
    ] {
        let text = std::fs::read_to_string(manifests.join(file)).unwrap();
        assert!(text.lines().any(|found| found.trim() == line), "{file} has no line {line:?}");
    }
}

#[test]
fn hv_11_configurations_of_several_replicas_spread_the_connections_of_clients() {
    let manifests = run::root().unwrap().join("manifests");
    for file in
        ["overlays/ha-etcd/config.yaml", "overlays/external-etcd/config.yaml", "chart/files/config.yaml"]
    {
        let text = std::fs::read_to_string(manifests.join(file)).unwrap();
        assert!(text.contains("\n  goawayChance: 0.001\n"), "{file} sets no limits.goawayChance");
    }
}

/// Head of the alerts as an object of the Prometheus Operator.
const RULE: &str =
    "# Written by `CAPSTAN_WRITE_GOLDENS=1 cargo test --package xtask alert`: the alerts of rules.yaml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: capstan
  namespace: capstan-system
spec:
";

#[test]
fn the_prometheus_operator_gets_each_alert() {
    let directory = run::root().unwrap().join("manifests/prometheus");
    let rules = std::fs::read_to_string(directory.join("rules.yaml")).unwrap();
    let lines = rules.lines().filter(|line| !line.starts_with('#'));
    let expected = lines.fold(RULE.to_owned(), |text, line| format!("{text}  {line}\n"));
    let path = directory.join("prometheusrule.yaml");
    if std::env::var_os("CAPSTAN_WRITE_GOLDENS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "prometheusrule.yaml differs from rules.yaml; its first line has the remedy");
}

#[test]
fn each_alert_fires_in_its_case_and_none_in_a_healthy_installation() {
    let directory = run::root().unwrap().join("manifests/prometheus");
    let rules = std::fs::read_to_string(directory.join("rules.yaml")).unwrap();
    let cases = ["tests.yaml", "tests-of-days.yaml"];
    let tests = cases.map(|file| std::fs::read_to_string(directory.join(file)).unwrap()).concat();
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in alerts {
        assert!(tests.contains(&format!("- name: {alert}\n")), "{alert} has no case");
    }
    let promtool = prerequisites::promtool().unwrap();
    let test = cases.map(|file| ["test", "rules", file]);
    for arguments in [["check", "rules", "rules.yaml"]].into_iter().chain(test) {
        let output = Command::new(&promtool).args(arguments).current_dir(&directory).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
        );
    }
}

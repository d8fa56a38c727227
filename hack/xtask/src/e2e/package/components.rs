//! Components of `manifests/components`, and the values of the chart that mean the same.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::Packaged;
use super::rendered::{self, Objects, SHAPES, Shape};
use crate::run;

/// Component, and the words for Helm that mean the same. `OIDC` stands for the path of a file.
pub(super) struct Component {
    pub(super) folder: &'static str,
    values: &'static [&'static str],
}

/// Place of the path of the component `oidc` in the words.
const OIDC: &str = "OIDC";

/// Component that a scenario serves with.
pub(super) const DIRECT: Component = Component {
    folder: "direct",
    values: &["--set", "direct.enabled=true", "--set", "config.serverNames={capstan.example.org}"],
};

/// All components that an operator can add to an overlay.
pub(super) const COMPONENTS: [Component; 9] = [
    DIRECT,
    Component {
        folder: "keystone",
        values: &["--set", "config.keystone.authURL=https://keystone.example.org:5000/v3"],
    },
    Component {
        folder: "oidc",
        values: &[
            "--set",
            "config.authenticationConfigFile=/etc/capstan/config/authentication.yaml",
            "--set-file",
            OIDC,
        ],
    },
    Component {
        folder: "backup-s3",
        values: &[
            "--set",
            "secrets[0].name=capstan-backup,secrets[0].mountPath=/etc/capstan/backup",
            "--set-json",
            r#"config.backup={"keyFile": "/etc/capstan/backup/backup.key",
                "s3": {"credentialsFile": "/etc/capstan/backup/credentials"}, "schedule": {"every": "1h",
                "to": ["s3://capstan/prod?endpoint=https://s3.example.org"]}}"#,
        ],
    },
    Component { folder: "mirror", values: &["--set", "mirror.enabled=true"] },
    Component { folder: "ca-bundle", values: &["--set", "host.writeCABundle=true"] },
    Component { folder: "crds", values: &["--set", "host.writeCRDs=true"] },
    Component { folder: "namespaces", values: &["--set", "host.createNamespaces=true"] },
    Component { folder: "monitoring", values: &["--set", "monitoring.enabled=true"] },
];

/// Kinds of the Prometheus Operator, whose CRDs a host without it does not have.
pub(super) const FOREIGN: [&str; 2] = ["PodMonitor", "PrometheusRule"];

/// Secret of a component. An installation by Helm has it already.
const EXISTING: &str = "capstan-backup";

/// Credentials in the form of the AWS tools. No bucket knows them.
const CREDENTIALS: &str = "[default]\naws_access_key_id = lab\naws_secret_access_key = lab\n";

/// Creates the files that the components need and that are in no repository.
pub(super) fn prepare(capstan: &Path, manifests: &Path) -> anyhow::Result<()> {
    let backup = manifests.join("keys/backup");
    run::output(Command::new(capstan).args(["backup", "key"]).arg(backup.join("backup.key")))?;
    std::fs::write(backup.join("credentials"), CREDENTIALS).context("the credentials of the component")
}

/// Renders an overlay with components, as an overlay of an operator does.
pub(super) fn kustomize(
    packaged: &Packaged<'_>,
    shape: &Shape,
    components: &[&Component],
) -> anyhow::Result<Objects> {
    let names: Vec<&str> = components.iter().map(|it| it.folder).collect();
    let name = format!("own-{}-{}", shape.overlay, names.join("-"));
    let own = packaged.manifests.join("overlays").join(name);
    let lines: String = names.iter().map(|name| format!("- ../../components/{name}\n")).collect();
    let text = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- ../{}\n\
         components:\n{lines}",
        shape.overlay
    );
    std::fs::create_dir_all(&own)?;
    std::fs::write(own.join("kustomization.yaml"), text)?;
    rendered::kustomize(&packaged.lab.tools.kubectl, &own)
}

/// Renders the chart with the values that mean the same as a component.
fn helm(packaged: &Packaged<'_>, shape: &Shape, component: &Component) -> anyhow::Result<Objects> {
    let file = packaged.manifests.join("components/oidc/authentication.yaml");
    let file = format!("files.authentication\\.yaml={}", file.display());
    let words = component.values.iter().map(|&word| if word == OIDC { file.as_str() } else { word });
    rendered::helm(&packaged.manifests, shape, &words.collect::<Vec<_>>())
}

/// Scenario: for each shape and component, kustomize and Helm render the same.
pub(super) fn same_objects(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    for shape in SHAPES {
        for component in &COMPONENTS {
            let differ =
                || format!("overlay {} with component {}, and the chart", shape.overlay, component.folder);
            let overlay =
                kustomize(packaged, &shape, &[component]).with_context(differ)?.without_name(EXISTING);
            let chart = helm(packaged, &shape, component).with_context(differ)?;
            overlay.normalized()?.compare(&chart.normalized()?).with_context(differ)?;
        }
    }
    Ok(())
}

/// Scenario: the host accepts the objects that each component adds to each overlay or changes in it.
pub(super) fn accepted(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    for shape in SHAPES {
        let plain = packaged.overlay(&shape)?;
        for component in &COMPONENTS {
            let objects =
                kustomize(packaged, &shape, &[component])?.differing(&plain).without_kinds(&FOREIGN);
            packaged
                .apply("component", &objects, &["--dry-run=server", "--validate=strict"])
                .with_context(|| format!("overlay {} with component {}", shape.overlay, component.folder))?;
        }
    }
    Ok(())
}

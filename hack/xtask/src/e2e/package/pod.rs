//! A rendered Pod template as a process: its args, its env, and a folder with its mounted files.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::rendered::Objects;

/// Texts and their replacements: addresses that the lab does not have.
pub(super) type Replacements = [(String, String)];

/// Pod template with one container.
pub(super) struct Pod<'a> {
    spec: &'a Value,
    container: &'a Value,
}

impl<'a> Pod<'a> {
    /// Returns the template of the Deployment or StatefulSet with this name.
    pub(super) fn of(objects: &'a Objects, name: &str) -> anyhow::Result<Self> {
        let workload = objects.find("Deployment", name).or_else(|_| objects.find("StatefulSet", name))?;
        let spec = workload.pointer("/spec/template/spec").context("the workload has no Pod template")?;
        let container = spec.pointer("/containers/0").context("the Pod has no container")?;
        Ok(Self { spec, container })
    }

    /// Creates the mounted files below `root`, as the kubelet does. `projected` has the files that only a host with
    /// controllers has.
    pub(super) fn mount(
        &self,
        objects: &Objects,
        root: &Path,
        replacements: &Replacements,
        projected: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        for mount in self.mounts()? {
            let text = |field: &str| mount.get(field).and_then(Value::as_str);
            let (volume, path) = (text("name").unwrap_or_default(), text("mountPath").unwrap_or_default());
            let target = root.join(path.trim_start_matches('/'));
            let files = self.files(objects, volume, projected)?;
            let write = |target: &Path, content: &[u8]| {
                let mut content = content.to_vec();
                if let Ok(text) = std::str::from_utf8(&content) {
                    content = self.in_root(root, &replaced(text, replacements))?.into_bytes();
                }
                std::fs::create_dir_all(target.parent().unwrap_or(root))?;
                std::fs::write(target, content).with_context(|| format!("{}", target.display()))
            };
            match text("subPath") {
                Some(key) => {
                    let file = files.iter().find(|(name, _)| name == key);
                    let (_, content) = file.with_context(|| format!("volume {volume} has no file {key}"))?;
                    write(&target, content)?;
                }
                None => {
                    std::fs::create_dir_all(&target)?;
                    for (name, content) in &files {
                        write(&target.join(name), content)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn mounts(&self) -> anyhow::Result<&'a [Value]> {
        let mounts = self.container.get("volumeMounts").and_then(Value::as_array);
        mounts.map(Vec::as_slice).context("the container mounts nothing")
    }

    /// Returns the files of a volume. A volume that the Pod writes to has none.
    fn files(
        &self,
        objects: &Objects,
        volume: &str,
        projected: &[(&str, &str)],
    ) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let volumes = self.spec.get("volumes").and_then(Value::as_array);
        let named = |it: &&Value| it.get("name").and_then(Value::as_str) == Some(volume);
        // A claim of a StatefulSet is no volume of its template.
        let Some(found) = volumes.into_iter().flatten().find(named) else { return Ok(Vec::new()) };
        let text = |path: &str| found.pointer(path).and_then(Value::as_str);
        let (object, is_secret) = match (text("/secret/secretName"), text("/configMap/name")) {
            (Some(name), _) => (objects.find("Secret", name)?, true),
            (None, Some(name)) => (objects.find("ConfigMap", name)?, false),
            (None, None) if found.get("projected").is_some() => {
                let files = projected.iter().map(|&(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
                return Ok(files.collect());
            }
            (None, None) if found.get("emptyDir").is_some() => return Ok(Vec::new()),
            (None, None) => bail!("volume {volume} has a kind that the lab does not have"),
        };
        let data = object.get("data").and_then(Value::as_object).context("the object has no data")?;
        let file = |(name, value): (&String, &Value)| {
            let text = value.as_str().unwrap_or_default();
            let content = if is_secret { STANDARD.decode(text.replace('\n', ""))? } else { text.into() };
            anyhow::Ok((name.clone(), content))
        };
        data.iter().map(file).collect()
    }

    /// Replaces the paths of mounts by those below `root`.
    fn in_root(&self, root: &Path, text: &str) -> anyhow::Result<String> {
        let paths = self.mounts()?.iter().filter_map(|mount| mount.get("mountPath")?.as_str());
        let paths: Vec<PathBuf> = paths.map(PathBuf::from).collect();
        let is_top = |path: &&PathBuf| !paths.iter().any(|other| other != *path && path.starts_with(other));
        let mut text = text.to_owned();
        for path in paths.iter().filter(is_top) {
            text =
                text.replace(&path.display().to_string(), &format!("{}{}", root.display(), path.display()));
        }
        Ok(text)
    }

    /// Returns the words of `args` or `command`, with the variables of this Pod.
    pub(super) fn arguments(&self, root: &Path, field: &str, pod: &str) -> anyhow::Result<Vec<String>> {
        let words = self.container.get(field).and_then(Value::as_array);
        let words = words.with_context(|| format!("the container has no {field}"))?;
        let variables = self.environment(pod)?;
        let expand = |word: &Value| {
            let mut word = word.as_str().unwrap_or_default().to_owned();
            for (name, value) in &variables {
                word = word.replace(&format!("$({name})"), value);
            }
            self.in_root(root, &word)
        };
        words.iter().map(expand).collect()
    }

    /// Returns the variables of the container, in the Pod with this name.
    pub(super) fn environment(&self, pod: &str) -> anyhow::Result<Vec<(String, String)>> {
        let variables = self.container.get("env").and_then(Value::as_array);
        let value = |variable: &Value| {
            let name = variable.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(value) = variable.get("value").and_then(Value::as_str) {
                return Ok((name, value.to_owned()));
            }
            match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
                Some("metadata.name") => Ok((name, pod.to_owned())),
                _ => bail!("the lab does not know the source of the variable {name}"),
            }
        };
        variables.into_iter().flatten().map(value).collect()
    }

    /// Returns the path of a probe.
    pub(super) fn probe(&self, field: &str) -> anyhow::Result<&'a str> {
        let path = self.container.pointer(&format!("/{field}/httpGet/path")).and_then(Value::as_str);
        path.with_context(|| format!("the container has no {field}"))
    }
}

/// Replaces each text.
pub(super) fn replaced(text: &str, replacements: &Replacements) -> String {
    replacements.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

//! Contents of files and passwords that are in Secrets.
//!
//! A missing Secret is looked for in an interval, and not watched. A watch needs the permission to list the Secrets of
//! all namespaces, in a host cluster those of all its users. Only a KubeadmConfig without data waits for a Secret: later
//! changes have no effect on its machine.

use apiserver_types::{
    BootstrapFile, BootstrapUser, Cluster, FileContentFormat, KubeadmConfigSpec, SecretKeySource,
};
use controllers_bootstrap::File;
use controllers_bootstrap::template::{self, Values};
use controllers_runtime::ControllerContext;

use super::stop::{Failure, SECRET};
use crate::templates;

/// Returns the failure of a Secret without the content, with its remedy.
fn missing(cause: &str, source: &SecretKeySource) -> Failure {
    Failure::missing_content(format!(
        "{cause}. Create the Secret with the key {:?}; it is looked for every {} seconds",
        source.key,
        SECRET.as_secs()
    ))
}

/// Reader of contents for one KubeadmConfig.
pub(super) struct Contents<'a> {
    pub context: &'a ControllerContext,
    /// Namespace of the KubeadmConfig and its Secrets.
    pub namespace: &'a str,
    pub cluster: &'a Cluster,
}

impl Contents<'_> {
    /// Returns the files of a spec, with their contents.
    pub(super) async fn files(&self, spec: &KubeadmConfigSpec) -> Result<Vec<File>, Failure> {
        let mut files = Vec::new();
        for (index, file) in spec.files.iter().flatten().enumerate() {
            files.push(self.file(index, file).await?);
        }
        Ok(files)
    }

    async fn file(&self, index: usize, file: &BootstrapFile) -> Result<File, Failure> {
        let field = if file.content_from.is_some() { "contentFrom.secret" } else { "content" };
        let about = format!("spec.files[{index}].{field} ({})", file.path);
        let content = match &file.content_from {
            Some(source) => self.read(&source.secret, &about).await?,
            None => file.content.clone().unwrap_or_default().into_bytes(),
        };
        let content = match file.content_format {
            Some(FileContentFormat::Template) => {
                let source = file.content_from.as_ref().map(|source| &source.secret);
                self.rendered(&about, source, content).await?
            }
            _ => content,
        };
        Ok(File {
            path: file.path.clone(),
            content,
            encoding: file.encoding,
            owner: file.owner.clone(),
            permissions: file.permissions.clone(),
            append: file.append,
        })
    }

    /// Renders a content that is a template. Errors begin with `about`, and name the key that it was read from.
    async fn rendered(
        &self,
        about: &str,
        source: Option<&SecretKeySource>,
        content: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let key = source.map(|it| format!(" of Secret {}/{}, key {:?},", self.namespace, it.name, it.key));
        let key = key.unwrap_or_default();
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::data(format!("{about}: the template{key} is not valid: {error}"))
        };
        let template = String::from_utf8(content).map_err(|error| wrong(&error))?;
        let values = Values { control_plane_version: self.control_plane_version().await? };
        let text = template::render(&template, &values).map_err(|error| wrong(&error))?;
        Ok(text.into_bytes())
    }

    /// Returns the version of the object that manages the control plane, with a leading `v`.
    async fn control_plane_version(&self) -> Result<Option<String>, Failure> {
        let Some(reference) = &self.cluster.spec.control_plane_ref else { return Ok(None) };
        let object = templates::read(self.context, self.namespace, reference)
            .await?
            .ok_or_else(|| Failure::data(format!("{} {} does not exist", reference.kind, reference.name)))?;
        let version = object.data.pointer("/spec/version").and_then(|version| version.as_str());
        let version = version.filter(|version| !version.is_empty());
        Ok(version.map(|version| format!("v{}", version.trim_start_matches('v'))))
    }

    /// Returns the users of a spec, with their passwords.
    pub(super) async fn users(&self, spec: &KubeadmConfigSpec) -> Result<Vec<BootstrapUser>, Failure> {
        let mut users = spec.users.clone().unwrap_or_default();
        for (index, user) in users.iter_mut().enumerate() {
            let Some(source) = user.passwd_from.take() else { continue };
            let about = format!("spec.users[{index}].passwdFrom.secret ({})", user.name);
            let password = self.read(&source.secret, &about).await?;
            let text = String::from_utf8(password)
                .map_err(|_| Failure::data(format!("{about}: the password hash is not UTF-8")))?;
            user.passwd = Some(text);
        }
        Ok(users)
    }

    /// Reads a key of a Secret. Errors begin with `about`.
    async fn read(&self, source: &SecretKeySource, about: &str) -> Result<Vec<u8>, Failure> {
        let (namespace, name) = (self.namespace, &source.name);
        let Some(secret) = self.context.secrets.secret(namespace, name).await? else {
            let cause = format!("{about}: Secret {namespace}/{name} does not exist");
            return Err(missing(&cause, source));
        };
        let value = secret.data.and_then(|mut data| data.remove(&source.key));
        value.map(|value| value.0).ok_or_else(|| {
            let cause = format!("{about}: Secret {namespace}/{name} has no key {:?}", source.key);
            missing(&cause, source)
        })
    }
}

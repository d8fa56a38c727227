//! Users of an Ignition configuration.

use apiserver_types::BootstrapUser;
use serde_json::{Map, Value};

use crate::setup::File;

/// Settings of the SSH daemon before the users with a password. They are those of the image.
const SSH: &str = "Subsystem sftp internal-sftp
ClientAliveInterval 180
UseDNS no
UsePAM yes
PrintLastLog no
PrintMotd no
";

/// Returns the entry of a user.
pub(super) fn user(user: &BootstrapUser) -> Value {
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let groups = user.groups.as_deref().map(|groups| groups.split(", ").map(Value::from).collect());
    let entries = [
        ("name", Some(user.name.as_str().into())),
        ("gecos", text(&user.gecos)),
        ("groups", groups),
        ("homeDir", text(&user.home_dir)),
        ("shell", text(&user.shell)),
        ("passwordHash", text(&user.passwd)),
        ("primaryGroup", text(&user.primary_group)),
        ("sshAuthorizedKeys", user.ssh_authorized_keys.clone().map(Value::from)),
    ];
    let entries = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// Returns the files that users need: their rules of sudo, and the login with a password.
pub(super) fn files(users: &[BootstrapUser]) -> Vec<File> {
    let plain = |path: String, text: String| File { owner: None, ..File::of_root(path, "0600", text) };
    let sudo = users.iter().filter_map(|user| {
        let (name, rule) = (&user.name, user.sudo.as_ref()?);
        Some(plain(format!("/etc/sudoers.d/{name}"), format!("{name} {rule}\n")))
    });
    let mut files: Vec<File> = sudo.collect();
    let unlocked = users.iter().filter(|user| user.lock_password == Some(false));
    let unlocked: Vec<&str> = unlocked.map(|user| user.name.as_str()).collect();
    if !unlocked.is_empty() {
        let names = unlocked.join(",");
        let text = format!("{SSH}Match User {names}\n  PasswordAuthentication yes\n");
        files.push(plain("/etc/ssh/sshd_config".to_owned(), text));
    }
    files
}

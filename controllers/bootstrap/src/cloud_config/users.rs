//! Entries of `users`.

use apiserver_types::BootstrapUser;

use super::yaml::Node;

/// Returns the users. With none, the key is left out: it would suppress the distribution's default user.
pub(super) fn users(users: &[BootstrapUser]) -> Option<Node> {
    (!users.is_empty()).then(|| Node::List(users.iter().map(user).collect()))
}

fn user(user: &BootstrapUser) -> Node {
    let text = |text: &Option<String>| text.as_deref().map(Node::text);
    let keys = user.ssh_authorized_keys.as_deref().filter(|keys| !keys.is_empty());
    let entries = [
        ("name", Some(Node::text(&user.name))),
        ("passwd", text(&user.passwd)),
        ("gecos", text(&user.gecos)),
        ("groups", text(&user.groups)),
        ("homedir", text(&user.home_dir)),
        ("inactive", user.inactive.map(Node::Flag)),
        ("lock_passwd", user.lock_password.map(Node::Flag)),
        ("shell", text(&user.shell)),
        ("primary_group", text(&user.primary_group)),
        ("sudo", text(&user.sudo)),
        ("ssh_authorized_keys", keys.map(Node::texts)),
    ];
    Node::Map(entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

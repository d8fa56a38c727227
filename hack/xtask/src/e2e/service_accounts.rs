//! Service accounts of Capstan, behind a real host that has service accounts of its own.

use anyhow::ensure;

use super::host_data::list_with_token;
use super::lab::{Lab, until};

const ROBOT: &str = "robot-of-capstan";

const NAMESPACE: &str = "capstan-system";

/// kubectl issues a token, a binding gives it permissions, and it ends with its account. The host's namespaces have no
/// accounts of Capstan, and the host's account of the same name is refused.
pub(super) fn tokens(lab: &Lab) -> anyhow::Result<()> {
    let refused = lab.try_kubectl("direct", &["create", "serviceaccount", ROBOT, "-n", "team"])?;
    ensure!(!refused.0 && refused.2.contains("only namespace capstan-system"), "{}", refused.2);
    lab.kubectl("direct", &["create", "serviceaccount", ROBOT, "-n", NAMESPACE])?;
    let token = lab.kubectl("direct", &["create", "token", ROBOT, "-n", NAMESPACE])?;
    let (code, found) = list_with_token(lab, token.trim())?;
    ensure!(
        code == "403" && found.contains(&format!("system:serviceaccount:{NAMESPACE}:{ROBOT}")),
        "{found}"
    );
    let account = format!("--serviceaccount={NAMESPACE}:{ROBOT}");
    lab.kubectl("direct", &["create", "rolebinding", ROBOT, "-n", "team", "--clusterrole=view", &account])?;
    until("the binding gives its permissions", || Ok(list_with_token(lab, token.trim())?.0 == "200"))?;

    lab.kubectl("admin", &["create", "serviceaccount", ROBOT, "-n", NAMESPACE])?;
    let of_host = lab.kubectl("admin", &["create", "token", ROBOT, "-n", NAMESPACE])?;
    let (code, found) = list_with_token(lab, of_host.trim())?;
    ensure!(code == "401", "the host's account of the same name is another one: {code} {found}");

    lab.kubectl("direct", &["delete", "serviceaccount", ROBOT, "-n", NAMESPACE])?;
    let (code, found) = list_with_token(lab, token.trim())?;
    ensure!(code == "401", "the account is gone: {code} {found}");
    lab.kubectl("direct", &["delete", "rolebinding", ROBOT, "-n", "team"])?;
    lab.kubectl("admin", &["delete", "serviceaccount", ROBOT, "-n", NAMESPACE]).map(|_| ())
}

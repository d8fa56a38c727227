//! Test of the program's command line. With it, a build of all tests builds the program, too.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn a_user_has_a_name_a_realm_a_number_of_tasks_and_a_kubeconfig() {
    let form = "NAME:REALM:TASKS:KUBECONFIG";
    for (identity, expected) in
        [("a:own:1", form), ("a:own:many:/k", form), ("a:mine:1:/k", "\"mine\" is no realm")]
    {
        let mut program = Command::new(env!("CARGO_BIN_EXE_outage"));
        program.args(["--cloud", "127.0.0.1:1", "--home", ".", "--manifest", "m", "--admin", "k"]);
        let output = program.args(["--identity", identity]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(expected), "{error}");
    }
}

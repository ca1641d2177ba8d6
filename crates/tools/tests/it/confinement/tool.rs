//! The tools, when a guard confines what they run.

use std::net::IpAddr;
use std::sync::Arc;

use bowline_llm::CallId;
use bowline_tools::guard::{Confinement, Guard, Network, Reach, Want};
use bowline_tools::{Bash, GitStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::desk::{Desk, failure};

/// Confines every command.
#[derive(Debug)]
struct Confines(Confinement);

impl Guard for Confines {
    fn check(&self, _: &CallId, _: &std::path::Path, _: Want) -> Result<(), String> {
        Ok(())
    }

    fn check_host(&self, _: &CallId, _: &str) -> Result<Reach, String> {
        Ok(Reach::Public)
    }

    fn names(&self, _: IpAddr) -> bool {
        false
    }

    fn confinement(&self, _: &CallId, command: &str) -> Result<Option<Confinement>, String> {
        match command.contains("forbidden") {
            true => Err("the rules say no".to_owned()),
            false => Ok(Some(self.0.clone())),
        }
    }
}

fn desk(network: Network) -> Desk {
    let mut desk = Desk::new();
    let writable = vec![desk.workspace.cwd.clone()];
    let confinement = Confinement { writable, network, ..Confinement::default() };
    desk.workspace.guard = Arc::new(Confines(confinement));
    desk
}

async fn bash(desk: &Desk, command: &str) -> String {
    let bash = Bash::new(desk.workspace.clone(), Arc::default());
    desk.call(bash, json!({ "command": command })).await.unwrap()
}

#[tokio::test]
async fn a_denial_is_explained_with_the_way_to_allow_it() {
    let desk = desk(Network::None);
    let outside = desk.root.path().canonicalize().unwrap().join("x");
    let outside = outside.display();
    let cwd = desk.workspace.cwd.display();
    let text = bash(&desk, &format!("touch {outside}")).await;
    assert_eq!(
        text,
        format!(
            "touch: cannot touch '{outside}': Read-only file system\n[exit code 1]\n\
             [this ran in the sandbox, which may be why: {cwd} and $TMPDIR can be written, there is no \
             network; the user can allow more: --add-dir DIR, --allow 'write({outside})', --allow \
             'net(HOST)', --sandbox off]"
        )
    );
    // Neither what has failed for another reason, nor what has not failed.
    assert_eq!(bash(&desk, "exit 3").await, "[exit code 3]");
    assert_eq!(bash(&desk, "echo Permission denied").await, "Permission denied\n");
}

#[tokio::test]
async fn a_host_that_was_refused_is_named() {
    let desk = desk(Network::Hosts(vec!["a.example".to_owned()]));
    let ask = "exec 3<> /dev/tcp/127.0.0.1/3128; printf 'CONNECT b.example:443 HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3 >&2; exit 1";
    let text = bash(&desk, ask).await;
    let expected = "HTTP/1.1 403 Forbidden\r\n[exit code 1]\n\
        [blocked: b.example; the sandbox does not let commands talk to it; --allow 'net(b.example)' would]";
    assert_eq!(text, expected);
    // What was asked for in vain is a fact, also if the command could do without.
    let text = bash(&desk, &ask.replace("exit 1", "exit 0")).await;
    assert_eq!(text, expected.replace("[exit code 1]\n", ""));
    let proxies = bash(&desk, "echo $HTTP_PROXY $https_proxy").await;
    assert_eq!(proxies, "http://127.0.0.1:3128 http://127.0.0.1:3128\n");
}

#[tokio::test]
async fn a_confined_command_has_a_temporary_folder_of_its_own() {
    let desk = desk(Network::None);
    let text =
        bash(&desk, "echo $BOWLINE_SANDBOX; [ $TMPDIR = $TMP ] && stat -c %a $TMPDIR && mktemp")
            .await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["workspace-write", "700"]);
    let made = std::path::Path::new(lines[2]);
    assert!(made.starts_with(desk.workspace.scratch.canonicalize().unwrap()) && made.exists());
    assert_eq!(bash(&desk, "ls $TMPDIR | wc -l").await, "1\n");
    desk.workspace.end_session(desk.cx.session, std::time::Duration::ZERO).await;
    assert!(!made.exists());
}

#[tokio::test]
async fn what_the_rules_forbid_is_not_run() {
    let desk = desk(Network::None);
    let tool = Bash::new(desk.workspace.clone(), Arc::default());
    let text = failure(desk.call(tool, json!({ "command": "touch forbidden" })).await);
    assert_eq!(text, "the rules say no");
    assert!(!desk.path("forbidden").exists());
}

#[tokio::test]
async fn programs_that_tools_run_are_confined_as_well() {
    let desk = desk(Network::None);
    desk.put(".git/HEAD", "ref: refs/heads/main\n");
    for folder in [".git/objects", ".git/refs"] {
        std::fs::create_dir_all(desk.path(folder)).unwrap();
    }
    let outside = desk.root.path().canonicalize().unwrap().join("x");
    // A filter is a program that the repository names.
    desk.put(
        ".git/config",
        format!("[filter \"f\"]\nclean = \"cat; touch {}\"\n", outside.display()),
    );
    desk.put(".gitattributes", "* filter=f\n");
    desk.put("a", "1");
    let _ = desk.call(GitStatus(desk.workspace.clone()), json!({})).await.unwrap();
    assert!(!outside.exists());
}

//! What commands do every day, and can do confined as well.

use std::os::unix::fs::MetadataExt as _;

use pretty_assertions::assert_eq;

use super::cell::Cell;

#[tokio::test]
async fn a_command_works_in_its_folder() {
    for cell in Cell::all() {
        let script =
            "mkdir -p a/b && echo 1 > a/b/c && mv a/b/c d && ln d e && rm d && cat e && pwd";
        let done = cell.bash(script).await;
        assert_eq!(done.is_done(), format!("1\n{}", cell.work().display()));
        let owner = cell.work().metadata().unwrap().uid();
        let done = cell
            .bash("id -u; stat -c %u .; touch x; stat -c %u x; chmod 600 x; touch -d 2020-01-01 x")
            .await;
        assert_eq!(done.is_done(), format!("{owner}\n{owner}\n{owner}"), "{}", cell.kind);
    }
}

#[tokio::test]
async fn what_programs_expect_of_a_machine_is_there() {
    for cell in Cell::with_namespaces() {
        let script = "head -c 3 /dev/urandom | wc -c; echo a > /dev/null; cat <(echo b); echo c | tee -a /dev/stderr;
            : > /dev/shm/x; ls /dev/shm; script -qec 'echo d > /dev/tty' /dev/null < /dev/null | tr -d '\\r'";
        assert_eq!(cell.bash(script).await.is_done(), "3\nb\nc\nc\nx\nd");
        cell.bash("echo a > /dev/stdout; echo b > /dev/stderr").await.is_done();
    }
    for cell in Cell::all() {
        assert_eq!(
            cell.bash("echo a > /dev/null; cat <(echo b); echo c >> /dev/stderr").await.is_done(),
            "b\nc"
        );
    }
}

#[tokio::test]
async fn a_command_has_three_files_open_and_no_more() {
    for cell in Cell::all() {
        // The fourth is the folder that is being listed.
        assert_eq!(
            cell.python("import os; print(os.listdir('/proc/self/fd'))").await.is_done(),
            "['0', '1', '2', '3']"
        );
    }
}

#[tokio::test]
async fn git_works_but_for_what_is_protected() {
    for mut cell in Cell::all() {
        let done = "export HOME=$PWD; git init -q . && git config user.email a@b.example && git config user.name a";
        cell.bash(&format!("{done} && touch f && git add f && git commit -qm a")).await.is_done();
        cell.protect(".git/hooks");
        cell.protect(".git/config");
        // Without namespaces nothing new can be made beside what is protected.
        if cell.kind != "without namespaces" {
            let commit =
                "export HOME=$PWD; echo 1 > f; git commit -qam b && git log --oneline | wc -l";
            assert_eq!(cell.bash(commit).await.is_done(), "2");
        }
        cell.bash("export HOME=$PWD; git config core.pager evil").await.is_kept();
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_confined_is_not_run() {
    let cell =
        Cell::with(bowline_tools::process::Processes::new(bowline_tools::process::Helper::None));
    let refused = cell.try_run(cell.command("/bin/bash", &["-c", "touch x"])).await.unwrap_err();
    let expected =
        "the sandbox cannot be had without the helper process, so the command was not run";
    assert_eq!(refused.to_string(), expected);
    assert!(!cell.work().join("x").exists());
    assert!(!cell.processes.confines());
}

#[tokio::test]
async fn what_the_machine_has_is_really_tried() {
    let cell = Cell::new();
    assert!(cell.processes.confines() && cell.processes.available().confines());
    assert!(cell.processes.available().namespaces);
    for namespaces in ["user", "ipc", "net", "mnt"] {
        let without = Cell::without(namespaces);
        let available = without.processes.available();
        assert!(without.processes.confines() && available.confines(), "{available:?}");
        assert!(!available.namespaces, "{available:?}");
        assert!(available.why.is_some(), "{available:?}");
        // What can be enforced still is.
        without.bash("echo 1 > a").await.is_done();
        without.bash("echo 1 > ../a").await.is_kept();
    }
}

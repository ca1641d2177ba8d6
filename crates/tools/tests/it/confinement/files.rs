//! Files that may not be written, made or seen.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use bowline_tools::process::Processes;
use pretty_assertions::assert_eq;

use super::cell::Cell;
use crate::desk::{helper, until};

#[tokio::test]
async fn nothing_is_written_outside() {
    for cell in Cell::all() {
        let outside = cell.outside("outside", "kept");
        cell.inside("inside", "new");
        symlink(&outside, cell.work().join("link")).unwrap();
        symlink(cell.root(), cell.work().join("up")).unwrap();
        let absolute = outside.display();
        let ways = [
            format!("echo x > {absolute}"),
            format!("echo x >> {absolute}"),
            "echo x > ../outside".to_owned(),
            "echo x > new/../../outside; echo x > ./../outside".to_owned(),
            "echo x > link".to_owned(),
            "echo x > up/outside".to_owned(),
            format!("echo x > /proc/self/root{absolute}"),
            "echo x > /proc/self/cwd/../outside".to_owned(),
            "exec 5< .; echo x > /proc/self/fd/5/../outside".to_owned(),
            "truncate -s 0 ../outside".to_owned(),
            "rm -f ../outside".to_owned(),
            "mv ../outside stolen".to_owned(),
            "mv inside ../outside".to_owned(),
            "ln ../outside hard && echo x > hard".to_owned(),
            "ln inside ../hard".to_owned(),
            "ln -s inside ../soft".to_owned(),
            "mkdir ../folder".to_owned(),
            "mkfifo ../fifo".to_owned(),
            "touch ../made".to_owned(),
            "cp inside ../copied".to_owned(),
            "dd if=inside of=../outside conv=notrunc status=none".to_owned(),
            "echo x > ../out/ended.jsonl".to_owned(),
            "mv ../work ../moved".to_owned(),
            "echo x > /tmp/bowline-escaped".to_owned(),
        ];
        for way in ways {
            cell.bash(&way).await.is_kept();
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
        let mut names: Vec<_> =
            fs::read_dir(cell.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["out", "outside", "work"], "{}", cell.kind);
    }
}

#[tokio::test]
async fn nothing_about_a_file_outside_is_changed() {
    for cell in Cell::with_namespaces() {
        let outside = cell.outside("outside", "kept");
        let before = outside.metadata().unwrap();
        for call in [
            "os.chmod('../outside', 0o777)",
            "os.fchmod(os.open('../outside', os.O_RDONLY), 0o777)",
            "os.chmod('/proc/self/fd/%d' % os.open('../outside', os.O_RDONLY), 0o777)",
            "os.chown('../outside', os.getuid(), os.getgid())",
            "os.utime('../outside', (1, 1))",
            "os.chmod('..', 0o777)",
        ] {
            assert_eq!(cell.errno(call).await, "EROFS", "{}: {call}", cell.kind);
        }
        let after = outside.metadata().unwrap();
        assert_eq!(
            (before.mode(), before.mtime(), before.ctime()),
            (after.mode(), after.mtime(), after.ctime())
        );
    }
}

#[tokio::test]
async fn what_is_protected_stays_as_it_is_and_where_it_is() {
    for mut cell in Cell::all() {
        cell.inside(".git/hooks/pre-commit", "kept");
        cell.inside("a/b/.git/config", "kept");
        cell.inside("settings.json", "kept");
        cell.inside("folder/x", "");
        for name in [".git", "a/b/.git", "settings.json"] {
            cell.protect(name);
        }
        let ways = [
            "echo x > .git/hooks/pre-commit",
            "echo x > .git/hooks/new",
            "chmod 777 .git/hooks/pre-commit && exit 0 || mv .git x",
            "mv .git moved",
            "mv .git moved && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
            "rm -rf .git",
            "mv -T folder .git",
            "ln .git/hooks/pre-commit hard && echo x > hard",
            "ln -sfT folder .git",
            "mv a c",
            "mv a/b c",
            "mv a c && mkdir -p a/b/.git && echo x > a/b/.git/config",
            "rm -rf a",
            "echo x > settings.json",
            "cp folder/x settings.json",
            "mv -f folder/x settings.json",
            "rm -f settings.json",
            "sed -i s/kept/x/ settings.json",
            "truncate -s 0 settings.json",
        ];
        let is_kept = |name: &str| {
            fs::read_to_string(cell.work().join(name)).is_ok_and(|text| text == "kept")
        };
        for way in ways {
            let ran = cell.bash(way).await;
            if !way.contains("chmod") || cell.kind != "without namespaces" {
                ran.is_kept();
            }
            for name in [".git/hooks/pre-commit", "a/b/.git/config", "settings.json"] {
                assert!(is_kept(name), "{}: {way}: {name}", cell.kind);
            }
        }
        // AT_FDCWD twice, and RENAME_EXCHANGE.
        let exchange =
            format!("syscall({}, -100, b'folder', -100, b'.git', 2)", libc::SYS_renameat2);
        assert_ne!(cell.errno(&exchange).await, "done", "{}", cell.kind);
        assert!(is_kept(".git/hooks/pre-commit"));
        cell.bash("echo x > a/b/other || echo x > folder/x").await.is_done();
    }
}

#[tokio::test]
async fn what_is_protected_and_not_there_cannot_be_made() {
    for mut cell in Cell::all() {
        cell.inside("folder/x", "");
        for name in [".bowline", "deep/er/.vscode/settings.json", ".mcp.json"] {
            cell.protect(name);
        }
        for way in [
            "mkdir .bowline && touch .bowline/x",
            "mkdir -p .bowline/skills/evil",
            "touch .bowline/x",
            "echo x > .bowline",
            "ln -sT folder .bowline",
            "mv -T folder .bowline",
            "mv .bowline x && mkdir .bowline",
            "rmdir .bowline",
            "rm -rf .bowline && touch .bowline/x",
            "mkdir -p deep/er/.vscode && touch deep/er/.vscode/settings.json",
            "mkdir deep; mkdir deep/er",
            "mkfifo .mcp.json",
            "echo {} > .mcp.json",
        ] {
            cell.bash(way).await.is_kept();
        }
        if cell.kind != "without namespaces" {
            cell.bash("echo x > new").await.is_done();
        }
        let is_free = || {
            [".bowline", "deep", ".mcp.json"].iter().all(|name| !cell.work().join(name).exists())
        };
        until("nothing is left of what kept the names taken", is_free).await;
        // What somebody else makes there is protected from then on.
        cell.inside(".bowline/config.toml", "kept");
        cell.bash("echo x > .bowline/config.toml").await.is_kept();
        cell.bash("mv .bowline x").await.is_kept();
    }
}

#[tokio::test]
async fn names_stay_taken_for_what_hides_in_the_background() {
    for mut cell in Cell::with_namespaces() {
        cell.protect(".bowline");
        // It has neither the group nor the variables of its command, and another command is there to
        // blame.
        let script = "(env -i setsid bash -c '(sleep 2; mkdir .bowline; touch .bowline/x tried) &' &) ; sleep 0.1";
        let (one, two) = tokio::join!(cell.bash(script), cell.bash("sleep 0.2"));
        one.is_done();
        two.is_done();
        until("it has tried", || cell.work().join("tried").exists()).await;
        assert!(!cell.work().join(".bowline/x").exists(), "{}", cell.kind);
    }
}

#[tokio::test]
async fn names_stay_taken_while_mounts_are_made_anew() {
    for mut cell in Cell::with_namespaces() {
        cell.protect(".bowline");
        cell.inside("settings.json", "old");
        cell.protect("settings.json");
        let script = "touch started; until [ -e go ]; do mkdir -p .bowline; touch .bowline/x; done 2>/dev/null; touch over";
        let job = cell.bash(script);
        let change = async {
            until("the job runs", || cell.work().join("started").exists()).await;
            // Another file takes the place of one that was looked at.
            cell.inside("next", "new");
            fs::rename(cell.work().join("next"), cell.work().join("settings.json")).unwrap();
            cell.bash("true").await.is_done();
            cell.bash("mkdir .bowline/y").await.is_kept();
            cell.bash("touch go").await.is_done();
        };
        let (job, ()) = tokio::join!(job, change);
        job.is_done();
        assert!(!cell.work().join(".bowline/x").exists(), "{}", cell.kind);
        until("the name is free", || !cell.work().join(".bowline").exists()).await;
    }
}

#[tokio::test]
async fn names_stay_taken_when_another_process_ends_that_has_taken_them_too() {
    let mut cell = Cell::new();
    cell.protect(".bowline");
    let first = Processes::new(helper());
    first.start(cell.command("/bin/true", &[])).await.unwrap().exit().await.unwrap();
    assert!(cell.work().join(".bowline").exists(), "the first one keeps it taken");
    let script = "touch started; until [ -e go ]; do mkdir -p .bowline; touch .bowline/x; done 2>/dev/null; touch over";
    let job = cell.bash(script);
    let change = async {
        until("the job runs", || cell.work().join("started").exists()).await;
        first.close().await;
        cell.bash("mkdir .bowline/y").await.is_kept();
        cell.bash("touch go").await.is_done();
    };
    let (job, ()) = tokio::join!(job, change);
    job.is_done();
    assert!(!cell.work().join(".bowline/x").exists());
    until("the last one gives it free", || !cell.work().join(".bowline").exists()).await;
}

#[tokio::test]
async fn a_name_that_was_left_taken_is_taken_over_and_given_free() {
    let mut cell = Cell::new();
    let name = cell.protect(".bowline");
    fs::create_dir(&name).unwrap();
    fs::set_permissions(&name, fs::Permissions::from_mode(0o1755)).unwrap();
    cell.bash("mkdir .bowline/x").await.is_kept();
    until("it is given free", || !name.exists()).await;
    // What somebody has put something in is theirs.
    fs::create_dir(&name).unwrap();
    cell.bash("mv .bowline x").await.is_kept();
    cell.processes.close().await;
    assert!(name.exists());
}

#[tokio::test]
async fn a_link_made_by_a_command_makes_nothing_else_writable() {
    for mut cell in Cell::all() {
        let outside = cell.outside("outside", "kept");
        cell.confinement.writable.push(cell.work().join("build"));
        cell.bash("ln -s .. build").await.is_done();
        cell.bash("echo x > ../outside").await.is_kept();
        cell.bash("echo x > build/outside").await.is_kept();
        assert_eq!(fs::read_to_string(outside).unwrap(), "kept", "{}", cell.kind);
    }
}

#[tokio::test]
async fn a_protected_file_that_is_replaced_outside_is_protected_again() {
    for mut cell in Cell::all() {
        cell.inside("settings.json", "old");
        cell.protect("settings.json");
        cell.bash("echo x > settings.json").await.is_kept();
        cell.inside("next", "kept");
        fs::rename(cell.work().join("next"), cell.work().join("settings.json")).unwrap();
        cell.bash("echo x > settings.json").await.is_kept();
        assert_eq!(fs::read_to_string(cell.work().join("settings.json")).unwrap(), "kept");
    }
}

#[tokio::test]
async fn a_protected_link_leads_where_it_did() {
    for mut cell in Cell::all() {
        cell.inside("real/config", "kept");
        cell.inside("evil/config", "evil");
        symlink("real", cell.work().join(".claude")).unwrap();
        cell.protect(".claude");
        for way in [
            "echo x > .claude/config",
            "echo x > real/config",
            "ln -sfT evil .claude",
            "mv .claude x",
            "rm .claude",
            "mv real x",
        ] {
            cell.bash(way).await.is_kept();
            let text = fs::read_to_string(cell.work().join(".claude/config"));
            assert_eq!(text.unwrap(), "kept", "{}: {way}", cell.kind);
        }
    }
}

#[tokio::test]
async fn a_protected_link_that_leads_nowhere_stays() {
    for mut cell in Cell::all() {
        symlink(".vscode", cell.work().join(".vscode")).unwrap();
        symlink("/etc/passwd/x", cell.work().join(".claude")).unwrap();
        symlink("b", cell.work().join("a")).unwrap();
        symlink("a", cell.work().join("b")).unwrap();
        for name in [".vscode", ".claude", "a/config"] {
            cell.protect(name);
        }
        for way in [
            "rm .vscode; mkdir .vscode; echo x > .vscode/tasks.json",
            "mv .vscode x",
            "ln -sfT evil .claude",
            "rm b; mkdir b; echo x > b/config",
            "rm a; mkdir a; echo x > a/config",
        ] {
            cell.bash(way).await.is_kept();
        }
        let target = |name: &str| fs::read_link(cell.work().join(name)).unwrap();
        assert_eq!(target(".vscode"), Path::new(".vscode"), "{}", cell.kind);
        assert_eq!(target(".claude"), Path::new("/etc/passwd/x"), "{}", cell.kind);
        assert_eq!((target("a"), target("b")), ("b".into(), "a".into()), "{}", cell.kind);
    }
}

#[tokio::test]
async fn a_link_on_the_way_to_something_protected_stays() {
    for mut cell in Cell::all() {
        cell.inside("real/config", "kept");
        cell.inside("evil/config", "evil");
        symlink("real", cell.work().join(".claude")).unwrap();
        cell.protect(".claude/config");
        for way in ["ln -sfT evil .claude", "mv .claude x", "rm .claude", "mv real x"] {
            cell.bash(way).await.is_kept();
            let text = fs::read_to_string(cell.work().join(".claude/config"));
            assert_eq!(text.unwrap(), "kept", "{}: {way}", cell.kind);
        }
    }
}

#[tokio::test]
async fn what_is_hidden_is_not_read() {
    for mut cell in Cell::all() {
        let key = cell.outside("key", "secret");
        cell.inside(".env", "secret");
        fs::create_dir(cell.root().join("keys")).unwrap();
        fs::write(cell.root().join("keys/one"), "secret").unwrap();
        cell.confinement.hidden = vec![key, cell.work().join(".env"), cell.root().join("keys")];
        for way in [
            "cat ../key",
            "cat .env",
            "cat ../keys/one",
            "cat /proc/self/root$PWD/../key",
            "mv .env x; cat x",
            "ln .env x; cat x",
            "cp .env x; cat x",
            "grep -r . .. 2>/dev/null",
        ] {
            let ran = cell.bash(way).await;
            assert!(!ran.text.contains("secret"), "{}: {way}: {}", cell.kind, ran.text);
        }
        assert_eq!(fs::read_to_string(cell.work().join(".env")).unwrap(), "secret");
    }
}

#[tokio::test]
async fn no_file_lends_the_rights_of_its_owner() {
    for cell in Cell::all() {
        cell.inside("program", "");
        for call in [
            "os.chmod('program', 0o4755)",
            "os.chmod('program', 0o2755)",
            "os.fchmod(os.open('program', os.O_RDONLY), 0o4755)",
            "os.open('other', os.O_CREAT | os.O_WRONLY, 0o4755)",
            "os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755)",
            "os.mknod('other', 0o104755)",
        ] {
            assert_eq!(cell.errno(call).await, "EPERM", "{}: {call}", cell.kind);
        }
        // A list of who may do what would let its group execute what its mode does not.
        cell.inside("listed", "");
        assert_eq!(cell.errno("os.chmod('listed', 0o2704)").await, "done");
        for call in [
            "os.setxattr('listed', 'system.posix_acl_access', b'')",
            "os.setxattr('../outside', 'user.x', b'1')",
            "os.setxattr(os.open('listed', os.O_RDONLY), 'user.x', b'1')",
        ] {
            // It goes by two names.
            let told = cell.errno(call).await;
            assert!(told.contains("NOTSUP"), "{}: {call}: {told}", cell.kind);
        }
        let mode = cell.work().join("program").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7000, 0);
    }
}

#[tokio::test]
async fn the_machine_is_not_written() {
    for cell in Cell::all() {
        for path in [
            "/proc/sysrq-trigger",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/vm/drop_caches",
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/self/oom_score_adj",
            "/proc/self/uid_map",
            "/proc/1/oom_score_adj",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/power/state",
            "/dev/mem",
            "/dev/kmsg",
            "/dev/vda",
            "/dev/sda",
            "/dev/tty1",
        ] {
            // Opened as it is, and not made.
            let call = format!("os.open('{path}', os.O_WRONLY)");
            assert_ne!(cell.errno(&call).await, "done", "{}: {path}", cell.kind);
        }
        for way in [
            "mkdir /sys/fs/cgroup/bowline || mkdir /sys/fs/cgroup/unified/bowline",
            "for f in $(find /sys/fs/cgroup -name cgroup.procs -maxdepth 3); do echo $$ > $f && exit 0; done; exit 1",
            "mknod disk b 254 0",
            "mknod disk c 1 1",
            "head -c 1 /dev/vda || head -c 1 /dev/sda || head -c 1 /dev/mem",
        ] {
            cell.bash(way).await.is_kept();
        }
    }
}

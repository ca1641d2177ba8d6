//! Patches of several files: the scenarios in `fixtures/apply-patch`, and what they leave out.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use bowline_agent::tool::{DynTool, ToolError};
use bowline_tools::{ApplyPatch, Edit};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::desk::{Desk, failure};

async fn patch(desk: &Desk, text: &str) -> Result<String, ToolError> {
    desk.call(ApplyPatch::new(desk.workspace.clone()), json!({ "patch": text })).await
}

/// Reads all files below a folder.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}

#[tokio::test]
async fn all_scenarios_end_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/apply-patch");
    let mut count = 0;
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(folder.join("patch.txt")) else { continue };
        let desk = Desk::new();
        for (name, content) in tree(&folder.join("input")) {
            desk.put(&name, content);
        }
        let is_rejected = folder.to_str().unwrap().contains("re") && {
            let name = folder.file_name().unwrap().to_str().unwrap();
            name.contains("rejects") || name.contains("requires")
        };
        let result = patch(&desk, &text).await;
        assert_eq!(result.is_err(), is_rejected, "{}: {result:?}", folder.display());
        assert_eq!(
            tree(&desk.workspace.cwd),
            tree(&folder.join("expected")),
            "{}",
            folder.display()
        );
        count += 1;
    }
    assert_eq!(count, 12);
}

#[tokio::test]
async fn a_patch_can_do_everything_at_once() {
    let desk = Desk::new();
    let old = desk.put("old/name.sh", "#!/bin/sh\necho a\n");
    std::fs::set_permissions(&old, PermissionsExt::from_mode(0o755)).unwrap();
    desk.put("gone", "x\n");
    desk.put("twice", "1\n2\n");
    let text = "*** Begin Patch\n*** Add File: new/deep/file\n+hello\n*** Delete File: gone\n\
                *** Update File: old/name.sh\n*** Move to: new/name.sh\n@@\n-echo a\n+echo b\n\
                *** Update File: twice\n@@\n-1\n+one\n*** Update File: twice\n@@\n-2\n+two\n\
                *** End Patch\n";
    let summary = patch(&desk, text).await.unwrap();
    assert_eq!(summary, "D gone\nA new/deep/file\nA new/name.sh\nD old/name.sh\nM twice");
    let expected = [
        ("new/deep/file", "hello\n"),
        ("new/name.sh", "#!/bin/sh\necho b\n"),
        ("twice", "one\ntwo\n"),
    ];
    let expected =
        expected.map(|(name, content)| (name.to_owned(), content.as_bytes().to_vec())).into();
    assert_eq!(tree(&desk.workspace.cwd), expected);
    assert_eq!(desk.path("new/name.sh").metadata().unwrap().mode() & 0o777, 0o755);
    // What it has written it knows.
    let arguments = json!({ "path": "twice", "old_string": "one", "new_string": "1" });
    desk.call(Edit::new(desk.workspace.clone()), arguments).await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_unless_everything_applies() {
    let desk = Desk::new();
    desk.put("a", "1\n");
    desk.put("b", "1\n");
    let before = tree(&desk.workspace.cwd);
    let text = "*** Begin Patch\n*** Add File: c\n+x\n*** Update File: a\n@@\n-1\n+2\n\
                *** Update File: b\n@@\n-no such line\n+2\n*** End Patch\n";
    let problem = failure(patch(&desk, text).await);
    assert_eq!(problem, "b: chunk 1 of 1: these lines do not occur:\nno such line");
    assert_eq!(tree(&desk.workspace.cwd), before);
    // A file that cannot be written undoes those before it.
    let text = "*** Begin Patch\n*** Update File: a\n@@\n-1\n+2\n*** Delete File: b\n\
                *** Add File: /proc/nowhere/x\n+x\n*** Add File: c\n+x\n*** End Patch\n";
    let problem = failure(patch(&desk, text).await);
    assert!(problem.contains("/proc/nowhere/x"), "{problem}");
    assert!(problem.ends_with("no file was changed"), "{problem}");
    assert_eq!(tree(&desk.workspace.cwd), before);
}

#[tokio::test]
async fn folders_are_no_files() {
    let desk = Desk::new();
    desk.put("folder/file", "x");
    let text = "*** Begin Patch\n*** Delete File: folder\n*** End Patch";
    assert!(failure(patch(&desk, text).await).starts_with("folder is a folder"));
}

#[tokio::test]
async fn access_names_all_files() {
    let desk = Desk::new();
    let tool = std::sync::Arc::new(ApplyPatch::new(desk.workspace.clone()));
    let text =
        "*** Begin Patch\n*** Delete File: a\n*** Update File: b\n*** Move to: c\n*** End Patch";
    let prepared = tool.prepare(&json!({ "input": text }).to_string()).unwrap();
    assert_eq!(prepared.access.writes.paths(), ["a", "b", "c"].map(|name| desk.path(name)));
}

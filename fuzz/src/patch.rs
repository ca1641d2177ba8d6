use std::collections::BTreeSet;
use std::path::PathBuf;

use bowline_agent::visible::name;
use bowline_tools::ApplyPatch;
use serde_json::json;

use crate::CUT;
use crate::desk::Desk;

/// A patch that is refused changes nothing; of one that is applied the answer names exactly what has
/// changed: what was added or modified is there, what was deleted is not.
///
/// The parts are the file `a`, the file `b/c`, and the patch.
pub fn patch(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parts: Vec<&str> = text.splitn(3, CUT).collect();
    let [a, c, patch] = *parts else { return };
    let desk = Desk::with(&[("a", a), ("b/c", c)]);
    let before = desk.files();
    let answer = desk.call(ApplyPatch::new(desk.workspace.clone()), &json!({ "patch": patch }));
    let after = desk.files();
    let Ok(answer) = answer else {
        assert_eq!(before, after, "it was refused");
        return;
    };
    let mut named = BTreeSet::new();
    // Notes on how lines were matched come after the files.
    let files = answer.lines().map_while(|line| line.split_once(' '));
    for (what, path) in files.take_while(|(what, _)| ["A", "D", "M"].contains(what)) {
        // A name that would not be seen as it is is quoted.
        let path = name::read(path).unwrap_or_else(|| path.into());
        let path = desk.path(&path);
        assert_eq!(what != "D", after.contains_key(&path), "{answer}");
        named.insert(path);
    }
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let changed = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    for path in changed {
        assert!(named.contains(path), "{} has changed, says not: {answer}", path.display());
    }
}

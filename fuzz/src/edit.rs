use bowline_tools::Edit;
use serde_json::json;

use crate::CUT;
use crate::desk::Desk;

/// An edit that is refused changes nothing. What is there exactly as it was quoted is replaced and
/// nothing else: where it is there once, and everywhere if all are to be replaced. What is there more
/// than once is left alone if one is to be replaced.
///
/// The parts are the file, the old text, the new one, and anything if all are to be replaced.
pub fn edit(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parts: Vec<&str> = text.splitn(4, CUT).collect();
    let [file, old, new, ref all @ ..] = *parts else { return };
    let all = !all.is_empty();
    let desk = Desk::with(&[("file", file)]);
    let arguments =
        json!({ "path": "file", "old_string": old, "new_string": new, "replace_all": all });
    let answer = desk.call(Edit::new(desk.workspace.clone()), &arguments);
    let files = desk.files();
    assert_eq!(files.len(), 1);
    let after = String::from_utf8(files.into_values().next().unwrap()).unwrap();
    if answer.is_err() {
        assert_eq!(after, file, "it was refused");
        return;
    }
    assert_ne!(after, file, "it says that it changed something");
    // Line ends are adapted to those of the file, which is another law.
    if old.is_empty() || [file, old, new].iter().any(|text| text.contains('\r')) {
        return;
    }
    let places = file.match_indices(old).count();
    if places > 0 {
        assert!(all || places == 1, "which of {places} was meant?");
        assert_eq!(after, file.replace(old, new));
    }
}

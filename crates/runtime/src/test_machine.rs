//! What the tests of several modules work on.

use tempfile::TempDir;

/// Makes a folder with these folders and files in it.
pub(crate) fn folder_with(folders: &[&str], files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for folder in folders {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

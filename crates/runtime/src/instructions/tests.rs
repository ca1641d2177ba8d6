use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

struct Place(TempDir);

impl Place {
    /// A repository with a directory `sub` in which to work, and a folder of the user.
    fn new(files: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for folder in ["repo/.git", "repo/sub/deep", "config"] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        for (path, text) in files {
            std::fs::write(place.path(path), text).unwrap();
        }
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn read(&self) -> Instructions {
        read(&self.path("config"), &self.path("repo/sub"), &|_| None)
    }

    fn told(&self) -> Vec<String> {
        let root = self.0.path().canonicalize().unwrap();
        let short = |path: PathBuf| {
            let path = path.canonicalize().unwrap();
            path.strip_prefix(&root).unwrap().to_string_lossy().into_owned()
        };
        self.read().files.into_iter().map(short).collect()
    }
}

#[test]
fn the_user_comes_first_then_the_root_and_the_nearest_last() {
    let place = Place::new(&[
        ("AGENTS.md", "outside"),
        ("config/AGENTS.md", "user"),
        ("repo/AGENTS.md", "root"),
        ("repo/sub/AGENTS.md", "near\n\n"),
        ("repo/sub/deep/AGENTS.md", "below"),
    ]);
    let read = place.read();
    let tagged = |path: &str, text: &str| {
        format!("<instructions file=\"{}\">\n{text}\n</instructions>\n", place.path(path).display())
    };
    let expected = [
        tagged("config/AGENTS.md", "user"),
        tagged("repo/AGENTS.md", "root"),
        tagged("repo/sub/AGENTS.md", "near"),
    ];
    assert_eq!(read.text, expected.concat());
    assert_eq!(read.notes, Vec::<String>::new());
}

#[test]
fn of_one_directory_one_file_counts() {
    let place = Place::new(&[
        ("repo/AGENTS.override.md", "x"),
        ("repo/AGENTS.md", "x"),
        ("repo/CLAUDE.md", "x"),
        ("repo/sub/CLAUDE.md", "x"),
        ("repo/sub/GEMINI.md", "x"),
    ]);
    assert_eq!(place.told(), ["repo/AGENTS.override.md", "repo/sub/CLAUDE.md"]);
}

#[test]
fn imports_come_before_the_file_once_and_not_in_a_circle() {
    let place = Place::new(&[
        ("repo/AGENTS.md", "See @sub/style.md, and ask @somebody.\n`@a.md`\n```\n@b.md\n```\n"),
        ("repo/a.md", "no"),
        ("repo/b.md", "no"),
        ("repo/sub/style.md", "@more.md @../AGENTS.md"),
        ("repo/sub/more.md", "more"),
        ("repo/sub/AGENTS.md", "@style.md"),
    ]);
    let told = ["repo/sub/more.md", "repo/sub/style.md", "repo/AGENTS.md", "repo/sub/AGENTS.md"];
    assert_eq!(place.told(), told);
    assert_eq!(place.read().notes, Vec::<String>::new());
}

#[test]
fn imports_stay_inside() {
    let place = Place::new(&[
        ("secret.md", "secret"),
        ("config/config.toml", "secret"),
        ("config/AGENTS.md", "@more.md"),
        ("config/more.md", "more"),
        ("repo/AGENTS.md", "@../secret.md @../config/config.toml @link.md"),
    ]);
    std::os::unix::fs::symlink(place.path("secret.md"), place.path("repo/link.md")).unwrap();
    assert_eq!(place.told(), ["config/more.md", "config/AGENTS.md", "repo/AGENTS.md"]);
    let read = place.read();
    assert!(!read.text.contains("secret\n"), "{}", read.text);
    assert_eq!(read.notes.len(), 3);
}

#[test]
fn a_file_that_is_a_link_to_the_outside_is_not_read() {
    let place = Place::new(&[("secret.md", "secret")]);
    std::os::unix::fs::symlink(place.path("secret.md"), place.path("repo/AGENTS.md")).unwrap();
    assert_eq!(place.read().text, "");
    assert_eq!(place.read().notes.len(), 1);
}

#[test]
fn imports_lie_at_most_five_deep() {
    let files: Vec<_> =
        (0..8).map(|n| (format!("repo/{n}.md"), format!("text {n} @{}.md", n + 1))).collect();
    let mut files: Vec<_> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    files.push(("repo/AGENTS.md", "@0.md"));
    let place = Place::new(&files);
    assert_eq!(place.told().len(), 6);
    assert!(place.read().notes[0].contains("5.md is not read"));
}

#[test]
fn a_file_brings_at_most_a_hundred_others_along() {
    let names: Vec<String> = (0..150).map(|number| format!("{number}.md")).collect();
    let imports: String = names.iter().map(|name| format!("@{name} ")).collect();
    let place = Place::new(&[("repo/AGENTS.md", &imports), ("repo/sub/AGENTS.md", "@x.md")]);
    std::fs::write(place.path("repo/sub/x.md"), "x").unwrap();
    for name in &names {
        std::fs::write(place.path("repo").join(name), "x").unwrap();
    }
    assert_eq!(place.told().len(), 103);
    let path = place.path("repo/AGENTS.md");
    let note = format!("{} brings more than 100 files along; those are not read", path.display());
    assert_eq!(place.read().notes, [note]);
}

#[test]
fn what_is_too_long_is_cut_and_the_nearest_stays() {
    let near = "n".repeat(1000);
    let root = "ä".repeat(LIMIT);
    let place = Place::new(&[
        ("config/AGENTS.md", "user"),
        ("repo/AGENTS.md", &root),
        ("repo/sub/AGENTS.md", &near),
    ]);
    let read = place.read();
    assert!(read.text.contains(&near));
    assert!(read.text.contains("more bytes are left out"));
    assert_eq!(read.files.len(), 2);
    assert_eq!(read.notes.len(), 2, "{:?}", read.notes);
    let told: usize = read.text.matches('ä').map(str::len).sum();
    assert_eq!(told, LIMIT - 1000);
}

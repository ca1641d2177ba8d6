use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

/// A repository with a directory `sub` in which to work, and the folders of a user.
struct Home(TempDir);

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(home.path("repo/.git")).unwrap();
        std::fs::create_dir_all(home.path("repo/sub")).unwrap();
        for (path, text) in files {
            home.write(path, text.as_bytes());
        }
        home
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Returns where skills are looked for from a directory.
    fn places(&self, cwd: &str) -> Vec<Place> {
        let vars = [("HOME".to_owned(), self.path("user").display().to_string())].into();
        let folders = Folders {
            system: self.path("etc"),
            config: self.path("config"),
            data: self.path("data"),
            cache: self.path("cache"),
        };
        places(&folders, &Environment { vars, cwd: self.path(cwd) }, false)
    }

    /// Reads the skills as if the project were trusted.
    fn trusted(&self) -> Skills {
        let mut places = self.places("repo/sub");
        places.iter_mut().for_each(|place| place.is_applied = true);
        read(&places)
    }

    /// Reads a skill `x` by itself.
    fn one(&self, text: &str) -> Result<Skill, String> {
        self.write("x/SKILL.md", text.as_bytes());
        read_one(&self.path("x"), None).map_err(|refused| refused.what)
    }

    /// Writes paths as they are below this home, so that texts can be compared.
    fn short(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn on_demand(name: &str, text: &str) -> String {
    format!("---\nname: {name}\ndescription: What {name} does.\n---\n{text}\n")
}

#[test]
fn the_nearest_folder_goes_first_and_the_users_own_last() {
    let home = Home::new(&[]);
    let places = home.places("repo/sub");
    let shown = places.iter().map(|place| home.short(&place.folder.display().to_string()));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "repo/sub/.agents/skills",
            "repo/sub/.bowline/skills",
            "repo/sub/.claude/skills",
            "repo/.agents/skills",
            "repo/.bowline/skills",
            "repo/.claude/skills",
            "user/.agents/skills",
            "config/skills",
            "user/.claude/skills",
        ]
    );
    let applied: Vec<bool> = places.iter().map(|place| place.is_applied).collect();
    assert_eq!(applied, [false, false, false, false, false, false, true, true, true]);
}

#[test]
fn what_lies_in_the_home_folder_is_the_users_also_where_the_work_is_done_there() {
    let home = Home::new(&[("user/.agents/skills/pdf/SKILL.md", &on_demand("pdf", "Own."))]);
    let skills = read(&home.places("user"));
    assert_eq!(skills.all.len(), 1);
    assert_eq!(skills.notes(), Vec::<String>::new());
}

#[test]
fn of_skills_with_one_name_the_first_counts_and_the_others_are_told() {
    let home = Home::new(&[
        ("repo/.claude/skills/pdf/SKILL.md", &on_demand("pdf", "Root.")),
        ("repo/sub/.bowline/skills/pdf/SKILL.md", &on_demand("pdf", "Near.")),
        ("config/skills/pdf/SKILL.md", &on_demand("pdf", "User.")),
        ("config/skills/abc/SKILL.md", &on_demand("abc", "Other.")),
    ]);
    let skills = home.trusted();
    let texts: Vec<_> = skills.all.iter().map(|skill| skill.text.as_str()).collect();
    assert_eq!(texts, ["Other.", "Near."]);
    let behind = "is left out: the one in repo/sub/.bowline/skills/pdf goes before";
    assert_eq!(
        skills.notes().iter().map(|note| home.short(note)).collect::<Vec<_>>(),
        [
            format!("skill pdf in repo/.claude/skills/pdf {behind}"),
            format!("skill pdf in config/skills/pdf {behind}"),
        ]
    );
}

#[test]
fn a_skill_that_is_linked_from_another_place_is_the_same_skill() {
    let home = Home::new(&[
        ("repo/.agents/skills/pdf/SKILL.md", &on_demand("pdf", "Root.")),
        ("user/.claude/skills/x/y", ""),
        ("store/xls/SKILL.md", &on_demand("xls", "Kept elsewhere.")),
    ]);
    symlink(".agents", home.path("repo/.claude")).unwrap();
    symlink(home.path("store/xls"), home.path("user/.claude/skills/xls")).unwrap();
    let skills = home.trusted();
    let names: Vec<_> = skills.all.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["pdf", "xls"]);
    assert_eq!(skills.notes(), Vec::<String>::new());
}

#[test]
fn what_a_project_brings_does_not_count_until_it_is_trusted_and_hides_nothing() {
    let home = Home::new(&[
        ("repo/.agents/skills/pdf/SKILL.md", &on_demand("pdf", "Theirs.")),
        ("repo/sub/.claude/skills/bad/SKILL.md", "---\n: [\n---\n"),
        ("user/.agents/skills/pdf/SKILL.md", &on_demand("pdf", "Mine.")),
    ]);
    let skills = read(&home.places("repo/sub"));
    assert_eq!(skills.all.iter().map(|skill| &*skill.text).collect::<Vec<_>>(), ["Mine."]);
    let untrusted: Vec<_> =
        skills.untrusted.iter().map(|folder| home.short(&folder.display().to_string())).collect();
    assert_eq!(untrusted, ["repo/sub/.claude/skills", "repo/.agents/skills"]);
}

#[test]
fn a_folder_without_a_skill_and_a_place_that_is_not_there_are_passed_over() {
    let home = Home::new(&[
        ("user/.agents/skills/notes/README.md", "no skill"),
        ("user/.agents/skills/SKILL.md", "not in a folder of its own"),
        ("user/.agents/skills/pdf/skill.md", &on_demand("pdf", "Small letters.")),
    ]);
    let skills = read(&home.places("repo"));
    assert_eq!(skills.all.len(), 1);
    assert_eq!(skills.notes(), Vec::<String>::new());
}

#[test]
fn every_key_of_the_standard_is_read() {
    let home = Home::new(&[]);
    let text = "---\r\nname: x\r\ndescription: >\r\n  Reads PDF\r\n  files.\r\nlicense: Apache-2.0\r\n\
                compatibility: needs python3\r\nmetadata:\r\n  author: me\r\n  version: 1.5\r\n\
                allowed-tools: Bash(git:*) Read\r\n---\r\n\r\n# How\r\n\r\nDo it.\r\n";
    let expected = Skill {
        name: "x".to_owned(),
        description: Some("Reads PDF files.".to_owned()),
        license: Some("Apache-2.0".to_owned()),
        compatibility: Some("needs python3".to_owned()),
        metadata: [("author", "me"), ("version", "1.5")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        allowed_tools: Some("Bash(git:*) Read".to_owned()),
        is_for_models: true,
        folder: home.path("x"),
        text: "# How\n\nDo it.".to_owned(),
        remarks: Vec::new(),
    };
    assert_eq!(home.one(text), Ok(expected));
}

#[test]
fn wherever_a_file_is_cut_off_it_is_read_or_refused_in_one_line_with_either_end_of_line() {
    let home = Home::new(&[]);
    let text =
        "---\nname: x\ndescription: \"Ünï: c\"\nmetadata: {a: [b, {c: d}]}\n---\n\nDo *it*.\n";
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    for end in ends {
        let cut = &text[..end];
        let read = home.one(cut);
        assert_eq!(home.one(&cut.replace('\n', "\r\n")), read, "{cut:?}");
        assert!(
            read.is_ok_and(|skill| skill.name == "x") || !home.one(cut).unwrap_err().contains('\n')
        );
    }
}

#[test]
fn without_a_description_the_whole_text_is_inline() {
    let home = Home::new(&[]);
    let cases = [
        ("Just text.", "Just text."),
        ("---\nname: x\n---\nUse tabs.", "Use tabs."),
        ("---\nname: x\ndescription: ' '\n---\nUse tabs.", "Use tabs."),
        ("---\nname: x\ndescription:\n---\nUse tabs.", "Use tabs."),
        ("---\nname: other\nUse tabs.", "---\nname: other\nUse tabs."),
    ];
    for (text, body) in cases {
        let skill = home.one(text).unwrap();
        assert_eq!((skill.description, &*skill.text), (None, body), "{text:?}");
        assert!(!skill.remarks.is_empty(), "{text:?}");
    }
    let only_described = home.one("---\ndescription: Reads PDF files.\n---").unwrap();
    assert_eq!((&*only_described.name, &*only_described.text), ("x", ""));
}

#[test]
fn what_others_write_into_front_matter_is_no_reason_to_refuse_a_skill() {
    let home = Home::new(&[]);
    let text = "---\nname: x\ndescription: a\nmodel: opus\nmetadata: {a: [1], b: c}\n\
                disable-model-invocation: true\nallowed-tools: [Read, Bash]\n---\nb";
    let skill = home.one(text).unwrap();
    assert_eq!((skill.is_for_models, skill.allowed_tools.as_deref()), (false, Some("Read Bash")));
    assert_eq!(skill.metadata, [("b".to_owned(), "c".to_owned())].into());
    assert_eq!(
        skill.remarks,
        [
            "the standard has no key \"disable-model-invocation\"",
            "the standard has no key \"model\"",
            "metadata must be a table of texts; what is no text is left out",
        ]
    );
}

#[test]
fn what_cannot_be_a_skill_is_refused_in_one_line() {
    let home = Home::new(&[]);
    let described = |name: &str| format!("---\nname: {name}\ndescription: a\n---\nb");
    let long = |key: &str, length: usize| {
        format!("---\nname: x\ndescription: a\n{key}: {}\n---\nb", "é".repeat(length))
    };
    let cases = [
        (
            described("other"),
            "the name \"other\" is not that of its folder, \"x\"; rename one of them",
        ),
        (described("../x"), "the name \"../x\" is none"),
        (described("X"), "the name \"X\" is none"),
        (described("-x"), "the name \"-x\" is none"),
        (described("x--y"), "the name \"x--y\" is none"),
        (described("[x]"), "name must be a text"),
        (described(&"x".repeat(65)), "the name \"xxx"),
        (long("compatibility", 501), "compatibility has 501 letters; shorten it to 500"),
        (long("disable-model-invocation", 1), "disable-model-invocation must be true or false"),
        (
            format!("---\nname: x\ndescription: {}\n---\n", "é".repeat(1025)),
            "description has 1025 letters; shorten it to 1024",
        ),
        ("---\nname: x\ndescription: Use when: asked\n---\n".to_owned(), "line 3: "),
        ("---\n[]\n---\n".to_owned(), "line 2: "),
        (" \n".to_owned(), "says nothing; write a description and a text"),
        ("a".repeat(INLINE_LIMIT + 1), "has 16385 bytes without a description"),
    ];
    for (text, start) in cases {
        let what = home.one(&text).unwrap_err();
        assert!(what.starts_with(start) && !what.contains('\n'), "{what}");
    }
    assert!(home.one(&long("compatibility", 500)).is_ok());
    assert!(home.one(&"a".repeat(INLINE_LIMIT)).is_ok());
}

#[test]
fn a_hostile_file_is_refused_in_one_line_and_the_others_count() {
    let home = Home::new(&[("user/.agents/skills/good/SKILL.md", &on_demand("good", "Fine."))]);
    let folder = |name: &str| {
        let folder = home.path("user/.agents/skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder.join("SKILL.md")
    };
    symlink("/etc/passwd", folder("b-link")).unwrap();
    symlink("../nowhere", folder("c-dead")).unwrap();
    std::fs::create_dir(folder("d-folder")).unwrap();
    let pipe = folder("e-pipe");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    home.write("user/.agents/skills/f-bytes/SKILL.md", b"---\nname: f\xff\n---\n");
    home.write("user/.agents/skills/g-huge/SKILL.md", &vec![b'a'; 256 * 1024 + 1]);
    home.write("user/.agents/skills/h\n-line/SKILL.md", b"a");
    let bomb: String = (1..40)
        .map(|n| format!("k{n}: &k{n} [{}]\n", format!("*k{}, ", n - 1).repeat(9)))
        .collect();
    home.write(
        "user/.agents/skills/i-bomb/SKILL.md",
        format!("---\nk0: &k0 a\n{bomb}---\n").as_bytes(),
    );
    let skills = read(&home.places("repo"));
    assert_eq!(skills.all.iter().map(|skill| &*skill.name).collect::<Vec<_>>(), ["good"]);
    let notes: Vec<_> = skills.notes().iter().map(|note| home.short(note)).collect();
    let starts = [
        "b-link/SKILL.md: is a link out of its folder; put the file itself there",
        "c-dead/SKILL.md: cannot be read: No such file",
        "d-folder/SKILL.md: is no file",
        "e-pipe/SKILL.md: is no file",
        "f-bytes/SKILL.md: is not UTF-8 at byte 11; save it as UTF-8",
        "g-huge/SKILL.md: has 257 KiB, more than the 256 KiB there is room for; move parts",
        "h -line/SKILL.md: the name \"h\\n-line\" is none",
        "i-bomb/SKILL.md: ",
    ];
    assert_eq!(notes.len(), starts.len(), "{notes:#?}");
    for (note, start) in notes.iter().zip(starts) {
        let start = format!("skill left out: user/.agents/skills/{start}");
        assert!(note.starts_with(&start) && !note.contains('\n'), "{note} // {start}");
    }
}

#[test]
fn a_projects_skill_lies_in_the_project() {
    let home = Home::new(&[("store/xls/SKILL.md", &on_demand("xls", "Elsewhere."))]);
    std::fs::create_dir_all(home.path("repo/.agents/skills")).unwrap();
    symlink(home.path("store/xls"), home.path("repo/.agents/skills/xls")).unwrap();
    let skills = home.trusted();
    assert_eq!(skills.all, []);
    assert!(skills.notes()[0].contains("its folder is a link out of the project"));
}

#[test]
fn an_agent_has_all_skills_or_none_or_those_it_names() {
    let home = Home::new(&[
        ("config/skills/pdf/SKILL.md", &on_demand("pdf", "a")),
        ("config/skills/xls/SKILL.md", &on_demand("xls", "b")),
        (
            "config/skills/own/SKILL.md",
            "---\nname: own\ndescription: a\ndisable-model-invocation: true\n---\nb",
        ),
    ]);
    let skills = read(&home.places("repo"));
    let of = |names: Option<&[&str]>| -> Vec<String> {
        let names: Option<Vec<_>> =
            names.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        let of = skills.of(names.as_deref());
        of.into_iter().map(|skill| skill.name.clone()).collect()
    };
    assert_eq!(of(None), ["pdf", "xls"]);
    assert_eq!(of(Some(&["*"])), ["pdf", "xls"]);
    assert_eq!(of(Some(&[])), Vec::<String>::new());
    assert_eq!(of(Some(&["xls", "own", "nothing"])), ["xls"]);
    let names = ["xls", "*", "pfd", "nothing"].map(str::to_owned);
    assert_eq!(
        skills.missing("default", Some(&names)),
        [
            "agents.default.skills: there is no skill \"pfd\"; did you mean \"pdf\"?",
            "agents.default.skills: there is no skill \"nothing\"; see `bowline skills list`",
        ]
    );
    assert_eq!(skills.missing("default", None), Vec::<String>::new());
}

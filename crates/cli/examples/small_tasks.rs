//! How many of forty small tasks a model completes: by default the one in the process.
//!
//!     cargo run --release -p bowline --features local --example small_tasks [-- provider/model]
//!
//! Each task has a folder and a session of its own. Reading and searching are done when the answer
//! holds what it must and the right tool was used; writing, when the file holds what was wanted.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bowline::agent::event::EventBody;
use bowline::agent::{Agent, Memory};
use bowline::runtime::config::{DEFAULT_AGENT, Said};
use bowline::runtime::environment::Environment;
use bowline::runtime::skills::Skills;
use bowline::runtime::{Choice, Runtime};
use futures::StreamExt as _;

const FILES: [(&str, &str); 7] = [
    ("notes.txt", "The meeting is on Tuesday at 10.\nBring the red folder.\n"),
    ("config.toml", "name = \"apollo\"\nport = 8080\nversion = \"2.3.1\"\n"),
    ("README.md", "# Apollo\nApollo counts the stars in a picture.\nRun it with: make stars\n"),
    ("todo.txt", "1. buy milk\n2. call Anna\n3. fix the roof\n"),
    ("src/main.py", "# TODO: read the name from a file\nprint(\"hello, world\")\n"),
    ("src/util.py", "def add(a, b):\n    return a + b\n"),
    ("data/colors.csv", "id,color\n1,green\n2,blue\n"),
];

/// What shows that a task was done.
enum Shown {
    /// The tool was used, and the answer holds all of these.
    Answer(&'static str, &'static [&'static str]),
    /// The file holds this.
    File(&'static str, &'static str),
}

use Shown::{Answer, File};

/// Twenty tasks in plain words, then twenty in free wording.
const TASKS: [(&str, Shown); 40] = [
    ("What does notes.txt say?", Answer("read", &["Tuesday"])),
    ("What is the port in config.toml?", Answer("read", &["8080"])),
    ("When is the meeting? Look in notes.txt.", Answer("read", &["Tuesday"])),
    ("What is the second item in todo.txt?", Answer("read", &["Anna"])),
    ("How do I run Apollo? It is in README.md.", Answer("read", &["make stars"])),
    ("Which version is in config.toml?", Answer("read", &["2.3.1"])),
    ("Read src/main.py and tell me what it prints.", Answer("read", &["hello"])),
    ("Which color has id 2 in data/colors.csv?", Answer("read", &["blue"])),
    ("What files are in this folder?", Answer("list", &["notes.txt", "todo.txt"])),
    ("List the files in the src folder.", Answer("list", &["main.py", "util.py"])),
    ("Show me the files here.", Answer("list", &["README.md"])),
    ("What is in the data directory?", Answer("list", &["colors.csv"])),
    ("Which file contains the word roof?", Answer("grep", &["todo.txt"])),
    ("Find TODO in the code.", Answer("grep", &["main.py"])),
    ("Where is the function add defined?", Answer("grep", &["util.py"])),
    ("Create a file hello.txt with the text good morning", File("hello.txt", "good morning")),
    ("Write \"buy bread\" to shopping.txt", File("shopping.txt", "buy bread")),
    ("Make a file named done.md that says all finished", File("done.md", "all finished")),
    ("Save the text red green blue in colors.txt", File("colors.txt", "red green blue")),
    ("Please create answer.txt containing 42", File("answer.txt", "42")),
    ("Tell me the port number from config.toml", Answer("read", &["8080"])),
    ("What do I need to bring to the meeting? See notes.txt", Answer("read", &["red folder"])),
    ("Open todo.txt and list what I have to do.", Answer("read", &["milk", "roof"])),
    ("Summarize README.md in one sentence.", Answer("read", &["stars"])),
    ("What is the name in config.toml?", Answer("read", &["pollo"])),
    ("What does the function in src/util.py do?", Answer("read", &["add"])),
    ("Who should I call according to todo.txt?", Answer("read", &["Anna"])),
    ("What color is id 1 in data/colors.csv?", Answer("read", &["green"])),
    ("List all files.", Answer("list", &["README.md", "todo.txt"])),
    ("What's in src?", Answer("list", &["main.py"])),
    ("How many files are there here?", Answer("list", &["6"])),
    ("Show the content of the folder data", Answer("list", &["colors.csv"])),
    ("Search for the word milk", Answer("grep", &["todo.txt"])),
    ("Which file talks about stars?", Answer("grep", &["README.md"])),
    ("Find where print is used.", Answer("grep", &["main.py"])),
    ("Which file has the text \"red folder\"?", Answer("grep", &["notes.txt"])),
    ("Create notes2.txt with the content hello world", File("notes2.txt", "hello world")),
    ("Put the words one two three into numbers.txt", File("numbers.txt", "one two three")),
    ("Write a new file greeting.txt saying hi there", File("greeting.txt", "hi there")),
    ("Make a file called plan.txt with \"sleep more\" in it", File("plan.txt", "sleep more")),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let asked = std::env::args().nth(1);
    let folder = std::env::temp_dir().join(format!("bowline-small-tasks-{}", std::process::id()));
    let began = Instant::now();
    let mut model = None;
    let mut done = 0;
    for (n, (prompt, shown)) in TASKS.iter().enumerate() {
        let work = folder.join(n.to_string());
        prepare(&work)?;
        let environment = Environment { cwd: work.clone(), ..Environment::read()? };
        let runtime = Runtime::new(environment, &Said::default())?;
        let picked = match &asked {
            Some(name) => runtime.pick(Some(name)).await?,
            None => runtime.embedded().ok_or("no model: run `bowline model pull`")?,
        };
        let choice = Choice {
            agent: DEFAULT_AGENT.to_owned(),
            model: picked,
            limits: runtime.config.limits.headless(),
            ephemeral: true,
            attended: false,
            instructions: String::new(),
            skills: Skills::default(),
            output_schema: None,
        };
        let agent = runtime.agent(&choice)?;
        // One model for all tasks: it keeps what it has read.
        let model = Arc::clone(model.get_or_insert_with(|| Arc::clone(&agent.model)));
        let agent = Agent { model, store: Arc::new(Memory::default()), ..agent };
        let handle = agent.start();
        let mut run = handle.prompt(*prompt);
        let mut calls = Vec::new();
        while let Some(event) = run.next().await {
            if let EventBody::ToolCall { name, arguments } = &event.body {
                calls.push(format!("{name} {arguments}"));
            }
        }
        let answer = run.await?.text();
        let is_done = match shown {
            Answer(tool, holds) => {
                let has = |part: &&str| answer.to_lowercase().contains(&part.to_lowercase());
                calls.iter().any(|call| call.split(' ').next() == Some(tool))
                    && holds.iter().all(has)
            }
            File(file, text) => {
                fs::read_to_string(work.join(file)).is_ok_and(|found| found.trim() == *text)
            }
        };
        done += usize::from(is_done);
        let verdict = if is_done { "done" } else { "NOT " };
        println!("{verdict}  {prompt}\n      {}\n      {answer}", calls.join("\n      "));
        handle.close().await;
        runtime.close().await;
    }
    fs::remove_dir_all(&folder)?;
    println!("{done} of {} tasks done in {:.0} s", TASKS.len(), began.elapsed().as_secs_f64());
    Ok(())
}

fn prepare(work: &Path) -> std::io::Result<()> {
    for (name, text) in FILES {
        let path = work.join(name);
        fs::create_dir_all(path.parent().unwrap_or(work))?;
        fs::write(path, text)?;
    }
    Ok(())
}

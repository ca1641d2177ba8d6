//! The laws hold for everything that fuzzing starts from.
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bowline_fuzz::LAWS;

#[test]
fn the_laws_hold_for_the_inputs_that_are_kept() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, law) in LAWS {
        let mut inputs = 0;
        for file in fs::read_dir(corpus.join(name)).unwrap() {
            let path = file.unwrap().path();
            let data = fs::read(&path).unwrap();
            let kept = catch_unwind(AssertUnwindSafe(|| law(&data)));
            assert!(kept.is_ok(), "{}", path.display());
            inputs += 1;
        }
        assert!(inputs >= 8, "{name} has {inputs} inputs");
    }
}

//! The reader of commands: no text makes it panic, overflow the stack or take its time.
#![no_main]

use bowline_runtime::permission::shell;

libfuzzer_sys::fuzz_target!(|command: &str| {
    let _ = shell::read(command);
});

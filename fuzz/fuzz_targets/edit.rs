//! Looks for what breaks [`bowline_fuzz::edit`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bowline_fuzz::edit(data));

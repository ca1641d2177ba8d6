//! Looks for what breaks [`bowline_fuzz::patch`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bowline_fuzz::patch(data));

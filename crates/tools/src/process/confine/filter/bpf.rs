//! A filter of system calls as the kernel wants it: a program of the first BPF.
//!
//! It is installed for every command anew. The kernel checks it then, compiles it, and goes through it once
//! for every number there is; so it is short, and finds what a call gets by halves.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::RangeInclusive;

use libc::{seccomp_data, sock_filter};

/// The number of a system call.
pub(super) type Number = u32;

/// What a system call gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    Error(libc::c_int),
    /// An error if one of these is the case, and else it is allowed.
    ErrorIn(libc::c_int, Vec<Case>),
}

/// All of these hold.
pub(super) type Case = Vec<Test>;

/// A look at an argument. Of what it points to nothing can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Test {
    /// Where it is in what a filter sees.
    at: u32,
    mask: u32,
    value: u32,
    is_equal: bool,
}

/// The lower half of an argument: all of it, if it is an `int`.
pub(super) fn argument(index: u32) -> Test {
    let half = if cfg!(target_endian = "big") { 4 } else { 0 };
    let at = offset(offset_of!(seccomp_data, args)) + 8 * index + half;
    Test { at, mask: u32::MAX, value: 0, is_equal: true }
}

/// The higher half of an argument.
pub(super) fn higher_half(index: u32) -> Test {
    let lower = argument(index);
    Test { at: lower.at ^ 4, ..lower }
}

impl Test {
    /// Looks at these bits alone.
    pub(super) fn masked(self, mask: u32) -> Self {
        Self { mask, ..self }
    }

    /// Holds if it is this.
    pub(super) fn is(self, value: u32) -> Self {
        Self { value, is_equal: true, ..self }
    }

    /// Holds if it is anything else.
    pub(super) fn is_not(self, value: u32) -> Self {
        Self { value, is_equal: false, ..self }
    }

    /// Holds if it has any of these bits.
    pub(super) fn has(self, bits: u32) -> Self {
        self.masked(bits).is_not(0)
    }
}

/// From which number on which answer is given.
#[derive(Debug)]
pub(super) struct Answers(BTreeMap<Number, Answer>);

impl Answers {
    pub(super) fn all_allowed() -> Self {
        Self(BTreeMap::from([(0, Answer::Allowed)]))
    }

    pub(super) fn set(&mut self, numbers: RangeInclusive<Number>, answer: Answer) {
        if let Some(next) = numbers.end().checked_add(1) {
            let (_, as_it_is) = self.0.range(..=next).next_back().unzip();
            let as_it_is = as_it_is.cloned().unwrap_or(Answer::Allowed);
            self.0.insert(next, as_it_is);
        }
        self.0.retain(|first, _| !numbers.contains(first));
        self.0.insert(*numbers.start(), answer);
    }

    /// Makes a filter for calls of one architecture; a call of another one kills the process.
    pub(super) fn assemble(&self, architecture: u32) -> Vec<sock_filter> {
        let mut program = vec![
            load(offset(offset_of!(seccomp_data, arch))),
            jump_if(libc::BPF_JEQ, architecture, 1, 0),
            give(libc::SECCOMP_RET_KILL_PROCESS),
            load(offset(offset_of!(seccomp_data, nr))),
        ];
        let mut ranges: Vec<_> = self.0.iter().collect();
        ranges.dedup_by_key(|(_, answer)| *answer);
        program.extend(search(&ranges));
        program
    }
}

fn search(ranges: &[(&Number, &Answer)]) -> Vec<sock_filter> {
    let (lower, higher) = ranges.split_at(ranges.len() / 2);
    let Some((first, answer)) = higher.first() else { return Vec::new() };
    if lower.is_empty() {
        return answer_with(answer);
    }
    let lower = search(lower);
    let mut program = match u8::try_from(lower.len()) {
        Ok(length) => vec![jump_if(libc::BPF_JGE, **first, length, 0)],
        Err(_) => vec![jump_if(libc::BPF_JGE, **first, 0, 1), jump(lower.len())],
    };
    program.extend(lower);
    program.extend(search(higher));
    program
}

fn answer_with(answer: &Answer) -> Vec<sock_filter> {
    let error = |number: libc::c_int| give(libc::SECCOMP_RET_ERRNO | number.unsigned_abs());
    let allow = give(libc::SECCOMP_RET_ALLOW);
    match answer {
        Answer::Allowed => vec![allow],
        Answer::Error(number) => vec![error(*number)],
        Answer::ErrorIn(number, cases) => {
            let cases = cases.iter().flat_map(|case| in_case(case, error(*number)));
            cases.chain([allow]).collect()
        }
    }
}

/// Does one thing if all tests hold, and else what comes next.
fn in_case(case: &Case, then: sock_filter) -> Vec<sock_filter> {
    let mut program = vec![then];
    for test in case.iter().rev() {
        let to_next = u8::try_from(program.len()).unwrap_or(u8::MAX);
        let (if_equal, if_not) = if test.is_equal { (0, to_next) } else { (to_next, 0) };
        let look = [
            load(test.at),
            instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, test.mask),
            jump_if(libc::BPF_JEQ, test.value, if_equal, if_not),
        ];
        program.splice(0..0, look);
    }
    program
}

fn load(at: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

fn give(value: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, value)
}

fn jump(over: usize) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JA, offset(over))
}

fn jump_if(comparison: u32, with: u32, if_true: u8, if_false: u8) -> sock_filter {
    let jump = instruction(libc::BPF_JMP | comparison | libc::BPF_K, with);
    sock_filter { jt: if_true, jf: if_false, ..jump }
}

fn instruction(code: u32, k: u32) -> sock_filter {
    // All codes fit.
    sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

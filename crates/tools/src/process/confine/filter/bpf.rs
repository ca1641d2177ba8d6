//! A filter of system calls as the kernel wants it: a program of the first BPF.
//!
//! It is installed for every command anew. The kernel checks it then, compiles it, and goes through it once
//! for every number there is; so it is short, says each answer once, and finds it by halves.

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
        let mut ranges: Vec<_> = self.0.iter().collect();
        ranges.dedup_by_key(|(_, answer)| *answer);
        let mut program = Program::default();
        program.search(&ranges);
        program.add(load(offset(offset_of!(seccomp_data, nr))));
        let here = program.len();
        let kill = program.add(give(libc::SECCOMP_RET_KILL_PROCESS));
        program.add_jump(libc::BPF_JEQ, architecture, [here, kill]);
        program.add(load(offset(offset_of!(seccomp_data, arch))));
        program.reversed.into_iter().rev().collect()
    }
}

/// A program from its end on: jumps lead to what is already there.
#[derive(Debug, Default)]
struct Program {
    reversed: Vec<sock_filter>,
    answers: Vec<(Answer, Place)>,
}

/// An instruction: how many there are from it to the end.
type Place = usize;

impl Program {
    fn len(&self) -> Place {
        self.reversed.len()
    }

    fn add(&mut self, instruction: sock_filter) -> Place {
        self.reversed.push(instruction);
        self.len()
    }

    /// Adds a comparison that leads to the first of two places if it holds, and else to the second.
    fn add_jump(&mut self, comparison: u32, with: u32, to: [Place; 2]) -> Place {
        let [if_true, if_false] = to.map(|place| self.near(place));
        let distance = |place: Place| u8::try_from(self.len() - place).unwrap_or(u8::MAX);
        let jump = instruction(libc::BPF_JMP | comparison | libc::BPF_K, with);
        self.add(sock_filter { jt: distance(if_true), jf: distance(if_false), ..jump })
    }

    /// Returns a place that leads to another one, near enough for a comparison that may add one more.
    fn near(&mut self, place: Place) -> Place {
        match self.len() - place < usize::from(u8::MAX) {
            true => place,
            false => {
                self.add(instruction(libc::BPF_JMP | libc::BPF_JA, offset(self.len() - place)))
            }
        }
    }

    /// Adds the search for the range in which a number is.
    fn search(&mut self, ranges: &[(&Number, &Answer)]) -> Place {
        let (lower, higher) = ranges.split_at(ranges.len() / 2);
        match (lower, higher) {
            (_, []) => self.answer(&Answer::Allowed),
            ([], [(_, answer), ..]) => self.answer(answer),
            (lower, [(first, _), ..]) => {
                let to = [self.search(higher), self.search(lower)];
                self.add_jump(libc::BPF_JGE, **first, to)
            }
        }
    }

    /// Adds an answer, if it is not there yet.
    fn answer(&mut self, answer: &Answer) -> Place {
        let known = self.answers.iter().find(|(known, _)| known == answer);
        if let Some((_, place)) = known {
            return *place;
        }
        let place = match answer {
            Answer::Allowed => self.add(give(libc::SECCOMP_RET_ALLOW)),
            Answer::Error(number) => {
                self.add(give(libc::SECCOMP_RET_ERRNO | number.unsigned_abs()))
            }
            Answer::ErrorIn(number, cases) => {
                let allowed = self.answer(&Answer::Allowed);
                let error = self.answer(&Answer::Error(*number));
                cases.iter().rev().fold(allowed, |next, case| self.in_case(case, error, next))
            }
        };
        self.answers.push((answer.clone(), place));
        place
    }

    /// Adds a way that leads to `then` if all tests hold, and else to what comes next.
    fn in_case(&mut self, case: &Case, then: Place, next: Place) -> Place {
        case.iter().rev().fold(then, |then, test| {
            let to = if test.is_equal { [then, next] } else { [next, then] };
            self.add_jump(libc::BPF_JEQ, test.value, to);
            if test.mask != u32::MAX {
                self.add(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, test.mask));
            }
            self.add(load(test.at))
        })
    }
}

fn load(at: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

fn give(value: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, value)
}

fn instruction(code: u32, k: u32) -> sock_filter {
    // All codes fit.
    sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

//! From text to tokens, so that nobody but a template writes the tokens that structure a conversation.

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;
use llama_cpp_2::vocab::{LlamaVocab, VocabType};

/// A part of a written conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// What the template wrote; it may name the tokens that structure a conversation.
    Own(String),
    /// What a user or a tool said.
    Said(String),
}

/// A model's tokens, and how text becomes them.
#[derive(Debug)]
pub(crate) struct Vocabulary<'m> {
    vocab: LlamaVocab<'m>,
    /// The tokens that stand for themselves, the longest first.
    marks: Vec<Mark>,
}

/// A token that stands for itself and is never a part of a word.
#[derive(Debug)]
struct Mark {
    text: String,
    token: LlamaToken,
    /// Whether llama.cpp finds it in any text; others it finds only where it is told to.
    is_everywhere: bool,
    /// Whether it swallows the space before it.
    eats_before: bool,
    /// Whether it swallows the space after it.
    eats_after: bool,
}

impl<'m> Vocabulary<'m> {
    pub(crate) fn of(model: &'m LlamaModel) -> Self {
        use LlamaTokenAttr::{Control, LStrip, RStrip, Unknown, UserDefined};
        let vocab = model.vocab();
        let marks = vocab.tokens().filter_map(|token| {
            let attr = vocab.attr(token);
            let is_everywhere = attr.contains(UserDefined);
            let text =
                String::from_utf8_lossy(&vocab.token_to_piece(token, true, None)).into_owned();
            // One letter stays one letter, however it is cut, and so does space.
            let is_word = text.chars().count() > 1 && !text.trim().is_empty();
            let is_mark =
                is_everywhere && is_word || attr.intersects(Control | Unknown) && !text.is_empty();
            is_mark.then(|| Mark {
                text,
                token,
                is_everywhere,
                eats_before: attr.contains(LStrip),
                eats_after: attr.contains(RStrip),
            })
        });
        let mut marks: Vec<Mark> = marks.collect();
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.text.len()));
        Self { vocab, marks }
    }

    /// Splits a conversation. Between two marks of the template its text is split as a whole, however
    /// many have spoken it.
    pub(crate) fn split(&self, pieces: &[Piece]) -> Vec<LlamaToken> {
        self.split_after(Before::Nothing, pieces)
    }

    /// Splits what the model has written after what it was given.
    pub(crate) fn split_written(&self, text: String) -> Vec<LlamaToken> {
        self.split_after(Before::Text, &[Piece::Own(text)])
    }

    /// Splits a text in which nothing but letters counts.
    pub(crate) fn split_said(&self, text: &str) -> Vec<LlamaToken> {
        let mut tokens = Vec::new();
        self.put(Before::Nothing, text, &mut tokens);
        tokens
    }

    /// Returns what a conversation begins with, where the model wants something.
    pub(crate) fn beginning(&self) -> Option<LlamaToken> {
        Some(self.vocab.bos()).filter(|bos| self.vocab.should_add_bos() && bos.0 >= 0)
    }

    /// Returns how the first token of a text is written, if there is one.
    pub(crate) fn bos(&self) -> String {
        self.written(self.vocab.bos())
    }

    /// Returns how the last token of a text is written, if there is one.
    pub(crate) fn eos(&self) -> String {
        self.written(self.vocab.eos())
    }

    fn written(&self, token: LlamaToken) -> String {
        if token.0 < 0 {
            String::new()
        } else {
            String::from_utf8_lossy(&self.bytes(token)).into_owned()
        }
    }

    /// Returns what a token is written as.
    pub(crate) fn bytes(&self, token: LlamaToken) -> Vec<u8> {
        self.vocab.token_to_piece(token, true, None)
    }

    /// Tells whether the model ends what it says with a token.
    pub(crate) fn is_end(&self, token: LlamaToken) -> bool {
        self.vocab.is_eog(token)
    }

    fn split_after(&self, mut before: Before, pieces: &[Piece]) -> Vec<LlamaToken> {
        let mut tokens = Vec::new();
        let mut run = String::new();
        for piece in pieces {
            let own = match piece {
                Piece::Own(text) => text,
                Piece::Said(text) => {
                    run.push_str(text);
                    continue;
                }
            };
            for fragment in self.fragments(own) {
                let mark = match fragment {
                    Fragment::Text(text) => {
                        run.push_str(text);
                        continue;
                    }
                    Fragment::Mark(mark) => mark,
                };
                let text = if mark.eats_before { run.trim_ascii_end() } else { &run };
                self.put(before, text, &mut tokens);
                run.clear();
                tokens.push(mark.token);
                before = if mark.eats_after { Before::Eater } else { Before::Mark };
            }
        }
        self.put(before, &run, &mut tokens);
        tokens
    }

    /// Splits a run of text between two marks.
    fn put(&self, before: Before, run: &str, tokens: &mut Vec<LlamaToken>) {
        let mut rest = if before == Before::Eater { run.trim_ascii_start() } else { run };
        let mut is_first = before != Before::Text;
        // llama.cpp finds what a vocabulary's maker defined in any text, so each such mark is cut.
        while !rest.is_empty() {
            let (text, after) = rest.split_at(self.first_mark(rest).unwrap_or(rest.len()));
            tokens.extend(if is_first { self.tokens(text) } else { self.further_tokens(text) });
            is_first = false;
            rest = after;
        }
    }

    /// Returns where the first mark of a text is to be cut: behind its first letter.
    fn first_mark(&self, text: &str) -> Option<usize> {
        let places =
            self.marks.iter().filter(|mark| mark.is_everywhere).filter_map(|mark| {
                Some(text.find(&mark.text)? + mark.text.chars().next()?.len_utf8())
            });
        places.min()
    }

    fn tokens(&self, text: &str) -> Vec<LlamaToken> {
        self.vocab.tokenize(text.as_bytes(), false, false)
    }

    /// Splits the rest of a text. Some vocabularies put a space before whatever is split, which is
    /// right before the first word only.
    fn further_tokens(&self, text: &str) -> Vec<LlamaToken> {
        if self.vocab.vocab_type() != VocabType::SPM {
            return self.tokens(text);
        }
        let space = self.tokens(STRANGER).len();
        self.tokens(&format!("{STRANGER}{text}")).split_off(space)
    }

    /// Finds the marks of a text.
    fn fragments<'a>(&'a self, text: &'a str) -> Vec<Fragment<'a>> {
        let mut fragments = vec![Fragment::Text(text)];
        for mark in self.marks.iter().filter(|mark| text.contains(&mark.text)) {
            fragments = fragments.into_iter().flat_map(|fragment| fragment.cut(mark)).collect();
        }
        fragments
    }
}

/// A character of no language: it becomes bytes, which never join what follows.
const STRANGER: &str = "\u{f8f2}";

/// What stands before a run of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Text,
    Mark,
    /// A mark that swallows the space after it.
    Eater,
}

enum Fragment<'a> {
    Text(&'a str),
    Mark(&'a Mark),
}

impl<'a> Fragment<'a> {
    fn cut(self, mark: &'a Mark) -> Vec<Self> {
        let Fragment::Text(text) = self else { return vec![self] };
        let mut fragments = Vec::new();
        for (n, text) in text.split(mark.text.as_str()).enumerate() {
            if n > 0 {
                fragments.push(Fragment::Mark(mark));
            }
            fragments.push(Fragment::Text(text));
        }
        fragments
    }
}

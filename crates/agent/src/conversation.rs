//! stub
use bowline_llm::CallId;
use crate::entry::Wake;
use crate::tool::Waked;
#[derive(Debug)]
pub struct Conversation;
#[derive(Debug)]
pub enum CallState { New, Started, Woken(Waked), Waiting(Wake) }
#[derive(Debug)]
pub struct OpenCall { pub state: CallState }
impl OpenCall { pub fn id(&self) -> &CallId { unimplemented!() } }
#[derive(Debug)]
pub enum Last { Nothing, Said, Results, Cut, Answer, Broken }
impl Conversation {
    pub fn run(&self) -> Option<()> { None }
    pub fn open_calls(&self) -> &[OpenCall] { &[] }
    pub fn last(&self) -> Last { Last::Nothing }
}

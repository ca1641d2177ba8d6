//! stub
use jiff::Timestamp;
#[derive(Clone)]
pub struct Children { pub(crate) source: std::sync::Arc<dyn crate::id::Source> }
impl Children { pub fn now(&self) -> Timestamp { self.source.now() } }
impl Children { pub(crate) fn none(source: std::sync::Arc<dyn crate::id::Source>) -> Self { Self { source } } }

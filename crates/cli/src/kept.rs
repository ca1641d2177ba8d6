//! What flags forbid is kept by the session: whoever goes on with it may not do more, unless a person
//! says so.

use bowline_agent::SessionHandle;
use bowline_agent::id::SessionId;
use bowline_llm::RawJson;
use bowline_runtime::config::{Kept, Said};
use bowline_store::Files;

use crate::exit::Failure;

/// The name of the entry that keeps it.
const NAME: &str = "permissions";

/// Adds to what the command line says what a session keeps.
pub(crate) fn said(said: Said, store: &Files, session: SessionId) -> Result<Said, Failure> {
    let Some(record) = store.latest_record(session, NAME)? else { return Ok(said) };
    let kept: Kept = record.read().map_err(|error| {
        let what = "what the session was not allowed cannot be read";
        Failure::Failed(format!("{what}, so it does not go on: {error}"))
    })?;
    Ok(Said { flags: said.flags.with_kept(kept), ..said })
}

/// Has a session keep what the command line forbids, unless it does already.
pub(crate) async fn keep(
    said: &Said,
    store: &Files,
    handle: &SessionHandle,
) -> Result<(), Failure> {
    let kept = said.flags.kept();
    let is_new = handle.state().head.is_none();
    let known = if is_new { None } else { store.latest_record(handle.session_id(), NAME)? };
    let known = known.map_or_else(|| Ok(Kept::default()), |record| record.read());
    if known.is_ok_and(|known| known == kept) {
        return Ok(());
    }
    let record = RawJson::of(&kept).map_err(|error| Failure::Failed(error.to_string()))?;
    handle.record(NAME, record).await?;
    Ok(())
}

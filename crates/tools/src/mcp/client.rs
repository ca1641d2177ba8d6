//! What a server may ask of us, and tell us.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::Url;
use rmcp::ErrorData;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, ProgressNotificationParam,
    ProtocolVersion,
};
#[expect(deprecated, reason = "servers of today still ask for roots")]
use rmcp::model::{ListRootsResult, Root, RootsCapabilities};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::{Notify, watch};

use super::call::Calls;

/// Our side of a connection.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// The calls that are under way on it.
    pub(super) calls: Arc<Calls>,
    /// Hears that the server offers something else now.
    pub(super) changed: Arc<Notify>,
    /// The folder that the server is told to work in.
    pub(super) root: watch::Receiver<PathBuf>,
    /// Whether somebody can answer questions.
    pub(super) attended: bool,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(roots_capability());
        if self.attended {
            let form = FormElicitationCapability::default();
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        }
        let us = Implementation::new("bowline", env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(capabilities, us);
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    #[expect(deprecated, reason = "servers of today still ask for roots")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let root = self.root.borrow().clone();
        Ok(ListRootsResult::new(root_of(&root).into_iter().collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        cx: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request
        else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        if !self.attended {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        let order = requested_schema.property_order.clone().unwrap_or_default();
        let schema = serde_json::to_value(&requested_schema)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let answer = self.calls.ask(message, &schema, &order, &cx.extensions);
        tokio::select! {
            answer = answer => Ok(answer),
            () = cx.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.calls.progress(&progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

fn roots_capability() -> RootsCapabilities {
    let mut roots = RootsCapabilities::default();
    roots.list_changed = Some(true);
    roots
}

#[expect(deprecated, reason = "servers of today still ask for roots")]
fn root_of(folder: &Path) -> Option<Root> {
    let url = Url::from_directory_path(folder).ok()?;
    let root = Root::new(url.as_str().trim_end_matches('/'));
    Some(match folder.file_name().and_then(|name| name.to_str()) {
        Some(name) => root.with_name(name),
        None => root,
    })
}

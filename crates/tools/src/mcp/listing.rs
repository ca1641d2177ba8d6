//! What a server lists of itself, page by page, and what of it can be used.

use rmcp::model::{
    ClientRequest, CustomResult, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

use super::content::{first_line, line_of};
use super::schema::{self, Fitted};

/// How many pages are read, and how many tools kept: a server that has no end of them must not fill
/// the memory.
const MAX_PAGES: usize = 1000;
const MAX_TOOLS: usize = 10_000;

/// The most resources of a server that are listed, and how many of its pages are read for that.
const MAX_RESOURCES: usize = 200;
const MAX_RESOURCE_PAGES: usize = 20;

/// The tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tools {
    /// Those that can be used, by name.
    pub(super) usable: Vec<Tool>,
    /// Those that cannot, each in a line with the reason.
    pub(super) left_out: Vec<String>,
    /// What was changed of schemas, in a line each.
    pub(super) changed: Vec<String>,
}

impl Tools {
    /// Asks a server for its tools.
    pub(super) async fn of(peer: &Peer<RoleClient>) -> Result<Self, ServiceError> {
        let mut tools = Self::default();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let request = ListToolsRequest { params: Some(page), ..ListToolsRequest::default() };
            let request = ClientRequest::ListToolsRequest(request);
            let next = match peer.send_request(request).await? {
                ServerResult::ListToolsResult(page) => {
                    page.tools.into_iter().for_each(|tool| tools.add(tool));
                    page.next_cursor
                }
                // One of them is no tool, so that the whole is not read as what it is.
                ServerResult::CustomResult(CustomResult(page)) => tools.add_all(&page)?,
                _ => return Err(ServiceError::UnexpectedResponse),
            };
            // One that leads nowhere else would lead there for ever.
            if next.is_none() || next == cursor || tools.usable.len() > MAX_TOOLS {
                break;
            }
            cursor = next;
        }
        tools.usable.sort_by(|a, b| a.name.cmp(&b.name));
        tools.usable.dedup_by(|a, b| a.name == b.name);
        tools.usable.truncate(MAX_TOOLS);
        Ok(tools)
    }

    /// Adds those of a page that are tools; returns where the next page begins.
    fn add_all(&mut self, page: &Value) -> Result<Option<String>, ServiceError> {
        let listed = page.get("tools").and_then(Value::as_array);
        for tool in listed.ok_or(ServiceError::UnexpectedResponse)? {
            match serde_json::from_value::<Tool>(tool.clone()) {
                Ok(tool) => self.add(tool),
                Err(error) => {
                    let name = tool.get("name").and_then(Value::as_str).unwrap_or("without a name");
                    self.leave_out(name, &error.to_string());
                }
            }
        }
        Ok(page.get("nextCursor").and_then(Value::as_str).map(str::to_owned))
    }

    fn add(&mut self, mut tool: Tool) {
        match schema::fit(&tool.input_schema) {
            Ok(Fitted { schema, changes }) => {
                let changes = changes.iter().map(|change| format!("tool {}: {change}", tool.name));
                self.changed.extend(changes);
                tool.input_schema = schema.into();
                self.usable.push(tool);
            }
            Err(why) => self.leave_out(&tool.name, &why),
        }
    }

    fn leave_out(&mut self, name: &str, why: &str) {
        if self.left_out.len() < MAX_TOOLS {
            self.left_out.push(format!("the tool {name} is left out: {}", first_line(why)));
        }
    }
}

/// What a server has to read.
#[derive(Debug, Default)]
pub(super) struct Resources {
    /// A line each.
    pub(super) lines: Vec<String>,
    /// Whether there is more of it.
    pub(super) has_more: bool,
}

/// Asks a server what it has to read.
pub(super) async fn resources(peer: &Peer<RoleClient>) -> Result<Resources, ServiceError> {
    let mut lines = Vec::new();
    let mut cursor = None;
    let mut has_more = true;
    for _ in 0..MAX_RESOURCE_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let page = peer.list_resources(Some(page)).await?;
        lines.extend(page.resources.iter().map(line_of));
        has_more = page.next_cursor.is_some() && page.next_cursor != cursor;
        if !has_more || lines.len() > MAX_RESOURCES {
            break;
        }
        cursor = page.next_cursor;
    }
    // Not every server knows what templates are.
    if let Ok(page) = peer.list_resource_templates(None).await {
        has_more |= page.next_cursor.is_some();
        lines.extend(page.resource_templates.iter().map(|template| {
            let description = template.description.as_deref().map(first_line);
            let description = description.map_or_else(String::new, |text| format!(": {text}"));
            format!("{} {}{description}", template.uri_template, template.name)
        }));
    }
    has_more |= lines.len() > MAX_RESOURCES;
    lines.truncate(MAX_RESOURCES);
    Ok(Resources { lines, has_more })
}

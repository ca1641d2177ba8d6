//! Reading the web.

pub(crate) mod body;
pub(crate) mod client;
mod guard;
mod html;

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Response, StatusCode, Url};
use schemars::JsonSchema;
use serde::Deserialize;

use bowline_agent::tool::{Access, Deadline, Recovery, Tool, ToolContext, ToolError, ToolOutput};
use bowline_llm::{Secret, http::Proxy};

use crate::environment::Environment;
use crate::excerpt::Bounds;
use crate::guard::{Guard, Open};
use body::{Body, is_media};
use client::Clients;
pub(crate) use guard::{is_localhost, is_public};

/// How much of the body of an error is shown, in bytes.
const ERROR_TEXT: usize = 2048;

/// The room that the lines about a result need, in bytes.
pub(crate) const NOTES: usize = 200;

/// The tool `fetch`: it gets what is behind an `http` or `https` address.
///
/// It sends no cookies and no credentials. It reaches public addresses only: names are checked
/// where they are resolved for the connection, so that a name cannot mean one address when it is
/// checked and another when it is used. Redirects, at most five, are checked in the same way, and a guard
/// is asked about each host.
///
/// Through a proxy, it is the proxy that resolves names. A name that means a private address here
/// is refused all the same, but what the proxy makes of a name only the proxy knows.
#[derive(Debug)]
pub struct Fetch {
    clients: Clients,
    guard: Arc<dyn Guard>,
}

/// What [`Fetch`] may reach, and through what.
#[derive(Debug, Clone, Default)]
pub struct FetchConfig {
    /// The proxies to use. Nothing is read from the environment here. Loopback addresses never go
    /// through one.
    pub proxy: Proxy,
    /// Hosts that may be reached although their addresses are not public, as they stand in a URL.
    pub allowed: Vec<String>,
}

impl FetchConfig {
    /// Uses the proxies that commands see.
    pub fn with_proxies_of(environment: &Environment) -> Self {
        let either = |lower: &str, upper: &str| {
            let found = environment.get(lower).or(environment.get(upper));
            found.filter(|value| !value.is_empty())
        };
        let proxy = Proxy {
            http: either("http_proxy", "HTTP_PROXY").map(Secret::from),
            https: either("https_proxy", "HTTPS_PROXY").map(Secret::from),
            no_proxy: either("no_proxy", "NO_PROXY").unwrap_or_default().to_owned(),
        };
        Self { proxy, ..Self::default() }
    }
}

/// Reads a web page or file by HTTP GET. HTML becomes text with links.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::shorten)]
pub struct FetchInput {
    url: String,
    /// raw: HTML as it is.
    r#as: Option<Form>,
    /// Show at most this much.
    max_bytes: Option<usize>,
}

// In which form HTML is shown; a doc comment would only repeat to the model what it sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    #[default]
    Text,
    #[serde(alias = "html")]
    Raw,
}

impl Fetch {
    /// Makes the tool. Nothing is set up before its first call, and no certificates are loaded
    /// before its first `https` address.
    pub fn new(config: FetchConfig) -> Self {
        Self::guarded(config, Arc::new(Open))
    }

    /// As [`Fetch::new`], and has a guard asked about every host that is talked to, also those to which a
    /// server redirects.
    pub fn guarded(config: FetchConfig, guard: Arc<dyn Guard>) -> Self {
        Self { clients: Clients::new(config, Arc::clone(&guard)), guard }
    }

    async fn fetch(&self, input: &FetchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let url = parse(&input.url)?;
        let may_ask = |host: &str| self.guard.check_host(&cx.call, host);
        let (response, is_redirected) = self.clients.get(url, may_ask).await?;
        let mut page = Page::read(response, input.r#as.unwrap_or_default()).await?;
        if is_redirected {
            page.about.push_str(&format!(", redirected to {}", page.url));
        }
        let page = page.succeeded()?;
        let room = Bounds::new(cx.output_bytes).bytes().saturating_sub(NOTES + page.about.len());
        Ok(page.show(room.min(input.max_bytes.unwrap_or(usize::MAX))).into())
    }
}

impl Default for Fetch {
    fn default() -> Self {
        Self::new(FetchConfig::default())
    }
}

impl Tool for Fetch {
    const NAME: &'static str = "fetch";
    type Input = FetchInput;

    fn access(&self, input: &FetchInput) -> Access {
        // An address without a host reaches nothing: the call fails.
        let host = parse(&input.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        Access { network: host.into_iter().collect(), ..Access::none() }
    }

    fn recovery(&self, _: &FetchInput) -> Recovery {
        Recovery::Rerun
    }

    fn deadline(&self) -> Deadline {
        Deadline::Own
    }

    async fn run(&self, input: FetchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        in_time(cx, cx.tool_time, &input.url, self.fetch(&input, cx)).await
    }
}

/// Does work that waits for a server, until it is to stop or takes too long.
pub(crate) async fn in_time<T>(
    cx: &ToolContext,
    time: Option<Duration>,
    url: &str,
    work: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let late = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(ToolError::failed("canceled")),
        done = work => done,
        () = late => {
            let time = time.unwrap_or_default().as_secs_f64();
            Err(ToolError::TimedOut(format!("{url} did not answer within {time} s")))
        }
    }
}

fn parse(url: &str) -> Result<Url, ToolError> {
    let mut parsed = Url::parse(url.trim())
        .map_err(|error| ToolError::Failed(format!("{url:?} is no address: {error}")))?;
    parsed.set_fragment(None);
    Ok(parsed)
}

/// An answer, ready to be shown.
pub(crate) struct Page {
    status: StatusCode,
    url: Url,
    // Status and type.
    pub(crate) about: String,
    pub(crate) text: String,
    is_cut: bool,
}

impl Page {
    pub(crate) async fn read(response: Response, form: Form) -> Result<Self, ToolError> {
        let (status, url) = (response.status(), response.url().clone());
        let body = Body::of(response).await?;
        let mut about = status.to_string();
        if !body.media_type.is_empty() {
            about.push_str(&format!(", {}", body.media_type));
        }
        let text = (!is_media(&body.media_type)).then(|| body.text()).flatten();
        let text = match text {
            Some(text) if form == Form::Text && body.is_html(&text) => html::to_text(&text, &url),
            Some(text) => text,
            None if status.is_success() => {
                let (media_type, size) = (body.media_type_or_unknown(), body.size());
                return Err(ToolError::Failed(format!(
                    "{url} is no text but {media_type} of {size}; load it with bash (curl -o FILE)"
                )));
            }
            None => String::new(),
        };
        Ok(Self { status, url, about, text, is_cut: body.is_cut })
    }

    /// Returns the page, if it is what was asked for and no word about an error.
    pub(crate) fn succeeded(self) -> Result<Self, ToolError> {
        if self.status.is_success() {
            return Ok(self);
        }
        let Self { about, url, text, .. } = self;
        let shown = &text[..text.floor_char_boundary(ERROR_TEXT)];
        Err(ToolError::Failed(format!("{about} from {url}\n{shown}")))
    }

    /// Returns what the model gets to see, with at most so many bytes of the text.
    pub(crate) fn show(&self, room: usize) -> String {
        let mut shown = format!("[{}]\n", self.about);
        let text = &self.text[..self.text.floor_char_boundary(room)];
        shown.push_str(if self.text.is_empty() { "(empty)" } else { text });
        let mut notes = Vec::new();
        if text.len() < self.text.len() {
            notes.push(format!("cut: the first {} of {} bytes", text.len(), self.text.len()));
        }
        if self.is_cut {
            notes.push(format!("only the first {} KiB were loaded", body::MAX >> 10));
        }
        if !notes.is_empty() {
            shown.push_str(&format!("\n[{}]", notes.join("; ")));
        }
        shown
    }
}

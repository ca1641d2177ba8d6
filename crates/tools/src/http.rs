//! Tools that are requests to a server, as a configuration describes them.

mod answer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Map, Value};

use bowline_agent::tool::{
    Access, Deadline, DynTool, Prepared, Recovery, ToolContext, ToolError, ToolOutput,
};
use bowline_llm::ToolSpec;

use crate::configured::Described;
use crate::excerpt::Bounds;
use crate::fetch::client::{Clients, Request};
use crate::fetch::{FetchConfig, Form, NOTES, Page, in_time};
use crate::guard::{Open, Reach};
use crate::run::shorter;
use crate::template::{Template, in_url, plain};
use answer::Path;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// What a configured tool asks of a server.
#[derive(Clone, Default)]
pub struct HttpRequest {
    /// The method: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
    pub method: String,
    /// The address, with arguments in braces, though not in what says which server it is. They are
    /// encoded.
    pub url: String,
    /// Headers, with arguments in braces.
    pub headers: Vec<(String, String)>,
    /// The body, with arguments in braces: they are written as JSON, or encoded if the content type
    /// is that of a form. If there is none, arguments that have no place are the body as one JSON
    /// object, or the query of a method that has no body.
    pub body: Option<String>,
    /// Whether the server may be at an address that is not public.
    pub allow_private: bool,
    /// How long it may take, if that is less than any tool may.
    pub timeout: Option<Duration>,
    /// Which part of a JSON answer is shown, like `results[0].name`.
    pub response_path: Option<String>,
    /// What of that is shown under which name: name, and where it is in the answer.
    pub response_map: Vec<(String, String)>,
}

/// A tool that is a request to a server.
///
/// What it may reach is what [`Fetch`](crate::Fetch) may. Redirects are not followed: who configures
/// an address knows it, and headers may hold secrets that are meant for nobody else.
pub struct HttpTool {
    described: Described,
    method: Method,
    url: Template,
    // The address with `x` in all places, to compare with.
    pattern: Url,
    headers: Vec<(HeaderName, Template)>,
    body: Option<Template>,
    is_form: bool,
    timeout: Option<Duration>,
    path: Path,
    map: Vec<(String, Path)>,
    clients: Clients,
}

impl HttpTool {
    /// Makes the tool; the proxies are those of `config`.
    ///
    /// # Errors
    /// What is wrong with it, in words for a person.
    pub fn new(
        described: Described,
        request: &HttpRequest,
        config: FetchConfig,
    ) -> Result<Self, String> {
        let names = described.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let template = |text: &str| Template::parse(text, &names);
        let (url, pattern) = address(&request.url, &names)?;
        let host = pattern.host_str().unwrap_or_default().to_owned();
        let mut allowed = config.allowed;
        allowed.extend(request.allow_private.then_some(host));
        let headers = request.headers.iter().map(|(name, value)| {
            let valid = HeaderName::from_bytes(name.as_bytes());
            let name = valid.map_err(|_| format!("{name:?} is no name of a header"))?;
            Ok((name, template(value)?))
        });
        let headers: Vec<_> = headers.collect::<Result<_, String>>()?;
        let is_form = request.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case(CONTENT_TYPE.as_str()) && value.trim_start().starts_with(FORM)
        });
        let body = request.body.as_deref().map(template).transpose()?;
        let map = request.response_map.iter();
        let map = map.map(|(name, path)| Ok((name.clone(), Path::parse(path)?)));
        Ok(Self {
            method: method(&request.method)?,
            url,
            pattern,
            headers,
            body,
            is_form,
            timeout: request.timeout,
            path: Path::parse(request.response_path.as_deref().unwrap_or_default())?,
            map: map.collect::<Result<_, String>>()?,
            clients: Clients::new(FetchConfig { allowed, ..config }, Arc::new(Open)),
            described,
        })
    }

    fn has_body(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS)
    }

    fn request(&self, arguments: &Map<String, Value>) -> Result<Request, ToolError> {
        let mut url = self.filled_url(arguments)?;
        let mut headers = HeaderMap::new();
        let mut placed: Vec<&str> = self.url.names().collect();
        for (name, value) in &self.headers {
            placed.extend(value.names());
            let value = HeaderValue::from_str(&value.fill(arguments, plain));
            let value = value.map_err(|_| {
                ToolError::Failed(format!("the header {name} cannot have what was given for it"))
            })?;
            headers.append(name.clone(), value);
        }
        let mut rest = arguments.clone();
        rest.retain(|name, _| !placed.contains(&name.as_str()));
        let body = match &self.body {
            Some(body) if self.is_form => Some(body.fill(arguments, in_url)),
            Some(body) => Some(body.fill(arguments, Value::to_string)),
            None if self.has_body() => Some(Value::Object(rest).to_string()),
            None => {
                for (name, value) in &rest {
                    url.query_pairs_mut().append_pair(name, &plain(value));
                }
                None
            }
        };
        if body.is_some() && !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        Ok(Request { method: self.method.clone(), url, headers, body })
    }

    /// Returns the address of a call. However arguments are written, it is on the same server, and
    /// as deep as it was meant to be.
    fn filled_url(&self, arguments: &Map<String, Value>) -> Result<Url, ToolError> {
        let text = self.url.fill(arguments, in_url);
        let depth = |url: &Url| url.path().split('/').count();
        // Some servers decode a path before they look where it leads.
        let climbs = |url: &Url| {
            let path = url.path().to_ascii_lowercase().replace("%2f", "/").replace("%5c", "/");
            path.split('/').any(|part| matches!(part, "." | ".."))
        };
        let same = Url::parse(&text).ok().filter(|url| {
            let is_there = url.origin() == self.pattern.origin();
            is_there && depth(url) == depth(&self.pattern) && !climbs(url)
        });
        same.ok_or_else(|| ToolError::Failed(format!("the arguments make no address: {text}")))
    }

    async fn ask(&self, request: Request, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let response = self.clients.send(request, Reach::Public).await?;
        if response.status().is_redirection() {
            let to = response.headers().get("location").and_then(|to| to.to_str().ok());
            let (status, to) = (response.status(), to.unwrap_or("nowhere"));
            return Err(ToolError::Failed(format!("{status}: redirected to {to}, not followed")));
        }
        let mut page = Page::read(response, Form::Raw).await?.succeeded()?;
        page.text = answer::pick(page.text, &self.path, &self.map)?;
        let room = Bounds::new(cx.output_bytes).bytes().saturating_sub(NOTES + page.about.len());
        Ok(page.show(room).into())
    }
}

/// Reads an address, as a template and with `x` in all places.
fn address(text: &str, names: &[&str]) -> Result<(Template, Url), String> {
    let wrong = |what: &str| format!("url {text:?}: {what}");
    let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it is no http address"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if !matches!(scheme, "http" | "https") || authority.is_empty() {
        return Err(wrong("it is no http address"));
    }
    if authority.contains(['{', '}']) {
        return Err(wrong("arguments cannot say which server is asked"));
    }
    if authority.contains('@') {
        return Err(wrong("a user or password goes into a header"));
    }
    let url = Template::parse(text, names)?;
    let pattern = url.fill(&Map::new(), |_| "x".to_owned());
    let pattern = Url::parse(&pattern).map_err(|error| wrong(&error.to_string()))?;
    Ok((url, pattern))
}

fn method(name: &str) -> Result<Method, String> {
    let upper = name.to_ascii_uppercase();
    match upper.as_str() {
        "" => Ok(Method::GET),
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => {
            Method::from_bytes(upper.as_bytes()).map_err(|error| error.to_string())
        }
        _ => Err(format!("{name:?} is no method")),
    }
}

impl DynTool for HttpTool {
    fn spec(&self) -> ToolSpec {
        self.described.spec()
    }

    fn prepare(self: Arc<Self>, arguments: &str) -> Result<Prepared, ToolError> {
        let request = self.request(&self.described.read(arguments)?)?;
        let host = request.url.host_str().map(str::to_owned);
        let only_asks = matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS);
        Ok(Prepared {
            access: Access { network: host.into_iter().collect(), ..Access::none() },
            recovery: if only_asks { Recovery::Rerun } else { Recovery::Unknown },
            deadline: Deadline::Own,
            run: Box::new(move |cx| {
                Box::pin(async move {
                    let time = shorter(self.timeout, cx.tool_time);
                    let url = request.url.to_string();
                    in_time(&cx, time, &url, self.ask(request, &cx)).await
                })
            }),
        })
    }
}

// Headers and the address may hold secrets.
impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpTool").field(&self.described.name).finish()
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

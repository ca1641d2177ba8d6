//! The way out of a sandbox: a small HTTP proxy that lets some hosts through.
//!
//! It listens in the network of the sandbox and connects from outside, so nothing goes past it. It looks
//! at the name that is asked for, and then at the addresses that the name has, as `fetch` does: one that
//! is not public is reached only if it is itself on the list, or if `localhost` is.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::fetch::{is_localhost, is_public};
use crate::guard::{BUT, EVERYTHING};

/// The longest head of a request.
const LONGEST_HEAD: usize = 64 * 1024;

/// How long a head may take to come, and a connection to be made.
const TIME: Duration = Duration::from_secs(30);

/// The most connections at once; more wait.
const MOST: usize = 256;

/// The hosts that were asked for in vain, by owner.
#[derive(Debug, Default)]
pub(crate) struct Refused(Mutex<BTreeMap<String, Vec<String>>>);

impl Refused {
    /// The most that are kept of one owner.
    const MOST: usize = 16;

    pub(crate) fn take(&self, owner: &str) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(owner).unwrap_or_default()
    }

    fn add(&self, owner: &str, host: &str) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hosts = refused.entry(owner.to_owned()).or_default();
        if hosts.len() < Self::MOST && !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
    }
}

/// Who may talk to whom.
#[derive(Debug)]
pub(crate) struct Permitted {
    pub(crate) owner: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) refused: Arc<Refused>,
}

/// Serves a sandbox until nobody is left in it.
pub(crate) async fn serve(listener: OwnedFd, permitted: Permitted) {
    let listener = std::net::TcpListener::from(listener);
    let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
    let Ok(listener) = listener else { return };
    let permitted = Arc::new(permitted);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST => match accepted {
                Ok((client, _)) => {
                    connections.spawn(connect(client, Arc::clone(&permitted)));
                }
                // Of one connection, or because there can be no more files for now.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            _ = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Serves one connection.
async fn connect(mut client: TcpStream, permitted: Arc<Permitted>) {
    if let Err(refusal) = pass(&mut client, &permitted).await {
        let Refusal { status, line } = refusal;
        let length = line.len() + 1;
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{line}\n"
        );
        // Who has gone does not need to hear it.
        let _ = client.write_all(answer.as_bytes()).await;
        let _ = client.shutdown().await;
    }
}

/// Why a request goes nowhere.
struct Refusal {
    status: &'static str,
    line: String,
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self { status: "502 Bad Gateway", line: error.to_string() }
    }
}

/// Lets a request through, and then whatever both sides say.
async fn pass(client: &mut TcpStream, permitted: &Permitted) -> Result<(), Refusal> {
    let late = |_| Refusal { status: "408 Request Timeout", line: "too slow".to_owned() };
    let (head, rest) = timeout(TIME, read_head(client)).await.map_err(late)??;
    let request = Request::parse(&head).ok_or_else(|| Refusal {
        status: "400 Bad Request",
        line: "this proxy takes CONNECT host:port, and http addresses as a whole".to_owned(),
    })?;
    let host = request.host.as_str();
    if !is_listed(&permitted.hosts, host) {
        permitted.refused.add(&permitted.owner, host);
        let is_for_its_form =
            is_number(host) && permitted.hosts.iter().any(|it| is_meant(it, host));
        let why = match is_for_its_form {
            true => " by its number, which may be that of a host that is denied by name",
            false => "",
        };
        return Err(Refusal {
            status: "403 Forbidden",
            line: format!(
                "bowline: the sandbox does not let commands talk to {host}{why}; --allow 'net({host})' would"
            ),
        });
    }
    let connected = timeout(TIME, reach(&request, &permitted.hosts)).await.map_err(late)?;
    let mut server = connected?;
    match &request.forward {
        None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        Some(head) => server.write_all(head).await?,
    }
    server.write_all(&rest).await?;
    // Either side may just go; there is nobody to tell.
    let _ = copy_bidirectional(client, &mut server).await;
    Ok(())
}

/// Reads up to the end of a head; returns it, and what has come behind it.
async fn read_head(client: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    loop {
        if let Some(at) = head.windows(END.len()).position(|bytes| bytes == END) {
            let rest = head.split_off(at + END.len());
            return Ok((head, rest));
        }
        if head.len() > LONGEST_HEAD || client.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    host: String,
    port: u16,
    /// The head as the server gets it, unless everything is passed on as it is.
    forward: Option<Vec<u8>>,
}

impl Request {
    fn parse(head: &[u8]) -> Option<Self> {
        let head = std::str::from_utf8(head).ok()?;
        let (line, fields) = head.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        let is_tunnel = method == "CONNECT";
        // A name is read as in an address, so that both know the same forms of it.
        let url = match is_tunnel {
            true => Url::parse(&format!("https://{target}/")).ok()?,
            false => Url::parse(target).ok()?,
        };
        let is_plain = url.username().is_empty() && url.password().is_none();
        if !is_plain || (!is_tunnel && url.scheme() != "http") {
            return None;
        }
        let host = url.host_str()?.trim_matches(['[', ']']).trim_end_matches('.').to_owned();
        let port = url.port_or_known_default()?;
        if is_tunnel {
            return Some(Self { host, port, forward: None });
        }
        let path = url.path();
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let named = url.host_str().unwrap_or_default();
        let authority = url.port().map_or(named.to_owned(), |port| format!("{named}:{port}"));
        // One request a connection: a second one on it could name another host.
        let mut forward = format!(
            "{method} {path}{query} {version}\r\nhost: {authority}\r\nconnection: close\r\n"
        );
        for field in fields.split("\r\n").filter(|field| !field.is_empty()) {
            let name = field.split(':').next().unwrap_or_default().trim();
            let is_own =
                ["host", "connection", "proxy-connection", "proxy-authorization", "keep-alive"]
                    .iter()
                    .any(|own| name.eq_ignore_ascii_case(own));
            if !is_own {
                forward.push_str(field);
                forward.push_str("\r\n");
            }
        }
        forward.push_str("\r\n");
        Some(Self { host, port, forward: Some(forward.into_bytes()) })
    }
}

/// Connects to a host whose name is on the list.
async fn reach(request: &Request, hosts: &[String]) -> Result<TcpStream, Refusal> {
    let Request { host, port, .. } = request;
    let addresses: Vec<SocketAddr> = lookup_host((host.as_str(), *port)).await?.collect();
    let is_named = |ip: IpAddr| {
        // Nobody else can give this name to another address, so the name says which one is meant.
        let named = ip.to_string();
        hosts.iter().any(|known| plain(known) == named) || (is_localhost(host) && ip.is_loopback())
    };
    let private =
        addresses.iter().find(|address| !is_public(address.ip()) && !is_named(address.ip()));
    if let Some(private) = private {
        let ip = private.ip();
        return Err(Refusal {
            status: "403 Forbidden",
            line: format!(
                "bowline: {host} is at {ip}, which is not a public address; --allow 'net({ip})' would let commands talk to it"
            ),
        });
    }
    Ok(TcpStream::connect(&*addresses).await?)
}

/// Tells whether a host is on a list of names: itself, or by one that stands for more if it is not excepted.
fn is_listed(hosts: &[String], host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let excepts = |known: &str| {
        // Nobody can tell whose number it is.
        let may_be = is_number(&host) && !is_number(&plain(known));
        may_be || plain(known) == host || is_meant(known, &host)
    };
    let mut excepted = hosts.iter().filter_map(|known| known.strip_prefix(BUT));
    hosts.iter().any(|known| plain(known) == host)
        || hosts.iter().any(|known| is_meant(known, &host)) && !excepted.any(excepts)
}

fn is_number(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

/// Tells whether a name that stands for more stands for a host too.
fn is_meant(known: &str, host: &str) -> bool {
    let known = plain(known);
    match known.strip_prefix("*.") {
        Some(domain) => {
            !is_number(host) && host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        }
        None => known == EVERYTHING,
    }
}

fn plain(known: &str) -> String {
    known.trim_end_matches('.').trim_matches(['[', ']']).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn forwarded(head: &str) -> Option<(String, u16, Option<String>)> {
        let request = Request::parse(head.as_bytes())?;
        let forward = request.forward.map(|head| String::from_utf8(head).unwrap());
        Some((request.host, request.port, forward))
    }

    #[test]
    fn requests_name_their_host_in_one_place() {
        let tunnel = forwarded("CONNECT Example.COM.:443 HTTP/1.1\r\nHost: other\r\n\r\n");
        assert_eq!(tunnel, Some(("example.com".to_owned(), 443, None)));
        let plain = forwarded(
            "GET http://a.example:81/x?y=1#z HTTP/1.1\r\nHost: b.example\r\nA: b\r\nProxy-Connection: k\r\n\r\n",
        );
        let head = "GET /x?y=1 HTTP/1.1\r\nhost: a.example:81\r\nconnection: close\r\nA: b\r\n\r\n";
        assert_eq!(plain, Some(("a.example".to_owned(), 81, Some(head.to_owned()))));
        let refused = [
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\n\r\n",
            "GET http://u:p@a.example/ HTTP/1.1\r\n\r\n",
            "CONNECT a.example:443 b HTTP/1.1\r\n\r\n",
            "CONNECT u@a.example:443 HTTP/1.1\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
        ];
        for head in refused {
            assert_eq!(forwarded(head), None, "{head}");
        }
        // However a number is written, it is the same one.
        let number = forwarded("CONNECT 0x7f.1:80 HTTP/1.1\r\n\r\n");
        assert_eq!(number, Some(("127.0.0.1".to_owned(), 80, None)));
    }

    #[tokio::test]
    async fn a_name_on_the_list_does_not_open_a_private_address() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        // Whoever resolves names takes this for one of 127.0.0.1; no server of names is asked.
        let request = Request { host: "127.1".to_owned(), port, forward: None };
        let hosts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let refused = reach(&request, &hosts(&["127.1", "localhost", "*.1"])).await.err().unwrap();
        assert_eq!(refused.status, "403 Forbidden");
        assert!(refused.line.contains("127.1 is at 127.0.0.1, which is not a public address"));
        assert!(reach(&request, &hosts(&["127.1", "127.0.0.1"])).await.is_ok());
    }

    #[test]
    fn a_star_stands_for_what_is_under_a_name() {
        let hosts = ["a.example".to_owned(), "*.B.example".to_owned(), "127.0.0.1".to_owned()];
        for host in ["a.example", "A.example", "x.b.example", "y.x.b.example", "127.0.0.1"] {
            assert!(is_listed(&hosts, host), "{host}");
        }
        for host in ["x.a.example", "b.example", "ab.example", "xb.example", "a.example.evil", ""] {
            assert!(!is_listed(&hosts, host), "{host}");
        }
    }

    #[test]
    fn what_is_excepted_is_reached_only_if_it_is_named_itself() {
        let names = ["*", "!evil.example", "!*.bad.example", "one.bad.example", "192.0.2.1"];
        let hosts = names.map(str::to_owned);
        for host in ["a.example", "bad.example", "one.bad.example", "192.0.2.1"] {
            assert!(is_listed(&hosts, host), "{host}");
        }
        let refused = ["evil.example", "EVIL.example", "two.bad.example", "x.one.bad.example"];
        for host in refused.into_iter().chain(["192.0.2.2", "2001:db8::1"]) {
            assert!(!is_listed(&hosts, host), "{host}");
        }
        // Where only numbers are excepted the others are not in question.
        let hosts = ["*", "!192.0.2.1"].map(str::to_owned);
        assert!(is_listed(&hosts, "192.0.2.2") && !is_listed(&hosts, "192.0.2.1"));
    }

    #[tokio::test]
    async fn a_name_that_is_excepted_is_not_reached_by_its_number() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let asked = |hosts: &[&str], host: &str| {
            let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = door.local_addr().unwrap();
            let hosts = hosts.iter().map(|&name| name.to_owned()).collect();
            let permitted = Permitted { owner: "one".to_owned(), hosts, refused: Arc::default() };
            let head = format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n");
            async move {
                let serving = tokio::spawn(serve(door.into(), permitted));
                let mut client = TcpStream::connect(address).await.unwrap();
                client.write_all(head.as_bytes()).await.unwrap();
                let mut answer = vec![0; 512];
                let size = client.read(&mut answer).await.unwrap();
                serving.abort();
                String::from_utf8_lossy(&answer[..size]).into_owned()
            }
        };
        let refused = asked(&["*", "!evil.example", "localhost"], "127.0.0.1").await;
        assert!(refused.starts_with("HTTP/1.1 403 Forbidden"), "{refused}");
        assert!(
            refused.contains("127.0.0.1 by its number, which may be that of a host that is"),
            "{refused}"
        );
        let named = asked(&["*", "!evil.example", "127.0.0.1"], "127.0.0.1").await;
        assert!(named.starts_with("HTTP/1.1 200"), "{named}");
    }
}

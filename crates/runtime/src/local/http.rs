//! As much HTTP as it takes to ask a server on this machine what it is.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long an answer may be, in bytes.
const LIMIT: u64 = 4 << 20;

/// Tells whether somebody listens.
pub(super) async fn knock(address: SocketAddr) -> Option<()> {
    TcpStream::connect(address).await.ok().map(drop)
}

/// Asks for a document; `None` if it is no success or no JSON.
pub(super) async fn get(address: SocketAddr, path: &str) -> Option<Value> {
    ask(address, &format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n"), "").await
}

/// As [`get`], with a question.
pub(super) async fn post(address: SocketAddr, path: &str, question: &Value) -> Option<Value> {
    let question = question.to_string();
    let head = format!(
        "POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n",
        question.len()
    );
    ask(address, &head, &question).await
}

/// Sends a request and reads to the end of the connection: with HTTP/1.0 that is the end of the
/// answer.
async fn ask(address: SocketAddr, head: &str, body: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("{head}accept: application/json\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(LIMIT).read_to_end(&mut answer).await.ok()?;
    body_of(&answer)
}

fn body_of(answer: &[u8]) -> Option<Value> {
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..at)?).ok()?;
    let body = answer.get(at + 4..)?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?;
    if status != "200" {
        return None;
    }
    let is_chunked = lines.any(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("transfer-encoding:") && line.contains("chunked")
    });
    if is_chunked {
        serde_json::from_slice(&unchunked(body)?).ok()
    } else {
        serde_json::from_slice(body).ok()
    }
}

/// Joins the pieces of a body; some servers send pieces although HTTP/1.0 has none.
fn unchunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(body.get(..end)?).ok()?;
        let size = size.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        let start = end + 2;
        whole.extend_from_slice(body.get(start..start.checked_add(size)?)?);
        body = body.get(start + size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_read_whole_or_in_pieces_and_only_from_a_success() {
        let whole = b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n{\"a\": 1}";
        assert_eq!(body_of(whole), Some(json!({ "a": 1 })));
        let pieces = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                       4\r\n{\"a\"\r\n4;x\r\n: 1}\r\n0\r\n\r\n";
        assert_eq!(body_of(pieces), Some(json!({ "a": 1 })));
        assert_eq!(body_of(b"HTTP/1.1 401 No\r\n\r\n{}"), None);
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\n\r\n<html>"), None);
        assert_eq!(body_of(b"SSH-2.0-OpenSSH_9.6\r\n"), None);
        let broken = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n";
        assert_eq!(body_of(broken), None);
    }
}

//! Sockets, and hosts that may be reached by a proxy.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use bowline_tools::guard::Network;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::cell::Cell;

#[tokio::test]
async fn the_machine_is_not_reached_by_the_network() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    for cell in Cell::all() {
        let calls = [
            format!("socket.create_connection(('127.0.0.1', {tcp_port}), 5)"),
            format!("socket.create_connection(('::ffff:127.0.0.1', {tcp_port}), 5)"),
            "socket.create_connection(('192.0.2.1', 80), 5)".to_owned(),
            "socket.create_connection(('2001:db8::1', 80), 5)".to_owned(),
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))"
                .to_owned(),
        ];
        for call in calls {
            assert_ne!(cell.errno(&call).await, "done", "{}: {call}", cell.kind);
        }
        let call = format!(
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp_port}))"
        );
        let _ = cell.errno(&call).await;
        let nothing = udp.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
        // Names are not resolved, whatever the answer would be.
        cell.bash("getent ahosts example.com").await.is_kept();
    }
}

#[tokio::test]
async fn sockets_of_other_families_are_not_made() {
    // Files, packets, VMs, cryptography, and the kernel in all its parts but routes.
    let families = [
        (1, 1, 0),
        (1, 2, 0),
        (17, 3, 0),
        (40, 1, 0),
        (38, 5, 0),
        (31, 3, 0),
        (16, 3, 15),
        (16, 3, 9),
        (16, 3, 12),
        (15, 3, 2),
        (44, 3, 0),
    ];
    for cell in Cell::all() {
        for (family, kind, protocol) in families {
            let call = format!("syscall({}, {family}, {kind}, {protocol})", libc::SYS_socket);
            assert_eq!(cell.errno(&call).await, "EPERM", "{}: {call}", cell.kind);
        }
        let raw = format!("syscall({}, 2, 3, 1)", libc::SYS_socket);
        assert_eq!(cell.errno(&raw).await, "EPERM", "{}", cell.kind);
        assert_eq!(cell.errno("socket.socketpair()").await, "done");
    }
}

#[tokio::test]
async fn sockets_that_are_files_or_have_names_are_not_reached() {
    let name = format!("bowline-test-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
    let _named = UnixListener::bind_addr(&abstract_name).unwrap();
    for cell in Cell::all() {
        let path = cell.root().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let path = path.display();
        for call in [
            "socket.socket(socket.AF_UNIX)".to_owned(),
            // Each of a pair of datagram sockets can be sent from to anywhere.
            format!(
                "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '{path}')"
            ),
            format!("socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b'x', '{path}')"),
            format!("socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)[0].connect('{path}')"),
            format!(
                "socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0].connect('{path}')"
            ),
            format!(
                "socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)[0].connect('\\0{name}')"
            ),
        ] {
            assert_ne!(cell.errno(&call).await, "done", "{}: {call}", cell.kind);
        }
        assert!(socket.recv(&mut [0; 8]).is_err());
    }
    // Even if sockets that are files may be made, those without a file belong to somebody else.
    for mut cell in Cell::all() {
        cell.confinement.unix_sockets = true;
        let call = format!("socket.socket(socket.AF_UNIX).connect('\\0{name}')");
        assert_ne!(cell.errno(&call).await, "done", "{}", cell.kind);
        let mut cell = cell.network(Network::Full);
        cell.confinement.unix_sockets = true;
        assert_ne!(cell.errno(&call).await, "done", "{}", cell.kind);
        let listener = UnixListener::bind(cell.root().join("listener")).unwrap();
        let call = format!(
            "socket.socket(socket.AF_UNIX).connect('{}')",
            cell.root().join("listener").display()
        );
        cell.give(&cell.root().join("listener"));
        assert_eq!(cell.errno(&call).await, "done", "{}", cell.kind);
        drop(listener);
    }
}

#[tokio::test]
async fn commands_of_one_agent_share_a_loopback() {
    for cell in Cell::with_namespaces() {
        let server = "import socket; s = socket.create_server(('127.0.0.1', 4321)); open('up', 'w'); s.accept()[0].sendall(b'hello')";
        let client = "import os, time, socket\nwhile not os.path.exists('up'): time.sleep(0.01)\nprint(socket.create_connection(('127.0.0.1', 4321)).recv(9))";
        let (server, client) = tokio::join!(cell.python(server), cell.python(client));
        server.is_done();
        assert_eq!(client.is_done(), "b'hello'");
        let mut other = cell.command("/bin/bash", &["-c", "exec 3<> /dev/tcp/127.0.0.1/4321"]);
        other.owner = "session/other".to_owned();
        cell.run(other).await.is_kept();
    }
}

#[tokio::test]
async fn the_whole_network_is_the_network_of_the_machine() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = format!(
        "socket.create_connection(('127.0.0.1', {}), 5)",
        listener.local_addr().unwrap().port()
    );
    for cell in Cell::all() {
        let cell = cell.network(Network::Full);
        assert_eq!(cell.errno(&call).await, "done", "{}", cell.kind);
    }
}

/// Serves one short answer after the other, and returns the port.
async fn server() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let read = client.read(&mut head).await.unwrap();
            let line = String::from_utf8_lossy(&head[..read])
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{line}",
                line.len()
            );
            client.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

const ASK: &str = "
def ask(head):
    s = socket.create_connection(('127.0.0.1', 3128), 10)
    s.sendall(head.encode())
    got = b''
    while True:
        more = s.recv(4096)
        if not more or b'established' in more: return s, (got + more).decode()
        got += more
";

#[tokio::test]
async fn hosts_on_the_list_are_reached_by_the_proxy_and_nothing_else_is() {
    let port = server().await;
    for cell in Cell::with_namespaces() {
        let hosts = ["127.0.0.1", "localhost", "*.example.com"].map(str::to_owned).to_vec();
        let kind = cell.kind;
        let cell = cell.network(Network::Hosts(hosts));
        let ask = async |head: &str| {
            let script = format!("import socket{ASK}\nprint(ask({head:?})[1])");
            cell.python(&script).await.is_done().to_owned()
        };
        let plain = ask(&format!("GET http://127.0.0.1:{port}/a HTTP/1.1\r\n\r\n")).await;
        assert!(plain.ends_with("GET /a HTTP/1.1"), "{kind}: {plain}");
        let tunnel = format!(
            "import socket{ASK}\ns, _ = ask('CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n')\ns.sendall(b'GET /b HTTP/1.1\\r\\n\\r\\n')\nprint(s.recv(4096).decode())"
        );
        let tunnel = cell.python(&tunnel).await;
        assert!(tunnel.is_done().ends_with("GET /b HTTP/1.1"), "{kind}");
        let refused = [
            ("GET http://evil.example/ HTTP/1.1\r\n\r\n", "net(evil.example)"),
            ("GET http://example.com/ HTTP/1.1\r\n\r\n", "net(example.com)"),
            (
                "CONNECT example.com.evil.example:443 HTTP/1.1\r\n\r\n",
                "net(example.com.evil.example)",
            ),
            ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", "net(169.254.169.254)"),
            ("CONNECT 127.0.0.2:80 HTTP/1.1\r\n\r\n", "net(127.0.0.2)"),
            ("CONNECT [::1]:80 HTTP/1.1\r\n\r\n", "net(::1)"),
        ];
        for (head, way) in refused {
            let told = ask(head).await;
            assert!(told.starts_with("HTTP/1.1 403") && told.contains(way), "{kind}: {told}");
        }
        // Not past the proxy.
        let direct = format!("socket.create_connection(('127.0.0.1', {port}), 5)");
        assert_ne!(cell.errno(&direct).await, "done", "{kind}");
    }
}

#[tokio::test]
async fn localhost_is_the_machine_if_it_is_said() {
    let port = server().await;
    let ask = |host: &str| {
        format!(
            "import socket{ASK}\nprint(ask('GET http://{host}:{port}/ HTTP/1.1\\r\\n\\r\\n')[1])"
        )
    };
    let cell = Cell::new().network(Network::Hosts(vec!["localhost".to_owned()]));
    for host in ["localhost", "LOCALHOST."] {
        let told = cell.python(&ask(host)).await;
        assert!(told.is_done().ends_with("GET / HTTP/1.1"), "{host}: {told:?}");
    }
    // The name was said, and not the address.
    let told = cell.python(&ask("127.0.0.1")).await;
    assert!(told.is_done().contains("net(127.0.0.1)"), "{told:?}");
    let cell = Cell::new().network(Network::Hosts(vec!["*.localhost".to_owned()]));
    let told = cell.python(&ask("localhost")).await;
    assert!(told.is_done().contains("net(localhost)"), "{told:?}");
}

#[tokio::test]
async fn hosts_one_by_one_need_namespaces() {
    let cell = Cell::without_namespaces().network(Network::Hosts(vec!["a.example".to_owned()]));
    let refused = cell.try_run(cell.command("/bin/true", &[])).await.unwrap_err().to_string();
    assert!(refused.contains("a.example") && refused.contains("was not run"), "{refused}");
}

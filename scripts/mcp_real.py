"""Calls of real MCP servers through `bowline exec`, for `scripts/mcp-real`.

    python mcp_real.py BOWLINE FOLDER NODE

A scripted model calls tools of servers from npm and PyPI, over their standard input and output and over
HTTP; what comes back must be what they do.
"""

import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 60


class Model(http.server.BaseHTTPRequestHandler):
    """Speaks Chat Completions: one call after the other, then an answer."""

    calls = []
    seen = []

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Model.seen.append(request)
        done = sum(message["role"] == "tool" for message in request["messages"])
        if done < len(Model.calls):
            name, arguments = Model.calls[done]
            message = {"tool_calls": [{"id": f"call_{done}", "type": "function", "function": {
                "name": name, "arguments": json.dumps(arguments)}}]}
            finish = "tool_calls"
        else:
            message, finish = {"content": "done"}, "stop"
        body = json.dumps({"id": "x", "usage": {"prompt_tokens": 1, "completion_tokens": 1}, "choices": [
            {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def expectations(work):
    """Each call, and what its result must hold."""
    return [
        ("mcp__everything__echo", {"message": "héllo"}, "Echo: héllo"),
        ("mcp__everything__get-sum", {"a": 2, "b": 40}, r"42"),
        ("mcp__everything__get-tiny-image", {}, "image you requested"),
        ("mcp__everything__get-structured-content", {"location": "Chicago"}, "temperature"),
        ("mcp__everything__get-resource-links", {"count": 2}, r"\[resource demo://"),
        ("mcp__everything__get-resource-reference", {"resourceType": "Text", "resourceId": 1}, r"\[demo://"),
        ("mcp__everything__get-roots-list", {}, re.escape(work)),
        ("mcp__everything__trigger-long-running-operation", {"duration": 1, "steps": 2}, "completed"),
        ("mcp__everything__get-sum", {"a": "two", "b": 1}, "Error|error|Invalid"),
        ("mcp__remote__echo", {"message": "over HTTP"}, "Echo: over HTTP"),
        ("mcp_resources", {"server": "everything"}, "demo://resource/"),
        ("mcp_resources", {"server": "everything", "uri": "demo://resource/dynamic/text/1"}, "Resource 1"),
        ("mcp__fs__write_file", {"path": f"{work}/made.txt", "content": "made\n"}, "Successfully wrote"),
        ("mcp__fs__read_text_file", {"path": f"{work}/made.txt"}, "^made"),
        ("mcp__fs__read_text_file", {"path": "/etc/hostname"}, "Access denied"),
        ("mcp__time__get_current_time", {"timezone": "Europe/Berlin"}, "Europe/Berlin"),
    ]


def configuration(kept, node, work, provider, remote):
    server = lambda name, *more: json.dumps([f"{kept}/node_modules/.bin/{name}", *more])
    return f"""
model = "scripted/model"
[providers.scripted]
base_url = "http://127.0.0.1:{provider}/v1"
stream = false
[mcp]
schema_bytes = 0
[mcp_servers.everything]
command = "{node}"
args = {server("mcp-server-everything")}
startup_timeout = "{PATIENCE}s"
[mcp_servers.remote]
url = "http://127.0.0.1:{remote}/mcp"
[mcp_servers.fs]
command = "{node}"
args = {server("mcp-server-filesystem", work)}
startup_timeout = "{PATIENCE}s"
[mcp_servers.time]
command = "{kept}/venv/bin/mcp-server-time"
startup_timeout = "{PATIENCE}s"
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server for HTTP does not start")


def text_of(message):
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def left(work):
    """The processes that still work in a folder."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{process}/cwd").startswith(work):
                found.append(open(f"/proc/{process}/cmdline").read().replace("\0", " "))
        except OSError:
            pass
    return found


def main():
    bowline, kept, node = map(os.path.abspath, sys.argv[1:4])
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    remote = free_port()
    server = subprocess.Popen(
        [node, f"{kept}/node_modules/.bin/mcp-server-everything", "streamableHttp"],
        env={"PORT": str(remote), "PATH": os.environ["PATH"]}, cwd="/",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(remote)
        with tempfile.TemporaryDirectory() as home:
            home = os.path.realpath(home)
            work = f"{home}/work"
            os.makedirs(f"{home}/home/config")
            os.mkdir(work)
            with open(f"{home}/home/config/config.toml", "w") as config:
                config.write(configuration(kept, node, work, model.server_address[1], remote))
            expected = expectations(work)
            Model.calls = [(name, arguments) for name, arguments, _ in expected]
            environment = {"PATH": os.environ["PATH"], "HOME": home, "BOWLINE_HOME": f"{home}/home"}
            done = subprocess.run([bowline, "exec", "go"], cwd=work, env=environment, text=True,
                                  capture_output=True, timeout=3 * PATIENCE)
            assert done.returncode == 0, done.stderr
            results = [m for m in Model.seen[-1]["messages"] if m["role"] == "tool"]
            for (name, arguments, wanted), result in zip(expected, results, strict=True):
                said = text_of(result)
                assert re.search(wanted, said, re.MULTILINE), f"{name} {arguments}: {said}\n{done.stderr}"
                print(f"{name}: {said.strip().splitlines()[0][:80]}")
            assert "data:image/png;base64," in json.dumps(Model.seen[-1]), "the image is lost"
            assert not left(work), left(work)
    finally:
        server.kill()
        server.wait()
        model.shutdown()


main()

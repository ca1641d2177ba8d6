"""What `bowline exec` tells an OTLP receiver, checked by others, for `scripts/otel`.

    python otel.py BOWLINE

A scripted model calls two tools, one of which fails, and answers; then a model fails. Every span must
keep to the conventions for generative AI, and hang together with the others of its run.
"""

import asyncio
import http.server
import json
import os
import socket
import sys
import tempfile
import threading
from types import SimpleNamespace

from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.trace import SpanKind
from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings
from pytest_genai_semconv import assert_genai_span_compliant

PATIENCE = 30
KINDS = {Span.SPAN_KIND_INTERNAL: SpanKind.INTERNAL, Span.SPAN_KIND_CLIENT: SpanKind.CLIENT}


class Model(http.server.BaseHTTPRequestHandler):
    """Speaks Chat Completions: two calls, then an answer; nothing for the model `broken`."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if request["model"] == "broken":
            return self.answer(401, {"error": {"message": "no such key", "code": "invalid_api_key"}})
        if any(message["role"] == "tool" for message in request["messages"]):
            delta, finish = {"content": "All done."}, "stop"
        else:
            calls = [("call_1", {"command": "echo hello"}), ("call_2", {"command": "exit 3"})]
            delta = {"tool_calls": [
                {"index": index, "id": id, "type": "function",
                 "function": {"name": "bash", "arguments": json.dumps(arguments)}}
                for index, (id, arguments) in enumerate(calls)
            ]}
            finish = "tool_calls"
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        message = {"role": "assistant", **delta}
        self.answer(200, {"id": "x", "usage": usage, "choices": [
            {"index": 0, "message": message, "finish_reason": finish}]})

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def plain(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(value) for value in value.array_value.values]
    return getattr(value, kind)


def seen(span):
    """A span as the assertions want it."""
    attributes = {pair.key: plain(pair.value) for pair in span.attributes}
    return SimpleNamespace(name=span.name, kind=KINDS[span.kind], attributes=attributes, raw=span)


async def run(bowline, home, port, model, provider, expected):
    """Runs the command, and returns the spans that come until the run's own."""
    spans = []

    async def gather():
        async for span in receiver.stream_traces():
            spans.append(seen(span))
            if span.name.startswith("invoke_agent"):
                return

    settings = OtelTapHttpProtobufReceiverSettings(http_port=port)
    async with OtelTapHttpProtobufReceiver(settings) as receiver:
        gathering = asyncio.create_task(gather())
        cost = asyncio.create_task(receiver.await_metric(
            lambda metric: metric.name == "gen_ai.client.operation.duration", timeout=PATIENCE))
        process = await asyncio.create_subprocess_exec(
            bowline, "exec", "-c", "providers.openai.stream=false", "-c", "providers.openai.wire=chat",
            "-m", f"openai/{model}", "Say hello.",
            cwd=home,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"], "HOME": home, "BOWLINE_HOME": f"{home}/home",
                "OPENAI_API_KEY": "sk-not-a-key", "OPENAI_BASE_URL": f"http://127.0.0.1:{provider}/v1",
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            },
        )
        _, err = await process.communicate()
        assert process.returncode == expected, err.decode()
        assert b"traces" not in err, err.decode()
        await asyncio.wait_for(gathering, PATIENCE)
        metric = await cost
        assert metric.histogram.data_points[0].count > 0
    return spans


def check(spans, names):
    """Holds spans against the conventions, and against what they must be."""
    for span in spans:
        assert_genai_span_compliant(span)
        assert span.raw.end_time_unix_nano >= span.raw.start_time_unix_nano > 0, span
    assert sorted(span.name for span in spans) == sorted(names), [span.name for span in spans]
    root = spans[-1]
    assert not root.raw.parent_span_id
    for span in spans[:-1]:
        assert (span.raw.trace_id, span.raw.parent_span_id) == (root.raw.trace_id, root.raw.span_id)
    assert len({span.attributes["gen_ai.conversation.id"] for span in spans}) == 1


async def main():
    bowline = os.path.abspath(sys.argv[1])
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    provider, port = model.server_address[1], free_port()
    with tempfile.TemporaryDirectory() as home:
        spans = await run(bowline, home, port, "scripted", provider, 0)
        check(spans, ["chat scripted", "execute_tool bash", "execute_tool bash", "chat scripted",
                      "invoke_agent default"])
        assert spans[-1].attributes["gen_ai.usage.input_tokens"] == 200
        broken = await run(bowline, home, port, "broken", provider, 5)
        check(broken, ["chat broken", "invoke_agent default"])
        assert all(span.attributes["error.type"] == "auth" for span in broken)
    for span in spans + broken:
        print(f"{span.name}: as the conventions say")
    model.shutdown()


asyncio.run(main())

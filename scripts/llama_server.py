"""llama.cpp's own HTTP server on a free port of loopback, for `scripts/llama-server`.

    python llama_server.py MODEL.gguf SECONDS

Prints its address when it is ready, and ends after so many seconds whatever happens.
"""

import signal
import sys
import urllib.request

import xllamacpp

# What the model was made with knows no tools. This is the same with tool calls as Qwen and Hermes write
# them, from which the server learns how they look. The tools themselves are left out: the model is too
# small to make use of them, and reading them takes time.
TEMPLATE = """
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- for call in message.tool_calls or [] -%}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}
{{- (message.content or '') + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- for tool in tools or [] if false -%}{{- tool | tojson -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


def main():
    model, seconds = sys.argv[1:]
    signal.alarm(int(seconds))
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 4096
    params.n_parallel = 1
    params.warmup = False
    # Threads that wait for each other crawl where others work too, and one is enough for this model.
    params.cpuparams.n_threads = 1
    params.use_jinja = True
    params.chat_template = TEMPLATE
    # The likeliest word each time, so that every run says the same.
    params.sampling.temp = 0
    # Small models may never come to an end.
    params.n_predict = 256
    server = xllamacpp.Server(params)
    with urllib.request.urlopen(f"{server.listening_address}/health", timeout=30) as health:
        health.read()
    print(server.listening_address.removeprefix("http://"), flush=True)
    signal.pause()


main()

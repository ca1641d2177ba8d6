# `just` lists what there is.
default:
    @just --list

# Everything that must hold: .ci/run, and the tools it cannot rely on.
check: ci deny typos

# What CI runs: formatting, lints, tests, doc tests, docs.
ci:
    ./.ci/run

# Format everything.
fmt:
    cargo fmt --all

# All tests; arguments go to the runner.
test *arguments:
    ./scripts/test {{arguments}}

# The tests against a real llama.cpp server, which comes from PyPI; arguments go to them.
llama-server *arguments:
    ./scripts/llama-server {{arguments}}

# Spans of the command at a real OTLP receiver, checked against the conventions; both come from PyPI.
otel:
    ./scripts/otel

# Our reading of the Agent Skills standard beside that of its validators, which come from PyPI and npm.
skills-ref:
    ./scripts/skills-ref

# Real MCP servers through the command, and the protocol's conformance suite; from npm and PyPI.
mcp-real:
    ./scripts/mcp-real

# The demonstration.
demo:
    ./scripts/demo

# The benchmarks of the loop, of the wire, memory per idle session, and a crowd of sub-agents.
bench:
    cargo bench --locked -p bowline --bench loop
    cargo bench --locked -p bowline-llm --bench turns
    cargo bench --locked -p bowline-llm --bench streams
    cargo run --release --locked -p bowline --example idle_sessions
    cargo run --release --locked -p bowline-store --example crowd
    cargo run --release --locked -p bowline-runtime --example rule_check

# CPU and memory of the command against a scripted model server: `MOCKLLM=path just measure`.
measure *arguments:
    ./scripts/measure {{arguments}}

# Looks for inputs that break the laws in fuzz/src, each for so many seconds.
fuzz seconds="20" *laws:
    ./scripts/fuzz {{seconds}} {{laws}}

# Licences, duplicates and sources of dependencies.
deny:
    @cargo deny --version > /dev/null 2>&1 || { echo "cargo-deny is missing: cargo install --locked cargo-deny" >&2; exit 1; }
    cargo deny --log-level error check bans licenses sources

# Spelling.
typos:
    @typos --version > /dev/null 2>&1 || { echo "typos is missing: cargo install --locked typos-cli" >&2; exit 1; }
    typos

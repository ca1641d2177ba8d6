//! `.mcp.json`, as other programs write it.

use crate::config::{Node, Table, Value};

/// The keys of a server that mean the same here.
const KNOWN: [&str; 8] = ["type", "command", "args", "env", "cwd", "url", "headers", "enabled"];

/// Brings the content of a `.mcp.json` into the shape of a configuration. Returns it with the keys that
/// mean nothing here.
pub(crate) fn to_ours(mut table: Table) -> Result<(Table, Vec<String>), (Option<usize>, String)> {
    let mut ignored = Vec::new();
    let servers = table.remove("mcpServers");
    ignored.extend(table.into_keys());
    let Some(Node { value, place }) = servers else { return Ok((Table::new(), ignored)) };
    let Value::Table(servers) = value else {
        return Err((place.line, "mcpServers: a table is expected here".to_owned()));
    };
    let mut ours = Table::new();
    for (name, node) in servers {
        let Value::Table(server) = node.value else {
            let what = format!("mcpServers.{name}: a table is expected here");
            return Err((node.place.line, what));
        };
        let server = server_of(&name, server, &mut ignored);
        ours.insert(name, Node { value: Value::Table(server), place: node.place });
    }
    let node = Node { value: Value::Table(ours), place };
    Ok((Table::from([("mcp_servers".to_owned(), node)]), ignored))
}

fn server_of(name: &str, theirs: Table, ignored: &mut Vec<String>) -> Table {
    let mut ours = Table::new();
    for (key, mut node) in theirs {
        match (key.as_str(), &node.value) {
            ("disabled", Value::Leaf(toml::Value::Boolean(is_off))) => {
                node.value = Value::Leaf((!is_off).into());
                ours.insert("enabled".to_owned(), node);
            }
            // Milliseconds.
            ("timeout", Value::Leaf(toml::Value::Integer(millis))) => {
                node.value = Value::Leaf(format!("{millis}ms").into());
                ours.insert(key, node);
            }
            (known, _) if KNOWN.contains(&known) => drop(ours.insert(key, node)),
            _ => ignored.push(format!("mcpServers.{name}.{key}")),
        }
    }
    ours
}

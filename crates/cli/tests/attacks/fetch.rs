//! Pages that lead where nobody wanted to go.

use serde_json::json;

use super::support::{Home, Provider, Reply};
use super::{calls, told};

/// A page on this machine.
fn page() -> Provider {
    Provider::answering(|_| Reply::Text("private words".to_owned()))
}

#[test]
fn a_host_of_this_machine_is_fetched_only_by_a_rule_that_names_it() {
    // Its answer to what is no request of a model is nothing, but it is asked.
    let server = page();
    let url = server.origin();
    let named = url.replace("127.0.0.1", "localhost");
    let fetch = |url: &str| ("fetch", json!({ "url": url }));
    let is_refused = |told: &str| told.contains("refused: ") || told.contains("denied: ");
    for (rules, reached) in [
        (&[][..], [false, false]),
        (&["--allow", "net(127.0.0.1)"], [true, false]),
        (&["--allow", "net(localhost)"], [false, true]),
        (&["--allow", "fetch(domain:localhost)"], [false, true]),
        (&["--allow", "net"], [false, false]),
        (&["--allow", "net(*.0.0.1)"], [false, false]),
        (&["--allow", "net(127.0.0.1)", "--deny", "net(127.0.0.1)"], [false, false]),
    ] {
        let provider = calls(vec![fetch(&url), fetch(&named)]);
        let home = Home::new(&provider);
        let told = told(&home, &provider, rules);
        let is_reached: Vec<bool> = told.iter().map(|told| !is_refused(told)).collect();
        assert_eq!(is_reached, reached, "{rules:?}: {told:?}");
    }
}

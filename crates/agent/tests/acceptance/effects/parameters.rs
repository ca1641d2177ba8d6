//! The parameters of effects: what they are called, what they are when nothing is said, and which
//! values are refused.

use std::time::Duration;

use bowline_agent::effect::{
    CostBudget, Inject, LoopDetect, Progress, Reflection, StallDetect, TimeBudget, TokenBudget,
    ToolScope,
};
use bowline_agent::schemars::{JsonSchema, schema_for};
use pretty_assertions::assert_eq;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<E: DeserializeOwned>(value: Value) -> E {
    serde_json::from_value(value).unwrap()
}

/// Checks that nothing said means these defaults, that the schema says so too and explains each
/// parameter, and that other keys are refused.
fn has_defaults<E: DeserializeOwned + JsonSchema + Default + PartialEq + std::fmt::Debug>(
    defaults: &Value,
) {
    assert_eq!(read::<E>(json!({})), E::default());
    assert_eq!(read::<E>(defaults.clone()), E::default());
    let schema = schema_for!(E).to_value();
    assert!(schema["description"].is_string(), "{schema}");
    let properties = schema["properties"].as_object().unwrap();
    let expected = defaults.as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, property) in properties {
        assert_eq!(property["default"], expected[name], "{name}");
        assert!(property["description"].is_string(), "{name}");
    }
    let unknown = serde_json::from_value::<E>(json!({ "thresholt": 1 })).unwrap_err();
    assert!(unknown.to_string().contains("unknown field `thresholt`"), "{unknown}");
}

#[test]
fn parameters_that_are_not_named_have_their_defaults() {
    has_defaults::<LoopDetect>(&json!({ "stop_after": 0, "threshold": 3, "window_size": 10 }));
    has_defaults::<StallDetect>(&json!({ "similarity_threshold": 0.8, "window": 6 }));
    has_defaults::<Reflection>(&json!({ "failure_threshold": 2 }));
    has_defaults::<Progress>(&json!({ "interval": 5, "note_tool": "write_note" }));
    has_defaults::<TokenBudget>(&json!({ "max_tokens": 0, "warn_threshold": 0.8 }));
    has_defaults::<TimeBudget>(&json!({ "max_duration": "0s", "warn_threshold": 0.8 }));
    has_defaults::<CostBudget>(&json!({ "max_cost_usd": 0.0, "warn_threshold": 0.8 }));
    has_defaults::<ToolScope>(&json!({ "exclude": [], "hide": false }));
    has_defaults::<Inject>(&json!({ "at": [], "every": 0, "text": "" }));
}

#[test]
fn durations_are_written_as_people_do() {
    let of = |text: &str| read::<TimeBudget>(json!({ "max_duration": text })).max_duration;
    assert_eq!(of("5m"), Duration::from_secs(300));
    assert_eq!(of("1h30m"), Duration::from_secs(5400));
    let wrong = |value: Value| serde_json::from_value::<TimeBudget>(value).is_err();
    assert!(wrong(json!({ "max_duration": 300 })));
    assert!(wrong(json!({ "max_duration": "-5m" })));
}

/// Returns which parameter is refused; nothing if none is.
fn refused<E: DeserializeOwned>(check: fn(E) -> Result<E, String>, value: Value) -> String {
    let told = check(read(value)).err().unwrap_or_default();
    told.split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn a_value_that_makes_no_sense_is_refused_by_its_name() {
    let loops = |value| refused(LoopDetect::checked, value);
    assert_eq!(loops(json!({})), "");
    assert_eq!(loops(json!({ "threshold": 0 })), "threshold");
    assert_eq!(loops(json!({ "window_size": 2 })), "window_size");
    assert_eq!(loops(json!({ "stop_after": 3 })), "stop_after");
    assert_eq!(loops(json!({ "stop_after": 4 })), "");

    let stalls = |value| refused(StallDetect::checked, value);
    assert_eq!(stalls(json!({ "similarity_threshold": 1.0 })), "");
    assert_eq!(stalls(json!({ "window": 1 })), "window");
    for wrong in [0.0, -0.1, 1.1] {
        let value = json!({ "similarity_threshold": wrong });
        assert_eq!(stalls(value), "similarity_threshold");
    }

    let reflection = |value| refused(Reflection::checked, value);
    assert_eq!(reflection(json!({})), "");
    assert_eq!(reflection(json!({ "failure_threshold": 0 })), "failure_threshold");

    let progress = |value| refused(Progress::checked, value);
    assert_eq!(progress(json!({})), "");
    assert_eq!(progress(json!({ "interval": 0 })), "interval");
    assert_eq!(progress(json!({ "note_tool": "" })), "note_tool");

    let inject = |value| refused(Inject::checked, value);
    assert_eq!(inject(json!({ "text": "a", "at": [0] })), "");
    assert_eq!(inject(json!({ "text": "a", "every": 1 })), "");
    assert_eq!(inject(json!({ "text": " ", "every": 1 })), "text");
    assert_eq!(inject(json!({ "text": "a" })), "at");

    let scope = |value| refused(ToolScope::checked, value);
    assert_eq!(scope(json!({ "exclude": ["shell"] })), "");
    assert_eq!(scope(json!({ "exclude": [""] })), "exclude");
}

#[test]
fn a_share_to_warn_at_lies_between_nothing_and_all() {
    for right in [0.1, 0.99] {
        let value = json!({ "warn_threshold": right });
        assert_eq!(refused(TokenBudget::checked, value.clone()), "");
        assert_eq!(refused(TimeBudget::checked, value.clone()), "");
        assert_eq!(refused(CostBudget::checked, value), "");
    }
    for wrong in [0.0, 1.0, -0.5, 2.0] {
        let value = json!({ "warn_threshold": wrong });
        assert_eq!(refused(TokenBudget::checked, value.clone()), "warn_threshold");
        assert_eq!(refused(TimeBudget::checked, value.clone()), "warn_threshold");
        assert_eq!(refused(CostBudget::checked, value), "warn_threshold");
    }
    assert_eq!(refused(CostBudget::checked, json!({ "max_cost_usd": -1.0 })), "max_cost_usd");
    let nothing = CostBudget { max_cost_usd: f64::NAN, ..CostBudget::default() };
    assert!(nothing.checked().is_err());
}

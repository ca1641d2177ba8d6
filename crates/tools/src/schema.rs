//! What models are told of arguments, as short as it can be.

use schemars::Schema;
use serde_json::Value;

/// Removes from the schema of a tool's arguments that optional ones may be null and that counts are
/// not negative: both are understood, and both would cost tokens in every request.
pub(crate) fn shorten(schema: &mut Schema) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        let Some(property) = property.as_object_mut() else { continue };
        property.remove("minimum");
        if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
            values.retain(|value| !value.is_null());
        }
        let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) else { continue };
        types.retain(|kind| kind != "null");
        if let [kind] = types.as_slice() {
            let kind = kind.clone();
            property.insert("type".to_owned(), kind);
        }
    }
}

/// Returns the schema of any object.
pub(crate) fn any_object() -> bowline_llm::RawJson {
    bowline_agent::tool::input_schema::<std::collections::BTreeMap<String, Value>>().1
}

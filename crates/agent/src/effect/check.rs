//! What the parameters of effects may be.

/// Tells what is wrong with a share of the window.
pub(super) fn share(field: &str, value: f64) -> Result<(), String> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(format!("{field} must be more than 0 and at most 1"))
}

/// Tells what is wrong with a count of what stays.
pub(super) fn at_least_one(field: &str, value: usize) -> Result<(), String> {
    if value > 0 { Ok(()) } else { Err(format!("{field} must be at least 1")) }
}

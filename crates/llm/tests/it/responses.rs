//! What Responses requests look like.

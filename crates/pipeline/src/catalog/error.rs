//! Errors of the catalog.

/// The reason why a credential or a change was rejected.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum CatalogError {
    /// The key does not exist, was revoked or has expired.
    #[error("the key is unknown, revoked or expired")]
    UnknownKey,
    /// The key may not be used from this address.
    #[error("the key may not be used from this address")]
    Address,
    /// An argument of the change is invalid.
    #[error("{field}: {message}")]
    Invalid {
        /// The argument.
        field: &'static str,
        /// The problem with it.
        message: String,
    },
    /// The file could not be written; nothing has changed.
    #[error("the catalog could not be written: {0}")]
    NotWritten(String),
}

pub(super) fn invalid(field: &'static str, message: String) -> CatalogError {
    CatalogError::Invalid { field, message }
}

pub(super) fn no_game(id: &str) -> CatalogError {
    invalid("game", format!("there is no game `{id}`"))
}

pub(super) fn no_key(id: &str) -> CatalogError {
    invalid("key", format!("there is no active key `{id}`"))
}

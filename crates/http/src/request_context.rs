//! The context of one HTTP request: where it came from, and the game it turned out to be for.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use hyper::http::request::Parts;
use parking_lot::Mutex;

use crate::body_memory::BodyMemory;

/// Travels in the extensions of a request. Clones share the game.
///
/// A handler that is called without a context gets an empty one: keys limited to addresses are then rejected, and the
/// request counts for no game.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestContext {
    client_address: Option<IpAddr>,
    is_https: bool,
    body_memory: BodyMemory,
    game: Arc<Mutex<Option<u32>>>,
}

/// The game of a request, in the extensions of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestGame(pub(crate) u32);

impl RequestContext {
    pub(crate) fn new(client_address: Option<IpAddr>, is_https: bool) -> RequestContext {
        RequestContext { client_address, is_https, ..RequestContext::default() }
    }

    /// Bounds the memory of the request's body.
    pub(crate) fn with_body_memory(self, body_memory: BodyMemory) -> RequestContext {
        RequestContext { body_memory, ..self }
    }

    /// The memory that the request's body may use.
    pub(crate) fn body_memory(&self) -> &BodyMemory {
        &self.body_memory
    }

    /// The client's address: the peer's, or the one that the proxy in front reports; `None` if that is unreadable.
    pub(crate) fn client_address(&self) -> Option<IpAddr> {
        self.client_address
    }

    /// True if a proxy terminates TLS, so that only the cookie of secure connections counts.
    pub(crate) fn is_https(&self) -> bool {
        self.is_https
    }

    /// Counts this request for a game. The last call wins.
    pub(crate) fn set_game(&self, game: u32) {
        *self.game.lock() = Some(game);
    }

    pub(crate) fn game(&self) -> Option<RequestGame> {
        self.game.lock().map(RequestGame)
    }
}

impl From<&Parts> for RequestContext {
    fn from(head: &Parts) -> RequestContext {
        head.extensions.get::<RequestContext>().cloned().unwrap_or_default()
    }
}

impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<RequestContext, Infallible> {
        Ok(RequestContext::from(&*head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_game_set_through_any_clone_wins() {
        let context = RequestContext::new(None, false);
        assert_eq!(context.game(), None);
        context.set_game(1);
        context.clone().set_game(2);
        assert_eq!(context.game(), Some(RequestGame(2)));
    }
}

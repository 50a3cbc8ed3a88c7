//! The plain HTTP port beside HTTPS: it redirects every request but the challenges of a certificate authority.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::{Request, Response, StatusCode};

use crate::host::{PublicUrl, https_url};
use crate::listener::Handler;
use crate::problem::Problem;
use crate::tls::Tls;

/// Redirects to the same URL with HTTPS.
#[derive(Clone)]
pub struct RedirectToHttps {
    /// If set, requests for other hosts are redirected to it.
    pub public_url: Option<PublicUrl>,
    /// The port of HTTPS.
    pub port: u16,
    /// Knows the answers to challenges.
    pub tls: Option<Arc<Tls>>,
}

/// The path of HTTP-01 challenges (RFC 8555, 8.3), before the token.
const CHALLENGE: &str = "/.well-known/acme-challenge/";

impl Handler for RedirectToHttps {
    async fn handle(self, request: Request<Incoming>, _: Option<IpAddr>) -> Response<Body> {
        let token = request.uri().path().strip_prefix(CHALLENGE);
        if let Some(answer) = token.and_then(|token| self.tls.as_ref()?.http_01(token)) {
            return ([(CONTENT_TYPE, "application/octet-stream")], answer).into_response();
        }
        let Some(url) = https_url(&request, self.public_url.as_ref(), self.port) else {
            return Problem::malformed("a request must have the header `Host`").field("Host").into_response();
        };
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let Ok(location) = HeaderValue::try_from(format!("{url}{path}")) else {
            return Problem::malformed("the target cannot be redirected").into_response();
        };
        // 308 keeps the method and the body.
        let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
        response.headers_mut().insert(LOCATION, location);
        response
    }
}

//! The plain HTTP port beside HTTPS: it redirects every request.

use std::net::IpAddr;

use axum::body::Body;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, LOCATION};
use hyper::{Request, Response, StatusCode};

use crate::host::{PublicUrl, https_url};
use crate::listener::Handler;
use crate::problem::Problem;

/// Redirects to the same URL with HTTPS.
#[derive(Clone)]
pub struct RedirectToHttps {
    /// If set, requests for other hosts are redirected to it.
    pub public_url: Option<PublicUrl>,
    /// The port of HTTPS.
    pub port: u16,
}

impl Handler for RedirectToHttps {
    async fn handle(self, request: Request<Incoming>, _: Option<IpAddr>) -> Response<Body> {
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

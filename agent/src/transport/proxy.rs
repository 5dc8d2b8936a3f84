//! A tunnel through an HTTP proxy, by CONNECT.

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{Request, StatusCode};
use hyper::client::conn::http1::Builder;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::body::Body;

use super::Error;
use crate::config::{Proxy, ServerUrl};

/// A proxy's answer is a status line and some headers.
const HEAD_MOST: usize = 16 << 10;
const HEADERS_MOST: usize = 64;

/// Asks the proxy at the other end of `stream` for a connection to `server`; it also looks up the name.
pub(super) async fn tunnel(
    stream: TcpStream,
    proxy: &Proxy,
    server: &ServerUrl,
) -> Result<TokioIo<Upgraded>, Error> {
    let failed = |source| Error::Proxy {
        proxy: proxy.to_string(),
        source,
    };
    let (mut requests, connection) = Builder::new()
        .max_buf_size(HEAD_MOST)
        .max_headers(HEADERS_MOST)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let exchange = async {
        let response = requests
            .send_request(connect(proxy, server))
            .await
            .map_err(failed)?;
        if !response.status().is_success() {
            return Err(refused(proxy, server, response.status()));
        }
        hyper::upgrade::on(response).await.map_err(failed)
    };
    let mut exchange = std::pin::pin!(exchange);
    let upgraded = tokio::select! {
        upgraded = &mut exchange => upgraded,
        // How it ended shows on the exchange.
        _ = connection.with_upgrades() => exchange.await,
    };
    upgraded.map(TokioIo::new)
}

fn connect(proxy: &Proxy, server: &ServerUrl) -> Request<Body> {
    let target = server.host_and_port();
    let mut request = Request::connect(&target)
        .header(HOST, target)
        .body(Body::empty())
        .unwrap_or_default();
    if let Some(credentials) = proxy.credentials() {
        request
            .headers_mut()
            .insert(PROXY_AUTHORIZATION, credentials.clone());
    }
    request
}

fn refused(proxy: &Proxy, server: &ServerUrl, status: StatusCode) -> Error {
    let advice = match status {
        // Some say 401 where 407 is meant.
        StatusCode::PROXY_AUTHENTICATION_REQUIRED | StatusCode::UNAUTHORIZED
            if proxy.credentials().is_some() =>
        {
            "it does not take the user and password given"
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED | StatusCode::UNAUTHORIZED => {
            "it wants a user and password: write it as http://USER:PASSWORD@HOST:PORT"
        }
        StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED => {
            "let it allow CONNECT to that host and port"
        }
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            "it cannot reach the server"
        }
        _ => "is it an HTTP proxy that allows CONNECT?",
    };
    Error::Refused {
        proxy: proxy.to_string(),
        server: server.to_string(),
        status,
        advice,
    }
}

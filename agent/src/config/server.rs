use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::{Authority, Scheme};

/// Address of a server: scheme, host and port, nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    tls: bool,
    authority: Authority,
}

impl ServerUrl {
    /// Parses `https://HOST[:PORT]` or `http://HOST[:PORT]`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = "write it as https://HOST:PORT";
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("`{text}` is not a URL ({error}): {wanted}"))?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) | None => return Err(format!("`{text}` has no https://: {wanted}")),
        };
        if uri.path() != "/" || uri.query().is_some() {
            return Err(format!("`{text}` has more than host and port: {wanted}"));
        }
        let authority = uri
            .into_parts()
            .authority
            .filter(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'))
            .ok_or_else(|| format!("`{text}` needs a plain host: {wanted}"))?;
        let behind_host = &authority.as_str()[authority.host().len()..];
        if !behind_host.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(format!(
                "`{text}` needs a port between 1 and 65535: {wanted}"
            ));
        }
        Ok(Self { tls, authority })
    }

    #[must_use]
    pub fn tls(&self) -> bool {
        self.tls
    }

    /// Name or address without the brackets of IPv6.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = self.authority.host();
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        let default = if self.tls { 443 } else { 80 };
        self.authority.port_u16().unwrap_or(default)
    }

    /// The host, in brackets where it is IPv6, and the port.
    #[must_use]
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.authority.host(), self.port())
    }

    /// Whether the path to it never leaves this host.
    #[must_use]
    pub fn loopback(&self) -> bool {
        let host = self.host();
        host == "localhost"
            || host
                .parse()
                .is_ok_and(|address: IpAddr| address.is_loopback())
    }

    /// `scheme://authority`, the origin of every request.
    #[must_use]
    pub fn origin(&self) -> Uri {
        let scheme = if self.tls {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(scheme);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        Uri::from_parts(parts).unwrap_or_default()
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::ServerUrl;

    #[test]
    fn a_url_is_taken_apart() {
        let url = ServerUrl::parse("https://fleet.example:7601").unwrap();
        assert_eq!(
            (url.tls(), url.host(), url.port()),
            (true, "fleet.example", 7601)
        );
        assert_eq!(url.to_string(), "https://fleet.example:7601");
        assert_eq!(url.origin().to_string(), "https://fleet.example:7601/");
        assert_eq!(
            ServerUrl::parse("https://fleet.example").unwrap().port(),
            443
        );
    }

    #[test]
    fn only_this_host_is_loopback() {
        let loopback = |text| ServerUrl::parse(text).unwrap().loopback();
        assert!(loopback("http://127.0.0.1:7601"));
        assert!(loopback("http://[::1]:7601"));
        assert!(loopback("http://localhost:7601"));
        assert!(!loopback("http://192.0.2.1:7601"));
        assert!(!loopback("http://localhost.example:7601"));
    }

    #[test]
    fn what_is_no_server_is_refused_with_the_form_it_should_have() {
        for text in [
            "",
            "fleet.example:7601",
            "ftp://fleet.example",
            "https://fleet.example/path",
            "https://user@fleet.example",
            "https://fleet.example:99999",
            "https://fleet.example:0",
            "https://fleet.example:",
            "https://[::1]:99999",
        ] {
            let message = ServerUrl::parse(text).unwrap_err();
            assert!(message.contains("https://HOST:PORT"), "{text}: {message}");
        }
    }
}

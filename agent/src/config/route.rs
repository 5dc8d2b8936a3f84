//! Which way leads to a server: directly, or through an HTTP proxy.

use std::fmt;

use http::header::HeaderValue;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;

use super::{Error, ServerUrl};

const KEY: &str = "proxy";
/// Value of the option that keeps the agent from every proxy.
const NONE: &str = "none";
const WANTED: &str = "write it as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT";

/// A server and the way to it.
#[derive(Debug, Clone)]
pub struct Route {
    pub server: ServerUrl,
    /// `None`: directly.
    pub proxy: Option<Proxy>,
}

impl Route {
    /// The way without the server, for people.
    #[must_use]
    pub fn path(&self) -> String {
        let through = |proxy: &Proxy| format!("through {proxy}");
        self.proxy
            .as_ref()
            .map_or_else(|| "direct".to_owned(), through)
    }
}

/// A proxy that takes CONNECT. What is displayed leaves user and password out.
#[derive(Clone)]
pub struct Proxy {
    host: String,
    port: u16,
    credentials: Option<HeaderValue>,
    /// The option or variable that named it.
    told_by: &'static str,
}

impl Proxy {
    /// Name or address without the brackets of IPv6.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(&self.host)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Value of `Proxy-Authorization`.
    #[must_use]
    pub fn credentials(&self) -> Option<&HeaderValue> {
        self.credentials.as_ref()
    }

    fn parse(url: &str, told_by: &'static str, server: &ServerUrl) -> Result<Self, Error> {
        // The text may hold a password: no message repeats it.
        let wrong = |why: &str| Error::value(told_by, format!("{why}: {WANTED}"));
        let matched = Matcher::builder()
            .all(url.to_owned())
            .build()
            .intercept(&server.origin())
            .ok_or_else(|| wrong("it is not the URL of a proxy"))?;
        let uri = matched.uri();
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(wrong("only http:// proxies are spoken to"));
        }
        let host = uri.host().filter(|host| !host.is_empty());
        Ok(Self {
            host: host.ok_or_else(|| wrong("it names no host"))?.to_owned(),
            port: uri.port_u16().unwrap_or(80),
            credentials: matched.basic_auth().cloned(),
            told_by,
        })
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{} ({})", self.host, self.port, self.told_by)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The proxy for `server`; `None` when the way is direct. `option` is what was configured. Without it
/// the variables hold that curl reads too, except for a server on this host, which no proxy reaches.
///
/// # Errors
/// The option or variable that is no URL of an HTTP proxy, when that leads to this server.
pub(super) fn choose(
    server: &ServerUrl,
    option: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, Error> {
    let set = |name: &&'static str| Some((variable(name).filter(|url| !url.is_empty())?, *name));
    let chosen = match option {
        Some(NONE) => None,
        Some(url) => Some((url.to_owned(), KEY)),
        None if server.loopback() => None,
        None => variables(server).iter().find_map(set),
    };
    let Some((url, told_by)) = chosen else {
        return Ok(None);
    };
    let excepted = ["NO_PROXY", "no_proxy"].iter().find_map(set);
    let direct = excepted.is_some_and(|(hosts, _)| {
        let rest = Matcher::builder().all("http://proxy.invalid").no(hosts);
        rest.build().intercept(&server.origin()).is_none()
    });
    if direct {
        return Ok(None);
    }
    Proxy::parse(&url, told_by, server).map(Some)
}

fn variables(server: &ServerUrl) -> [&'static str; 4] {
    if server.tls() {
        ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
    }
}

#[cfg(test)]
mod tests {
    use super::{ServerUrl, choose};

    fn server(url: &str) -> ServerUrl {
        ServerUrl::parse(url).unwrap()
    }

    /// What is chosen for `url` with these variables, as it is displayed.
    fn chosen(url: &str, option: Option<&str>, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxy = choose(&server(url), option, variable).unwrap();
        proxy.map(|proxy| proxy.to_string())
    }

    const FLEET: &str = "https://fleet.example.net:7601";
    const ENVIRONMENT: (&str, &str) = ("HTTPS_PROXY", "http://p.example.net:3128");

    /// Field report A22.
    #[test]
    fn the_option_wins_over_the_variables_and_the_variables_hold_without_it() {
        let environment = [ENVIRONMENT];
        assert_eq!(chosen(FLEET, None, &[]), None);
        assert_eq!(
            chosen(FLEET, None, &environment).as_deref(),
            Some("http://p.example.net:3128 (HTTPS_PROXY)")
        );
        assert_eq!(
            chosen(FLEET, Some("http://other:8080"), &environment).as_deref(),
            Some("http://other:8080 (proxy)")
        );
        assert_eq!(chosen(FLEET, Some("none"), &environment), None);
        let all = [("https_proxy", ""), ("ALL_PROXY", "p.example.net:3128")];
        assert_eq!(
            chosen(FLEET, None, &all).as_deref(),
            Some("http://p.example.net:3128 (ALL_PROXY)")
        );
        let plain = "http://fleet.example.net:7601";
        assert_eq!(chosen(plain, None, &environment), None);
        assert!(chosen(plain, None, &[("http_proxy", "http://p:1")]).is_some());
    }

    /// Field report A22.
    #[test]
    fn a_host_of_no_proxy_and_this_host_are_reached_directly() {
        for hosts in ["fleet.example.net", ".example.net", "a,example.net ,b", "*"] {
            let environment = [ENVIRONMENT, ("no_proxy", hosts)];
            assert_eq!(chosen(FLEET, None, &environment), None, "{hosts}");
            assert_eq!(chosen(FLEET, Some("http://p:1"), &environment), None);
        }
        let environment = [ENVIRONMENT, ("NO_PROXY", "192.0.2.0/24,::1,xample.net")];
        assert!(chosen(FLEET, None, &environment).is_some());
        assert_eq!(chosen("https://192.0.2.7:1", None, &environment), None);
        assert_eq!(chosen("https://127.0.0.1:1", None, &[ENVIRONMENT]), None);
        assert!(chosen("https://127.0.0.1:1", Some("http://p:1"), &[]).is_some());
    }

    /// Field report A22.
    #[test]
    fn a_proxy_of_another_kind_is_no_matter_of_a_server_that_is_reached_directly() {
        let socks = ("ALL_PROXY", "socks5://p.example.net:1080");
        let excepted = ("NO_PROXY", "fleet.example.net");
        assert_eq!(chosen(FLEET, None, &[socks, excepted]), None);
        let refused = choose(&server(FLEET), None, |name| {
            (name == socks.0).then(|| socks.1.to_owned())
        });
        assert!(refused.unwrap_err().to_string().contains("ALL_PROXY"));
    }

    #[test]
    fn what_is_no_http_proxy_is_refused_and_no_password_is_shown() {
        for url in [
            "socks5://u:secret@p:1080",
            "https://u:secret@p:3128",
            "http://",
            "u:secret@",
        ] {
            let error = choose(&server(FLEET), Some(url), |_| None).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("http://HOST:PORT"), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let proxy = choose(&server(FLEET), Some("http://u:s%40ecret@p:3128"), |_| None);
        let proxy = proxy.unwrap().unwrap();
        let shown = format!("{proxy} {proxy:?} {:?}", proxy.credentials());
        assert!(
            !shown.contains("ecret") && !shown.contains("dTpz"),
            "{shown}"
        );
        // `u:s@ecret` in base64.
        assert_eq!(proxy.credentials().unwrap(), "Basic dTpzQGVjcmV0");
    }
}

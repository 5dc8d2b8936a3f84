use std::path::PathBuf;
use std::process::Command;

/// Where agents run, and what they take for the server.
#[derive(Debug, Clone)]
pub struct Place {
    /// Network namespace, by the name under which `ip netns` knows it; this process's own when unset.
    pub namespace: Option<String>,
    /// The server's lane as it is reached from there, such as `https://192.0.2.1:7601`.
    pub server: String,
    /// Authorities to check the certificate of an `https://` server against.
    pub ca: Option<PathBuf>,
}

impl Place {
    /// In this process's own network.
    pub fn beside(server: impl std::fmt::Display) -> Self {
        Self {
            namespace: None,
            server: format!("http://{server}"),
            ca: None,
        }
    }

    /// The program, run there under the process id that spawning yields.
    pub(super) fn command(&self, program: PathBuf) -> Command {
        match &self.namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
        }
    }
}

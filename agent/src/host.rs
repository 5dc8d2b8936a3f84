//! What the agent knows about its host.

/// The kernel's host name; `localhost` when it cannot be told.
pub(crate) fn name() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// Changes with every boot; empty where the system does not tell.
pub(crate) fn boot_id() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    told.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{boot_id, name};

    #[test]
    fn host_name_and_boot_id_fit_the_contract() {
        assert!((1..=255).contains(&name().len()));
        assert!(boot_id().len() <= 63);
        assert_eq!(boot_id(), boot_id());
    }
}

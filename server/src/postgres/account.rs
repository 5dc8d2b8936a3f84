use std::fmt;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nix::unistd::{Gid, Uid, User};
use tokio::process::Command;

use super::{Error, io};

/// Users that a server started by root may run Postgres as. Never `nobody`: whatever else runs as
/// `nobody` could read the data.
const USERS: [&str; 2] = ["fleetbeat", "postgres"];

/// The user that owns the cluster and runs Postgres.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    name: String,
    uid: Uid,
    gid: Gid,
    /// True when the server is root and hands itself down.
    switch: bool,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Account {
    /// Who runs the Postgres whose home is `home`: ourselves, or one of [`USERS`] when we are root.
    /// A home that exists decides between them.
    pub(super) fn choose(home: &Path) -> Result<Self, Error> {
        let owner = std::fs::metadata(home)
            .ok()
            .map(|home| Uid::from_raw(home.uid()));
        let account = if Uid::effective().is_root() {
            let users = USERS
                .iter()
                .filter_map(|name| User::from_name(name).ok().flatten());
            let users: Vec<Self> = users.map(Self::of).collect();
            let theirs = users.iter().find(|user| Some(user.uid) == owner).cloned();
            theirs
                .or_else(|| users.into_iter().next())
                .ok_or(Error::NoAccount)?
        } else {
            Self::own()
        };
        match owner {
            Some(owner) if owner != account.uid && !(account.switch && owner.is_root()) => {
                Err(Error::OtherOwner {
                    path: home.to_owned(),
                    owner: owner.as_raw(),
                    account: account.name,
                })
            }
            _ => Ok(account),
        }
    }

    fn of(user: User) -> Self {
        Self {
            name: user.name,
            uid: user.uid,
            gid: user.gid,
            switch: true,
        }
    }

    fn own() -> Self {
        let uid = Uid::effective();
        let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
        let name = name.unwrap_or_else(|| uid.to_string());
        Self {
            name,
            uid,
            gid: Gid::effective(),
            switch: false,
        }
    }

    /// Every directory down to `data_dir` must let the account through. The data directory itself is
    /// opened when it is ours; what lies above it is not ours to change.
    pub(super) fn check_way(&self, data_dir: &Path) -> Result<(), Error> {
        for path in data_dir.ancestors() {
            let found = std::fs::metadata(path).map_err(io("look at", path))?;
            if self.may_enter(found.uid(), found.gid(), found.mode()) {
                continue;
            }
            if path != data_dir || !self.switch || found.uid() != Uid::effective().as_raw() {
                return Err(Error::NoWay {
                    path: path.to_owned(),
                    account: self.name.clone(),
                });
            }
            let mode = Permissions::from_mode(found.mode() & 0o7777 | 0o001);
            std::fs::set_permissions(path, mode).map_err(io("open the way through", path))?;
        }
        Ok(())
    }

    fn may_enter(&self, owner: u32, group: u32, mode: u32) -> bool {
        let needed = if self.uid.is_root() {
            0
        } else if owner == self.uid.as_raw() {
            0o100
        } else if group == self.gid.as_raw() {
            0o010
        } else {
            0o001
        };
        mode & needed == needed
    }

    /// Makes `path` a directory of the account that nobody else can enter.
    pub(super) fn own_directory(&self, path: &Path) -> Result<(), Error> {
        match std::fs::create_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io("make the directory", path)(error)),
        }
        let found = std::fs::symlink_metadata(path).map_err(io("look at", path))?;
        let ours = found.uid() == self.uid.as_raw() || found.uid() == Uid::effective().as_raw();
        if !found.is_dir() || !ours {
            return Err(Error::OtherOwner {
                path: path.to_owned(),
                owner: found.uid(),
                account: self.name.clone(),
            });
        }
        if self.switch {
            nix::unistd::chown(path, Some(self.uid), Some(self.gid))
                .map_err(|errno| io("hand over", path)(errno.into()))?;
        }
        std::fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(io("close to others", path))
    }

    /// Makes `command` run as the account. Supplementary groups are dropped with the user.
    pub(super) fn run_as(&self, command: &mut Command) {
        if self.switch {
            command.uid(self.uid.as_raw()).gid(self.gid.as_raw());
        }
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid.as_raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_lets_through_by_the_first_of_owner_group_and_others_that_fits() {
        let account = Account {
            name: "postgres".to_owned(),
            uid: Uid::from_raw(101),
            gid: Gid::from_raw(104),
            switch: true,
        };
        let table = [
            ((101, 0, 0o700), true),
            ((101, 104, 0o077), false),
            ((0, 104, 0o750), true),
            ((0, 104, 0o701), false),
            ((0, 0, 0o711), true),
            ((0, 0, 0o700), false),
        ];
        for ((owner, group, mode), expected) in table {
            let may = account.may_enter(owner, group, mode);
            assert_eq!(may, expected, "{owner}:{group} {mode:o}");
        }
    }
}

//! Making the cluster, once.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt as _;

use super::{Binaries, Error, NAME, Place, Search, io, postmaster};

/// Finds the binaries for the cluster and makes the cluster if there is none. It is made beside its
/// place and moved there whole, so that an interrupted start leaves nothing half done.
pub(super) async fn ready(place: &Place, search: &Search) -> Result<Binaries, Error> {
    let data = data_version(&place.cluster)?;
    let binaries = search.find(&place.account, &place.cluster, data).await?;
    if data.is_none() {
        make(place, &binaries).await?;
    }
    Ok(binaries)
}

/// Major version that the cluster was made by; `None` when there is none.
fn data_version(cluster: &Path) -> Result<Option<u32>, Error> {
    if !cluster.exists() {
        return Ok(None);
    }
    let file = cluster.join("PG_VERSION");
    let version = fs::read_to_string(&file)
        .ok()
        .and_then(|said| said.trim().parse().ok());
    version
        .map(Some)
        .ok_or_else(|| Error::NotACluster(cluster.to_owned()))
}

async fn make(place: &Place, binaries: &Binaries) -> Result<(), Error> {
    let partial = &place.partial;
    if partial.exists() {
        fs::remove_dir_all(partial).map_err(io("clear away", partial))?;
    }
    tracing::info!(path = %place.cluster.display(), postgres.version = binaries.major, "Making a private Postgres cluster");
    initdb(place, binaries).await?;
    create_database(place, binaries).await?;
    fs::rename(partial, &place.cluster).map_err(io("move into place", partial))?;
    let home = place.cluster.parent().unwrap_or(&place.cluster);
    fs::File::open(home)
        .and_then(|home| home.sync_all())
        .map_err(io("write out", home))
}

async fn initdb(place: &Place, binaries: &Binaries) -> Result<(), Error> {
    let mut command = postmaster::command(place, binaries, "initdb");
    command
        .arg("--pgdata")
        .arg(&place.partial)
        .args(["--data-checksums", "--locale=C.UTF-8", "--encoding=UTF8"])
        .args([
            "--auth-local=trust",
            "--auth-host=reject",
            "--no-instructions",
        ])
        .arg(format!("--username={NAME}"))
        .stdin(Stdio::null());
    let output = command
        .output()
        .await
        .map_err(io("run initdb in", &binaries.directory))?;
    succeeded(&output)
}

/// In single-user mode, so that the database exists before anybody can connect.
async fn create_database(place: &Place, binaries: &Binaries) -> Result<(), Error> {
    let mut command = postmaster::command(place, binaries, "postgres");
    command
        .args(["--single", "-D"])
        .arg(&place.partial)
        .arg("postgres");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let failed = || io("run postgres in", &binaries.directory);
    let mut child = command.spawn().map_err(failed())?;
    if let Some(mut stdin) = child.stdin.take() {
        let statement = format!("CREATE DATABASE {NAME}\n");
        stdin
            .write_all(statement.as_bytes())
            .await
            .map_err(failed())?;
    }
    let output = child.wait_with_output().await.map_err(failed())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("ERROR") {
        return Err(Error::Init(said.trim().to_owned()));
    }
    succeeded(&output)
}

fn succeeded(output: &Output) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Init(format!("{}: {}", output.status, said.trim())))
}

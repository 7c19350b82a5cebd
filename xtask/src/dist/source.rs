//! The source of a release: an archive with all dependencies, which builds without a network.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::{Outcome, cannot, locked, output, root, run};

/// What is unpacked, and the archive of it.
pub(super) struct Source {
    /// The root of the unpacked workspace.
    pub(super) root: PathBuf,
    /// The time of the commit, in seconds since 1970.
    pub(super) time: String,
}

/// Unpacks the last commit into a directory, with its dependencies, and writes an archive of it. The same commit gives the
/// same bytes.
pub(super) fn source(directory: &Path, name: &str, archive: &Path) -> Result<Source, Outcome> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(root());
        git
    };
    let time = output(&mut git(&["log", "-1", "--format=%ct"]))?;
    let time = String::from_utf8_lossy(&time).trim().to_owned();
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory).map_err(cannot("create a directory"))?;
    let prefix = format!("--prefix={name}/");
    let committed = output(&mut git(&["archive", &prefix, "HEAD"]))?;
    let mut tar = Command::new("tar");
    let tar = tar.arg("x").current_dir(directory).stdin(Stdio::piped()).spawn();
    let mut tar = tar.map_err(cannot("run tar"))?;
    if let Some(mut into) = tar.stdin.take() {
        into.write_all(&committed).map_err(cannot("unpack the source"))?;
    }
    if !tar.wait().map_err(cannot("run tar"))?.success() {
        return Err(Outcome::Failed("tar unpacks the source".to_owned()));
    }
    let unpacked = directory.join(name);
    let mut vendor = locked("vendor");
    let places = output(vendor.arg("--versioned-dirs").current_dir(&unpacked))?;
    let config = unpacked.join(".cargo/config.toml");
    let mut text = fs::read(&config).map_err(cannot("read the configuration of cargo"))?;
    text.extend_from_slice(b"\n");
    text.extend_from_slice(&places);
    fs::write(&config, text).map_err(cannot("write the configuration of cargo"))?;
    let mut pack = Command::new("tar");
    pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX,u+w"]);
    pack.arg(format!("--mtime=@{time}")).args(["--use-compress-program=gzip -n9", "-cf"]);
    run(pack.arg(archive).arg("-C").arg(directory).arg(name))?;
    Ok(Source { root: unpacked, time })
}

//! `lodstone recover`.

use crate::Failure;
use crate::args::Recover;
use crate::say::{self, count};

pub(crate) fn run(arguments: &Recover) -> Result<(), Failure> {
    let recovery = lodstone::recover(&arguments.directory)?;
    let mut done = String::new();
    if recovery.files > 0 {
        let files = count(recovery.files, "file");
        done += &format!("finished a write that was interrupted: {files}\n");
    }
    if recovery.left_over > 0 {
        let writes = count(recovery.left_over, "write");
        done += &format!("removed what {writes} had left behind\n");
    }
    if done.is_empty() {
        done += "nothing to recover\n";
    }
    say::out(done.as_bytes())
}

//! Writes the manual.

use std::path::Path;

use clap_mangen::Man;
use lodstone::Progress;
use lodstone_store::Commit;

use crate::console::{self, plain};
use crate::stores::{at, shown};
use crate::{Failure, command};

/// Writes `lodstone.1`, and a page for each subcommand.
pub(crate) fn run(directory: &Path) -> Result<(), Failure> {
    let mut command = command().disable_help_subcommand(true);
    command.build();
    let mut commit = Commit::within(at(directory)?, Progress::default())?;
    let mut open = vec![command];
    while let Some(command) = open.pop() {
        open.extend(command.get_subcommands().filter(|one| !one.is_hide_set()).cloned());
        let (page, mut text) = (Man::new(command), Vec::new());
        page.render(&mut text)?;
        commit.write(&page.get_filename(), |out| out.put(&text))?;
    }
    commit.publish()?;
    console::note(&format!("wrote the manual to {}", plain(&shown(directory))));
    Ok(())
}

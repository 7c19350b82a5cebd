//! Releases of PaddlePaddle: the one that a program follows decides what its operators compute.

use lodstone_model::Program;

/// A release of PaddlePaddle. Releases are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(i64);

impl Release {
    /// 2.6.2: the release that new programs follow, and those that do not name one.
    pub const WRITTEN: Self = Self(2_006_002);

    /// Returns the release of a major and a minor version, without patches.
    pub const fn new(major: i64, minor: i64) -> Self {
        Self(major * 1_000_000 + minor * 1000)
    }

    /// Returns the release that a program follows.
    pub fn of(program: &Program) -> Self {
        // Without a version, it is 0.
        Self::numbered(program.version.unwrap_or(0))
    }

    /// Returns the release of a version as programs store it: `2006002`. 0 is 1.2 and older, and development builds;
    /// those programs are computed as 2.6.2 computes them.
    pub fn numbered(version: i64) -> Self {
        match version {
            0 => Self::WRITTEN,
            version => Self(version),
        }
    }

    /// Returns the version as programs store it.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Returns the release of the name of a major and a minor version: `3.1`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (major, minor) = name.split_once('.')?;
        Some(Self::new(major.parse().ok()?, minor.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_and_patches_follow_their_release() {
        assert!(Release::new(2, 6) < Release::WRITTEN && Release::WRITTEN < Release::new(3, 0));
        assert_eq!(Release::numbered(0), Release::WRITTEN);
        assert_eq!(Release::numbered(3_003_001).number(), 3_003_001);
        assert_eq!(Release::parse("3.1"), Some(Release::new(3, 1)));
        assert_eq!(Release::parse("3"), None);
    }
}

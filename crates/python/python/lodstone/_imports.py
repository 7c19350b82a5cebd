"""Packages that are only needed for arrays of a framework."""

from __future__ import annotations


def not_installed(error: ModuleNotFoundError, module: str, package: str) -> ModuleNotFoundError:
    """The error of a module of this package that needs another package, with the command that installs it."""
    if error.name != module:
        # The package is there, and something that it needs itself is not.
        return error
    return ModuleNotFoundError(f"{module} is not installed: pip install {package}", name=module)

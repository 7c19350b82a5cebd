"""Errors for frameworks that are not installed."""

from __future__ import annotations


def not_installed(error: ModuleNotFoundError, module: str, package: str) -> ModuleNotFoundError:
    """Returns the error for a missing package, with the command that installs it."""
    if error.name != module:
        # The package itself is installed, but one of its dependencies is not.
        return error
    return ModuleNotFoundError(f"{module} is not installed: pip install {package}", name=module)

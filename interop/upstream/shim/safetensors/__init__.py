"""Exposes Lodstone under the names of safetensors, so that the tests of safetensors run with it."""

from lodstone import (  # noqa: F401
    SafetensorError,
    TensorSpec,
    __version__,
    deserialize,
    safe_open,
    serialize,
    serialize_file,
)

# This function of safetensors accepts open files, and so does Lodstone's.
_safe_open_handle = safe_open

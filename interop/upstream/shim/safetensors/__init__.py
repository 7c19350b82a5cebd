"""The names of safetensors for what Lodstone has in their place, so that the tests of safetensors run with it."""

from lodstone import (  # noqa: F401
    SafetensorError,
    TensorSpec,
    __version__,
    deserialize,
    safe_open,
    serialize,
    serialize_file,
)

# There it takes files that are open; ours takes these too.
_safe_open_handle = safe_open

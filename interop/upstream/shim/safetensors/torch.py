from lodstone._sharing import duplicates, end_ptr, is_complete, shared
from lodstone.torch import (  # noqa: F401
    load,
    load_file,
    load_model,
    safe_open,
    save,
    save_file,
    save_model,
    storage_ptr,
    storage_size,
)


def _remove_duplicate_names(tensors, *, preferred_names=()):
    return duplicates(tensors, preferred_names)


# Private functions of safetensors that have their own tests.
_end_ptr, _find_shared_tensors, _is_complete = end_ptr, shared, is_complete

from lodstone.paddle import load, load_file, safe_open, save, save_file  # noqa: F401
